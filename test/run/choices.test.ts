/** Settings of a run, alone and combined: corrections, schedules, and the place of the KL term. */
import { orThrow } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/modules/transformer/config.js'
import { ALGORITHMS } from '../../src/objectives/algorithms.js'
import { GRPOLoss } from '../../src/objectives/grpoLoss.js'
import { AdaptiveKLController } from '../../src/objectives/klControl.js'
import { bySize, sizedLines } from '../../src/run/define/bySize.js'
import {
  advantageOf,
  klWeightOf,
  lossOf,
  offPolicyOf,
  optimizerOf,
  overlongOf,
  rewardFormOf,
  samplingRoundsOf,
} from '../../src/run/define/choices.js'
import { useEngine } from '../kit/engine.js'
import { type Flags, type RunSettings, useTemporaryFolder, withFlags } from '../kit/runs.js'
import { useTrainingRuns } from '../kit/trainingRuns.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()
/** A config of a size: one layer, and the rest in the embedding. */
const configOf = (vocabulary: number, hidden = 64) =>
  orThrow(
    parseConfig({
      model_type: 'llama',
      vocab_size: vocabulary,
      hidden_size: hidden,
      intermediate_size: hidden,
      num_hidden_layers: 1,
      num_attention_heads: 1,
      tie_word_embeddings: true,
    }),
  )
const EMBEDDED_CONFIG = configOf(1000)
const runs = useTrainingRuns(path)

const settings = (flags: Flags = {}): RunSettings => withFlags({ model: 'm' }, flags)

describe('a group of one', () => {
  it.each(Object.entries(ALGORITHMS))('is refused exactly if every advantage of %s is 0', (name, { advantage }) => {
    const lone = advantage({ groups: ['a', 'b'], rewards: [[0], [1]], mask: [[1], [1]] })
    const isNothing = E.isRight(lone) && lone.right.flat().every((value) => value === 0)
    const make = () => advantageOf(settings({ algorithm: name, group: 1 }))
    if (isNothing) expect(make).toThrow(`tasks.group: ${name} compares the completions of a task: expected at least 2`)
    else expect(make).not.toThrow()
    expect(() => advantageOf(settings({ algorithm: name, group: 2 }))).not.toThrow()
  })
})

describe('a correction', () => {
  const rescored = (flags: Flags) => offPolicyOf(settings({ oldLogProbs: 'rescored', ...flags }), GRPOLoss()).correction

  it.each([
    [{ correction: 'token-truncated' }, { weights: { level: 'token', limit: 2 } }],
    [{ correction: 'sequence-truncated', correctionHigh: 3 }, { weights: { level: 'sequence', limit: 3 } }],
    [{ correction: 'token-masked' }, { weights: { level: 'token', limit: [0.5, 5] } }],
    [{ correction: 'sequence-masked', correctionLow: 0.1 }, { weights: { level: 'sequence', limit: [0.1, 5] } }],
    [{ rejection: 'token-k2', rejectionLimit: 1 }, { reject: [{ statistic: 'token-k2', limit: 1 }] }],
  ] as const)('%j is the correction of its names', (changes, expected) => {
    expect(rescored(changes)).toEqual(expected)
  })

  it('is absent unless requested', () => {
    expect(rescored({})).toBeUndefined()
  })
})

describe('the learning rate', () => {
  const rates = (flags: Flags): readonly number[] => {
    const { learningRate } = optimizerOf(settings({ steps: 4, learningRate: 1, ...flags }), EMBEDDED_CONFIG)
    return [0, 1, 2, 3, 4].map((step) =>
      typeof learningRate === 'function' ? learningRate(step) : Number(learningRate),
    )
  }

  it.each([
    [{}, [1, 1, 1, 1, 1]],
    [{ warmup: 2 }, [0.5, 1, 1, 1, 1]],
    [{ schedule: 'linear' }, [1, 0.75, 0.5, 0.25, 0]],
    [{ schedule: 'linear', warmup: 2 }, [0.5, 1, 1, 0.5, 0]],
  ] as const)('%j', (flags, expected) => {
    expect(rates(flags)).toEqual(expected)
  })

  it('falls by half a cosine', () => {
    expect(rates({ schedule: 'cosine' })[2]).toBeCloseTo(0.5, 12)
    expect(rates({ schedule: 'cosine' })[4]).toBeCloseTo(0, 12)
  })
})

describe('settings by the size of the model', () => {
  it.each([
    ['a small model', 1000, {}, [1e-4, 4096, 'none']],
    ['49 million parameters', 768_000, {}, [1e-5, 4096, 'none']],
    ['131 million parameters', 2 ** 21, {}, [1e-5, 1024, 'none']],
    ['an adapter on 131 million parameters', 2 ** 21, { loraRank: 8 }, [1e-3, 1024, 'none']],
    ['an adapter on 524 million parameters', 2 ** 23, { loraRank: 8 }, [1e-4, 1024, 'layers']],
    ['524 million parameters', 2 ** 23, {}, [1e-5, 1024, 'layers']],
    ['2 billion parameters', 2 ** 25, {}, [1e-6, 1024, 'layers']],
  ] as const)('%s', (_, vocabulary, flags, expected) => {
    const sized = bySize(settings(flags), configOf(vocabulary))
    expect(Object.values(sized).map(({ value }) => value)).toEqual(expected)
    expect(sizedLines(sized)).toHaveLength(3)
  })

  it('are as given where they are given', () => {
    const sized = bySize(settings({ learningRate: 3e-4, microBatch: 100, recompute: 'layers' }), configOf(2 ** 25))
    expect(Object.values(sized).map(({ value }) => value)).toEqual([3e-4, 100, 'layers'])
    expect(sizedLines(sized)).toEqual([])
  })

  it('have a line with the reason', () => {
    expect(sizedLines(bySize(settings({}), configOf(2 ** 21)))[0]).toBe(
      'learner.learningRate 0.00001: all weights of 134 million parameters are trained',
    )
  })
})

/** Builds all parts of settings. Throws if they contradict each other. */
const parts = (flags: Flags) => {
  const all = settings(flags)
  return [
    lossOf(all),
    rewardFormOf(all),
    klWeightOf(all),
    overlongOf(all),
    offPolicyOf(all, GRPOLoss()),
    optimizerOf(all, EMBEDDED_CONFIG),
  ]
}

describe('settings that do not agree', () => {
  it.each([
    [{ correctionHigh: 3 }, 'correction none has no limits'],
    [{ correction: 'token-truncated' }, 'set oldLogProbs to rescored'],
    [{ correction: 'token-truncated', oldLogProbs: 'rescored', correctionLow: 0.5 }, 'has no lower limit'],
    [{ rejection: 'token-k2', oldLogProbs: 'rescored' }, 'set both or neither'],
    [{ rejectionLimit: 1 }, 'set both or neither'],
    [{ schedule: 'cosine', warmup: 60 }, 'leaves nothing of 60 steps'],
    [{ klForm: 'k3+' }, 'its KL form must be one of k1, abs, k2, k3, k3-limited; set kl.in to loss to use k3+'],
    [{ klTarget: 6, klCoefficient: 0.1 }, 'target and horizon go together'],
    [{ klHorizon: 100, klCoefficient: 0.1 }, 'target and horizon go together'],
    [{ klTarget: 6, klHorizon: 100, klCoefficient: 0 }, 'a coefficient of 0 cannot adapt'],
    [{ klTarget: 6, klHorizon: 100, klCoefficient: 0.1, klIn: 'loss' }, 'set kl.in to reward'],
    [{ algorithm: 'sapo', clipHigh: 0.3 }, 'sapo clips no ratios'],
    [{ algorithm: 'dppo', clipLow: 0 }, 'epsilon and largestRatio must be positive'],
    [{ optimizer: 'lion', optimizerOptions: { epsilon: 1 } }, "unknown option of lion 'epsilon'"],
    [{ overlongCache: 65 }, 'from 1 to 64, got 65'],
  ])('%j are refused with the reason', (flags, reason) => {
    expect(() => parts(flags)).toThrow(reason)
  })

  it('agree as they are, and each default does', () => {
    expect(() => parts({})).not.toThrow()
  })
})

describe('what is left to the algorithm', () => {
  it('is ten rounds and a fifth of the length for DAPO, and nothing for the others', () => {
    const dapo = settings({ algorithm: 'dapo' })
    expect([samplingRoundsOf(dapo), overlongOf(dapo)]).toEqual([10, { longest: 64, cache: 13, factor: 1 }])
    expect([samplingRoundsOf(settings()), overlongOf(settings())]).toEqual([1, null])
    const told = settings({ algorithm: 'dapo', dynamicSampling: 1, overlongCache: 0 })
    expect([samplingRoundsOf(told), overlongOf(told)]).toEqual([1, null])
  })
})

const SHORT = { steps: 1, prompts: 2, group: 2, evalTasks: 1 }

describe('a run', () => {
  it('that corrects says how far its sampler was from its trainer', async () => {
    const corrected = {
      ...SHORT,
      oldLogProbs: 'rescored',
      correction: 'token-truncated',
      rejection: 'token-k2',
    } as const
    const [step] = await runs.start('corrected', { ...corrected, rejectionLimit: 1 })
    expect(step!.correction!.meanWeight).toBeCloseTo(1, 4) // one engine is both
    expect(step!.correction).toMatchObject({ above: 0, below: 0, rejected: 0 })
    const [plain] = await runs.start('not corrected', SHORT)
    expect(plain!.correction).toBeNull()
    expect(step!.update.gradNorm).toBeCloseTo(plain!.update.gradNorm, 3)
  })

  it('with a schedule resumes in the middle of it, bit for bit', async () => {
    const steps = await runs.expectResumed('falling', { ...SHORT, steps: 2, schedule: 'linear', learningRate: 0.01 })
    expect(steps.map(({ learningRate }) => learningRate)).toEqual([0.01, 0.005])
  })

  it('whose weight of the divergence follows a target resumes with the weight that it had, bit for bit', async () => {
    const control = { klCoefficient: 0.5, klTarget: 1e-3, klHorizon: 8, klForm: 'k3' } as const
    const off = { ...SHORT, ...control, steps: 3, learningRate: 0.05 }
    const steps = await runs.expectResumed('controlled', off)
    let weight: number = control.klCoefficient
    for (const step of steps) {
      expect(step.klCoefficient).toBe(weight)
      const controller = AdaptiveKLController({ initial: weight, target: control.klTarget, horizon: control.klHorizon })
      weight = controller.update(step.completionKL!, 4).coefficient
    }
    expect(steps.map(({ completionKL }) => completionKL! >= 0)).toEqual([true, true, true]) // k3 is never negative
    expect(steps[1]!.klCoefficient).toBeLessThan(0.5) // nothing moved before the first update
    expect(steps[2]!.klCoefficient).toBeGreaterThan(steps[1]!.klCoefficient!) // the policy went beyond the target
  })

  it('has the divergence in the loss or in the reward, and not in both', async () => {
    const off = { ...SHORT, steps: 2, learningRate: 0.05, klCoefficient: 5 }
    const [, inReward] = await runs.start('reward', off)
    const [, inLoss] = await runs.start('loss', { ...off, klIn: 'loss' })
    const [, without] = await runs.start('without', { ...off, klCoefficient: 0 })
    expect(inLoss!.reward).toBeGreaterThanOrEqual(0) // nothing was taken from the reward
    expect(inReward!.update.klToRef).not.toBe(without!.update.klToRef)
    expect(Math.abs(inLoss!.update.loss - 5 * inLoss!.update.klToRef!)).toBeLessThan(Math.abs(inLoss!.update.loss))
  })
})

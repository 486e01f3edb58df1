/** What settings make of a run, alone and in one: corrections, schedules, and where the divergence counts. */
import { describe, expect, it } from 'vitest'
import { adaptiveKLController } from '../../src/objectives/klControl.js'
import { correctionOf, overlongOf, samplingRoundsOf, scheduleOf } from '../../src/run/choices.js'
import { DEFAULT_SETTINGS, type RunSettings } from '../../src/run/settings.js'
import { useEngine } from '../kit/engine.js'
import { useTemporaryFolder } from '../kit/runs.js'
import { useTrainingRuns } from '../kit/trainingRuns.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()
const runs = useTrainingRuns(path)

const settings = (changes: Partial<RunSettings>): RunSettings => ({ model: 'm', ...DEFAULT_SETTINGS, ...changes })

describe('correctionOf', () => {
  const rescored = (changes: Partial<RunSettings>) => correctionOf(settings({ oldLogProbs: 'rescored', ...changes }))

  it.each([
    [{ correction: 'token-truncated' }, { weights: { level: 'token', limit: 2 } }],
    [{ correction: 'sequence-truncated', correctionHigh: 3 }, { weights: { level: 'sequence', limit: 3 } }],
    [{ correction: 'token-masked' }, { weights: { level: 'token', limit: [0.5, 5] } }],
    [{ correction: 'sequence-masked', correctionLow: 0.1 }, { weights: { level: 'sequence', limit: [0.1, 5] } }],
    [{ rejection: 'token-k2', rejectionLimit: 1 }, { reject: [{ statistic: 'token-k2', limit: 1 }] }],
  ] as const)('%j is the correction of its names', (changes, expected) => {
    expect(rescored(changes)).toEqual(expected)
  })

  it('is none where none is asked for', () => {
    expect(rescored({})).toBeNull()
  })
})

describe('scheduleOf', () => {
  const rates = (changes: Partial<RunSettings>): readonly number[] => {
    const at = scheduleOf(settings({ steps: 4, learningRate: 1, ...changes }))
    return [0, 1, 2, 3, 4].map(at)
  }

  it.each([
    [{}, [1, 1, 1, 1, 1]],
    [{ warmup: 2 }, [0.5, 1, 1, 1, 1]],
    [{ schedule: 'linear' }, [1, 0.75, 0.5, 0.25, 0]],
    [{ schedule: 'linear', warmup: 2 }, [0.5, 1, 1, 0.5, 0]],
  ] as const)('%j', (changes, expected) => {
    expect(rates(changes)).toEqual(expected)
  })

  it('falls by half a cosine', () => {
    expect(rates({ schedule: 'cosine' })[2]).toBeCloseTo(0.5, 12)
    expect(rates({ schedule: 'cosine' })[4]).toBeCloseTo(0, 12)
  })
})

describe('what is left to the algorithm', () => {
  it('is ten rounds and a fifth of the length for DAPO, and nothing for the others', () => {
    const dapo = settings({ algorithm: 'dapo' })
    expect([samplingRoundsOf(dapo), overlongOf(dapo)]).toEqual([10, { longest: 64, cache: 13, factor: 1 }])
    expect([samplingRoundsOf(settings({})), overlongOf(settings({}))]).toEqual([1, null])
    expect([samplingRoundsOf({ ...dapo, dynamicSampling: 1 }), overlongOf({ ...dapo, overlongCache: 0 })]).toEqual([
      ...[1, null],
    ])
  })
})

const SHORT = { steps: 1, prompts: 2, group: 2, evalProblems: 1 }

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
    expect(step!.gradNorm).toBeCloseTo(plain!.gradNorm, 3)
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
      const controller = adaptiveKLController({ initial: weight, target: control.klTarget, horizon: control.klHorizon })
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
    expect(inReward!.klToRef).not.toBe(without!.klToRef)
    expect(Math.abs(inLoss!.loss - 5 * inLoss!.klToRef!)).toBeLessThan(Math.abs(inLoss!.loss))
  })
})

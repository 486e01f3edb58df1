/**
 * PPO with a value head: the loss is that of policy and value on the model's output, and both
 * learn.
 */
import { child, keyFromSeed, normals } from '@tandem-rl/base'
import { requireRight } from '@tandem-rl/testing'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { describe, expect, it } from 'vitest'
import { raggedRows } from '../../../src/data/tensorDict/leaf.js'
import { get } from '../../../src/data/tensorDict/tensorDict.js'
import { initialParams } from '../../../src/modules/transformer/params.js'
import { makeScorer } from '../../../src/modules/transformer/scorer.js'
import { TransformersWrapper } from '../../../src/modules/transformersWrapper.js'
import { initialValueHead, makeValuer, withoutValueHead } from '../../../src/modules/valueHead.js'
import { type GAEOptions, gae } from '../../../src/objectives/advantages/temporal.js'
import { totalLoss } from '../../../src/objectives/loss.js'
import { policyLoss } from '../../../src/objectives/policyLoss.js'
import type { PPOMetrics } from '../../../src/objectives/ppoLoss.js'
import { adamW } from '../../../src/objectives/updates/adamW.js'
import { valueLoss } from '../../../src/objectives/valueLoss.js'
import { expectClose } from '../../kit/close.js'
import { useEngine } from '../../kit/engine.js'
import { describeStep, gradientOf, SMALL_DECODER, type StepSubject, useParams } from '../../kit/lossSteps.js'
import { tinyConfig } from '../../kit/models.js'
import { rightOf } from '../../kit/results.js'
import { tokenPrompt } from '../../kit/small.js'
import { type PPORows, ppoStep, valueStep } from '../../kit/stepsOf.js'
import { paddedTensor, rowsOf as randomRows } from '../../kit/trainingRows.js'

useEngine({ threads: 1 })

const config = tinyConfig(SMALL_DECODER)

const params = useParams(() => {
  const key = keyFromSeed(1)
  return { ...initialParams(config, key, 0.5), ...initialValueHead(config, child(key, 'head'), 1) }
})

/** Rows with advantages and returns for rewards at the last trained token. */
const valued = (
  rows: Omit<PPORows, 'advantages' | 'returns'>,
  rewards: readonly number[],
  options: GAEOptions = {},
): PPORows => {
  const mask = rows.masks ?? rows.completions.map((row) => Array.from(row, () => 1))
  const tokenRewards = mask.map((row, i) => {
    const last = Array.prototype.lastIndexOf.call(row, 1)
    return Array.from(row, (_, t) => (t === last ? rewards[i]! : 0))
  })
  const given = { groups: mask.map((_, i) => `${i}`), rewards: tokenRewards, mask }
  return { ...rows, ...requireRight(gae(given, rows.oldValues, options)) }
}

const rowsOf = (seed: number): PPORows => {
  const rows = randomRows(config.vocabularySize, [2, 1, 1], seed)
  const values = rows.completions.map((row, i) => normals(child(keyFromSeed(seed), i), row.length))
  const masks = rows.completions.map((row) => Array.from(row, (_, t) => (t === 1 ? 0 : 1)))
  return valued({ ...rows, masks, oldValues: values }, [1, 0, -1, 2], { gamma: 0.9, lambda: 0.8 })
}

const losses = {
  policy: policyLoss({ entropyCoefficient: 0.05, kl: [{ to: 'reference', coefficient: 0.1 }] }),
  value: valueLoss({ clipEpsilon: 1 }),
  valueCoefficient: 0.7,
}

const subject: StepSubject<PPORows, PPOMetrics> = {
  step: (changes) => ppoStep({ config, ...losses, ...changes }),
  params,
  rows: rowsOf,
  broken: (rows) => ({ ...rows, returns: rows.returns.map((row) => Array.from(row, () => Number.NaN)) }),
}

describe('ppoStep', () => {
  it('has the loss of policy and value on what the model says of its rows', () => {
    const rows = rowsOf(7)
    const [scorer, valuer] = [makeScorer(config), makeValuer(config)]
    const { prompts, completions } = rows
    const logProbs = scorer.score(params(), { prompts, completions, temperature: 1, shared: 1 })
    const values = valuer.values(params(), rows)
    for (const used of [scorer, valuer]) used.release()
    const expected = scope(() => {
      const mask = paddedTensor(rows.masks!)
      const { lossValue } = losses.value.apply(
        { values: paddedTensor(values) },
        { oldValues: paddedTensor(rows.oldValues), returns: paddedTensor(rows.returns), mask },
      )
      const policy = policyLoss({ kl: [{ to: 'reference', coefficient: 0.1 }] }).apply(
        { logProbs: paddedTensor(logProbs) },
        {
          oldLogProbs: paddedTensor(rows.oldLogProbs),
          refLogProbs: paddedTensor(rows.refLogProbs!),
          advantages: paddedTensor(rows.advantages as readonly ArrayLike<number>[]), // one for each token
          mask,
        },
      )
      return [totalLoss(policy), lossValue].map((x) => x.dataSync()[0]!)
    })
    const { metrics } = gradientOf(subject, rows)
    const total = expected[0]! + 0.7 * expected[1]! - 0.05 * metrics.entropy
    expectClose([metrics.valueLoss, metrics.loss], [expected[1]!, total], { absolute: 1e-5, relative: 1e-5 })
  })

  it('reports the explained variance of the values', () => {
    const rows = rowsOf(7)
    const valuer = makeValuer(config)
    const known = valuer.values(params(), rows)
    valuer.release()
    const explained = (returns: PPORows['returns']) =>
      gradientOf(subject, { ...rows, returns }).metrics.explainedVariance
    expectClose([explained(known)!], [1], { absolute: 1e-4 })
    expectClose([explained(known.map((row) => row.map((x) => x + 2)))!], [1], { absolute: 1e-3 })
    expect(explained(known.map((row) => row.map(() => 3)))).toBeNull()
  })

  it('learns from sampled rewards which token pays, with its values on the way', async () => {
    const step = ppoStep({ config, optimizer: adamW({ weightDecay: 0 }), valueCoefficient: 0.5 })
    const valuer = makeValuer(config)
    const first = scope(() => ({ ...params(), ...initialValueHead(config, keyFromSeed(2)) }))
    let state = own(scope(() => step.init(first)))
    const sampling = { maxNewTokens: 2, temperature: 1 }
    const policy = TransformersWrapper({ config, params: withoutValueHead(first), sampling, stopTokens: [] })
    const prompts = Array.from({ length: 64 }, () => [3, 4])
    const earned: number[] = []
    for (let i = 0; i < 25; i++) {
      const action = await rightOf(policy.act(tokenPrompt(prompts), child(keyFromSeed(5), i)))
      const completions = raggedRows(get(action, 'tokens', 'response'))
      const oldLogProbs = raggedRows(get(action, 'logProbs', 'response'))
      const rewards = completions.map((row) => Array.from(row).filter((id) => id < 8).length)
      earned.push(rewards.reduce((a, b) => a + b, 0) / rewards.length)
      const oldValues = valuer.values(state.value.params, { prompts, completions })
      const rows = valued({ prompts, completions, oldLogProbs, temperature: 1, oldValues }, rewards)
      const { state: next } = step.update(state.value, rows, 0.03)
      state.release()
      state = next
      await rightOf(policy.load(withoutValueHead(state.value.params), i + 1))
    }
    for (const used of [state, step, valuer, policy]) used.release()
    expect(earned[0]).toBeLessThan(0.8)
    expect(earned.at(-1)).toBeGreaterThan(1.7)
  })

  it('refuses a negative coefficient, and parameters without a value head', () => {
    expect(() => ppoStep({ config, optimizer: adamW(), valueCoefficient: -1 })).toThrow('valueCoefficient')
    const step = ppoStep({ config, optimizer: adamW() })
    using state = own(scope(() => step.init(withoutValueHead(params()))))
    expect(() => step.update(state.value, rowsOf(1), 0.1)).toThrow("there is no 'value_head.weight'")
    step.release()
  })

  describeStep(subject)
})

describe('valueStep', () => {
  it('learns the returns of its rows with a backbone of its own', () => {
    const step = valueStep({ config, optimizer: adamW({ weightDecay: 0 }) })
    const rows = {
      prompts: [[3], [4]],
      completions: [
        [5, 6, 7],
        [8, 9],
      ],
      returns: [
        [1, 2, 3],
        [0, -1],
      ],
    }
    let state = own(scope(() => step.init(params())))
    const seen: (number | null)[] = []
    for (let i = 0; i < 60; i++) {
      const { state: next, metrics } = step.update(state.value, rows, 0.03)
      state.release()
      state = next
      seen.push(metrics.explainedVariance)
      expectClose([metrics.loss], [metrics.valueLoss], {})
    }
    state.release()
    expect(seen.at(-1)!).toBeGreaterThan(0.99)
    using start = own(scope(() => step.init(params())))
    expect(() => step.update(start.value, { ...rows, returns: [[1], [0, -1]] }, 0)).toThrow(
      'valueLoss: row 0 has 3 tokens but 1 returns',
    )
    step.release()
  })
})

import { keyFromSeed } from '@tandem-rl/base'
import { liveTensors, type Owned, own, ownedCount, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { data, ragged, raggedRows } from '../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { NonFiniteLoss } from '../../../src/learners/steps/lossStep.js'
import { initialParams, type Params } from '../../../src/modules/transformer/params.js'
import { makeScorer } from '../../../src/modules/transformer/scorer.js'
import { TransformersWrapper } from '../../../src/modules/transformersWrapper.js'
import { adamW } from '../../../src/objectives/updates/adamW.js'
import { expectClose } from '../../kit/close.js'
import { useEngine, valuesOf } from '../../kit/engine.js'
import { undividedMetrics } from '../../kit/lossSteps.js'
import { tinyConfig } from '../../kit/models.js'
import { rightOf } from '../../kit/results.js'
import { policyStep } from '../../kit/stepsOf.js'
import type { TrainingRows } from '../../kit/trainingRows.js'
import { descent, rowsOf as randomRows } from '../../kit/trainingRows.js'

useEngine()

const config = tinyConfig({ layers: 1, hiddenSize: 8, intermediateSize: 8, heads: 2, keyValueHeads: 1, headSize: 4 })
const V = config.vocabularySize

type Options = Partial<Omit<Parameters<typeof policyStep>[0], 'config' | 'optimizer'>>

let params: Owned<Params>
let blank: Owned<Params>

beforeAll(() => {
  params = own(scope(() => initialParams(config, keyFromSeed(1), 0.5)))
  blank = own(scope(() => initialParams(config, keyFromSeed(1), 0))) // every token has probability 1 / V
})
afterAll(() => {
  params.release()
  blank.release()
})

const rowsOf = (groupSizes: readonly number[], seed?: number): TrainingRows => randomRows(V, groupSizes, seed)

const numbersOf = (record: Params) => Object.fromEntries(Object.entries(record).map(([n, t]) => [n, valuesOf(t)]))

/** One step of plain descent: the parameters after it and its metrics. */
const stepOnce = (rows: TrainingRows, options: Options = {}, rate = 1, from: Params = params.value) => {
  const step = policyStep({ config, optimizer: descent, maxGradNorm: 1e9, ...options })
  const { state, metrics } = step.update({ params: from, optimizer: {} }, rows, rate)
  using owned = state
  const result = { params: numbersOf(owned.value.params), metrics }
  step.release()
  return result
}

const moved = (after: Readonly<Record<string, readonly number[]>>): number =>
  Math.hypot(...Object.entries(numbersOf(params.value)).flatMap(([n, xs]) => xs.map((x, i) => after[n]![i]! - x)))

describe('micro-batches', () => {
  const groupings = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 4 })

  it.each(['token-mean', 'prompt-mean'] as const)(
    'of any size give the parameters and metrics of one batch (%s)',
    (aggregation) => {
      const loss = { aggregation, klToRefCoefficient: 0.1, entropyCoefficient: 0.01, klToInferenceCoefficient: 0.05 }
      fc.assert(
        fc.property(groupings, fc.constantFrom(1, 60, 120), fc.nat(50), (sizes, microBatchTokens, seed) => {
          const rows = rowsOf(sizes, seed)
          const [whole, parts] = [stepOnce(rows, { loss }), stepOnce(rows, { loss, microBatchTokens })]
          for (const [name, values] of Object.entries(whole.params)) {
            expectClose(parts.params[name]!, values, { absolute: 1e-6, relative: 1e-6 })
          }
          for (const [name, value] of undividedMetrics(whole.metrics)) {
            expectClose([parts.metrics[name] ?? 0], [value], { absolute: 2e-6, relative: 1e-5 })
          }
        }),
        { numRuns: 4 },
      )
    },
  )
})

describe('the metrics', () => {
  const mean = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0) / xs.length

  it('are means over the tokens, each counted once', () => {
    const scorer = makeScorer(config)
    for (const seed of [1, 2]) {
      const rows = rowsOf([2, 2, 1], seed)
      const flat = scorer
        .score(params.value, { prompts: rows.prompts, completions: rows.completions, temperature: 1, shared: 1 })
        .flatMap((row) => [...row])
      const [old, reference] = [rows.oldLogProbs, rows.refLogProbs!].map((list) =>
        list.flatMap((row) => Array.from(row)),
      )
      const advantages = rows.completions.flatMap((row, i) =>
        Array<number>(row.length).fill(Number(rows.advantages[i])),
      )
      const ratios = flat.map((x, t) => Math.exp(x - old![t]!))
      const clipped = ratios.map((w) => Math.min(Math.max(w, 0.8), 1.2))
      const squares = ratios.reduce((sum, w) => sum + w * w, 0)
      const { metrics } = stepOnce(rows)
      const expected = {
        loss: -mean(ratios.map((w, t) => Math.min(w * advantages[t]!, clipped[t]! * advantages[t]!))),
        clipFraction: mean(ratios.map((w, t) => (w === clipped[t] ? 0 : 1))),
        klApprox: mean(flat.map((x, t) => old![t]! - x)),
        klToRef: mean(flat.map((x, t) => Math.exp(reference![t]! - x) - 1 - (reference![t]! - x))),
        ess: (ratios.length * mean(ratios)) ** 2 / (ratios.length * squares),
        tokens: flat.length,
        maxLogProbGap: Math.max(...flat.map((x, t) => Math.abs(x - old![t]!))),
      }
      for (const [name, value] of Object.entries(expected) as [keyof typeof expected, number][]) {
        expectClose([metrics[name]!], [value], { absolute: 1e-5, relative: 1e-5 })
      }
    }
    scorer.release()
  })

  it.each([undefined, 0.02])(
    'of a model that knows nothing have the entropy of all tokens being alike (klMaskThreshold %s)',
    (threshold) => {
      const rows = rowsOf([3, 2])
      const loss = threshold === undefined ? {} : { klMaskThreshold: threshold }
      const { metrics } = stepOnce(rows, { loss, microBatchTokens: 60 }, 1, blank.value)
      expect(metrics.tokens).toBeGreaterThan(0)
      expectClose([metrics.entropy], [Math.log(V)], { absolute: 1e-5 })
    },
  )

  it('of rows that the same weights have sampled show no gap, no clipping and no divergence', async () => {
    // at other widths and batch sizes matrix products add up in another order: 1e-6 apart
    const wide = tinyConfig({ hiddenSize: 128, intermediateSize: 256, headSize: 32, vocabularySize: 64, layers: 1 })
    using weights = own(scope(() => initialParams(wide, keyFromSeed(2), 0.1)))
    const policy = TransformersWrapper({
      config: wide,
      params: weights.value,
      sampling: { maxNewTokens: 40 },
      stopTokens: [],
    })
    const prompts = [[5, 6, 7], [9], [4, 4, 8]].flatMap((prompt) => Array<number[]>(48).fill(prompt))
    const td = TensorDict({ tokens: { prompt: ragged('int32', prompts), spans: data(prompts.map(() => [])) } }, [144])
    const action = await rightOf(policy.act(td, keyFromSeed(3)))
    policy.release()
    const step = policyStep({ config: wide, optimizer: descent })
    const rows = {
      prompts,
      completions: raggedRows(get(action, 'tokens', 'response')),
      oldLogProbs: raggedRows(get(action, 'logProbs', 'response')),
      advantages: prompts.map((_, i) => (i % 2 === 0 ? 1 : -1)),
      temperature: 1,
    }
    const { state, metrics } = step.update({ params: weights.value, optimizer: {} }, rows, 1e-3)
    state.release()
    step.release()
    expect(metrics).toMatchObject({ clipFraction: 0, klToRef: null })
    expect(metrics.maxLogProbGap).toBeLessThan(1e-5) // kernels of sampling and of training add up in other orders
    expectClose([metrics.klApprox, metrics.ess], [0, 1], { absolute: 1e-6 })
  })
})

describe('a step', () => {
  it('makes completions with a positive advantage more probable against those with a negative one', () => {
    const scorer = makeScorer(config)
    const drawn = rowsOf([2])
    const score = (weights: Params) =>
      scorer.score(weights, {
        prompts: drawn.prompts,
        shared: 1,
        completions: drawn.completions,
        temperature: 1,
      })
    const margin = (weights: Params): number => {
      const [good, bad] = score(weights).map((row) => row.reduce((sum, x) => sum + x, 0))
      return good! - bad!
    }
    const step = policyStep({ config, optimizer: descent })
    const rows = { ...drawn, advantages: [1, -1], oldLogProbs: score(params.value) }
    const { state } = step.update({ params: params.value, optimizer: {} }, rows, 0.01)
    using after = state
    expect(margin(after.value.params)).toBeGreaterThan(margin(params.value))
    step.release()
    scorer.release()
  })

  it('clips the gradient to the norm allowed, and reports the norm before', () => {
    const rows = rowsOf([3])
    const { gradNorm } = stepOnce(rows).metrics
    expect(gradNorm).toBeGreaterThan(0.01)
    for (const maxGradNorm of [gradNorm / 3, gradNorm * 2]) {
      const result = stepOnce(rows, { maxGradNorm })
      expectClose([result.metrics.gradNorm], [gradNorm], { relative: 1e-5 })
      expectClose([moved(result.params)], [Math.min(maxGradNorm, gradNorm)], { relative: 1e-3 })
    }
  })

  it('changes nothing without a signal: no advantage, or no token', () => {
    const rows = rowsOf([2, 2])
    const flat = stepOnce({ ...rows, advantages: [0, 0, 0, 0] })
    const empty = [[], [], [], []]
    const silent = stepOnce({ ...rows, completions: empty, oldLogProbs: empty, refLogProbs: empty })
    for (const { params: after, metrics } of [flat, silent]) {
      expect(after).toEqual(numbersOf(params.value))
      expect([Math.abs(metrics.loss), metrics.gradNorm]).toEqual([0, 0])
    }
    expect([silent.metrics.tokens, silent.metrics.ess, silent.metrics.entropy]).toEqual([0, 0, 0])
  })

  it('neither frees nor changes the state it is given, and its own state is freed on release', () => {
    const step = policyStep({ config, optimizer: adamW() })
    using first = own(scope(() => step.init(params.value)))
    const before = liveTensors().count
    const { state } = step.update(first.value, rowsOf([2]), 0.1)
    const again = step.update(first.value, rowsOf([2]), 0.1)
    expect(numbersOf(again.state.value.params)).toEqual(numbersOf(state.value.params))
    state.release()
    again.state.release()
    expect(liveTensors().count).toBe(before)
    step.release()
  })
})

describe('what goes wrong', () => {
  it('NaN in the batch throws NonFiniteLoss, keeps nothing, and leaves the state unchanged', () => {
    const step = policyStep({ config, optimizer: adamW() })
    using state = own(scope(() => step.init(params.value)))
    const good = rowsOf([2])
    const bad = [
      { ...good, advantages: [1, Number.NaN] },
      { ...good, oldLogProbs: good.completions.map((row) => Array(row.length).fill(Number.NEGATIVE_INFINITY)) },
    ]
    const next = () => {
      const { state: after } = step.update(state.value, good, 0.1)
      using owned = after
      return numbersOf(owned.value.params)
    }
    const expected = next()
    for (const rows of bad) {
      const before = [liveTensors().count, ownedCount()]
      expect(() => step.update(state.value, rows, 0.1)).toThrow(NonFiniteLoss)
      expect([liveTensors().count, ownedCount()]).toEqual(before)
      expect(next()).toEqual(expected)
    }
    step.release()
  })

  it.each([
    ['no rows', () => rowsOf([])],
    ['fewer advantages than rows', (rows: TrainingRows) => ({ ...rows, advantages: [1] })],
    ['fewer prompts than rows', (rows: TrainingRows) => ({ ...rows, prompts: [[1]] })],
    [
      'a row with fewer log-probabilities than tokens',
      (rows: TrainingRows) => ({ ...rows, oldLogProbs: [rows.oldLogProbs[0]!, []] }),
    ],
    [
      'a row with fewer log-probabilities of the reference',
      (rows: TrainingRows) => ({ ...rows, refLogProbs: [rows.refLogProbs![0]!, []] }),
    ],
  ])('%s throws RangeError', (_, change) => {
    expect(() => stepOnce(change(rowsOf([2])))).toThrow(RangeError)
  })
})

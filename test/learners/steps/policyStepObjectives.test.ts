/**
 * The training step with what objectives besides GRPO's need: advantages and weights by token,
 * another sampler, random numbers.
 */
import { child, type Key, keyFromSeed, normals, uniforms } from '@tandem-rl/base'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { correctedRows, rescoredRows } from '../../../src/learners/steps/correction.js'
import { initialParams, type Params } from '../../../src/modules/transformer/params.js'
import { withNoise } from '../../../src/objectives/lossRows.js'
import { policyLoss } from '../../../src/objectives/policyLoss.js'
import { cispo } from '../../../src/objectives/tokenLosses/cispo.js'
import { clippedSurrogate } from '../../../src/objectives/tokenLosses/clippedSurrogate.js'
import { clipCov, klCov } from '../../../src/objectives/tokenLosses/covariance.js'
import { gmpo } from '../../../src/objectives/tokenLosses/gmpo.js'
import { gspo } from '../../../src/objectives/tokenLosses/gspo.js'
import { sapo } from '../../../src/objectives/tokenLosses/sapo.js'
import { vespo } from '../../../src/objectives/tokenLosses/vespo.js'
import { expectClose } from '../../kit/close.js'
import { useEngine, valuesOf } from '../../kit/engine.js'
import { undividedMetrics } from '../../kit/lossSteps.js'
import { tinyConfig } from '../../kit/models.js'
import { policyStep } from '../../kit/stepsOf.js'
import { descent, flatRows, lossRows, rowsOf, type TrainingRows } from '../../kit/trainingRows.js'

useEngine()

const config = tinyConfig({ layers: 1, hiddenSize: 8, intermediateSize: 8, heads: 2, keyValueHeads: 1, headSize: 4 })
const key = keyFromSeed(5)

let params: Owned<Params>
beforeAll(() => {
  params = own(scope(() => initialParams(config, keyFromSeed(1), 0.5)))
})
afterAll(() => params.release())

const each = (rows: TrainingRows, name: string, f: (x: number) => number) =>
  rows.completions.map((row, i) => Array.from(normals(child(child(key, name), i), row.length), f))

const plain = rowsOf(config.vocabularySize, [3, 2])
/** Rows with everything that a token can have. */
const noisy = (rows: TrainingRows, key: Key): TrainingRows => flatRows(withNoise(lossRows(rows), key))
const full: TrainingRows = noisy(
  {
    ...plain,
    behaviorLogProbs: plain.oldLogProbs.map((row) => Array.from(row, (x) => x - 0.3)),
    weights: each(plain, 'weight', Math.abs),
    advantages: each(plain, 'advantage', (x) => x),
  },
  key,
)

/** One step of plain descent. */
const stepOnce = (
  rows: TrainingRows,
  options: Partial<Omit<Parameters<typeof policyStep>[0], 'config' | 'optimizer'>>,
) => {
  const step = policyStep({ config, optimizer: descent, maxGradNorm: 1e9, ...options })
  const { state, metrics } = step.update({ params: params.value, optimizer: {} }, rows, 1)
  using owned = state
  const after = Object.entries(owned.value.params).map(([name, x]) => [name, valuesOf(x)] as const)
  step.release()
  return { after, metrics }
}

const expectSame = (actual: ReturnType<typeof stepOnce>, expected: ReturnType<typeof stepOnce>): void => {
  for (const [i, [name, values]] of expected.after.entries()) {
    expect(actual.after[i]![0]).toBe(name)
    expectClose(actual.after[i]![1], values, { absolute: 3e-6, relative: 1e-5 })
  }
  expectClose(
    undividedMetrics(actual.metrics).map(([, x]) => x),
    undividedMetrics(expected.metrics).map(([, x]) => x),
    { absolute: 1e-5, relative: 1e-5 },
  )
}

describe('every objective', () => {
  it.each([
    ['clippedSurrogate', clippedSurrogate({ dualClip: 2 })],
    ['gspo', gspo({ form: 'token', clipEpsilon: 0.5 })],
    ['cispo', cispo()],
    ['gmpo', gmpo()],
    ['sapo', sapo()],
    ['vespo', vespo()],
  ])('%s: micro-batches and computing layers again change nothing', (_, objective) => {
    const loss = policyLoss({ objective, kl: [{ to: 'behavior', coefficient: 0.1 }] })
    const whole = stepOnce(full, { loss })
    expect(whole.metrics.gradNorm).toBeGreaterThan(1e-3)
    expectSame(stepOnce(full, { loss, microBatchTokens: 30, recompute: 'layers' }), whole)
  })

  it('clipCov: the tokens that are held back are chosen by the noise of the rows', () => {
    const loss = policyLoss({ objective: clipCov({ share: 0.3, bounds: [-9, 9] }) })
    const whole = stepOnce(full, { loss })
    expectSame(stepOnce(full, { loss, recompute: 'layers' }), whole)
    expect(stepOnce(noisy(full, keyFromSeed(6)), { loss }).after).not.toEqual(whole.after)
    expect(() => stepOnce(plain, { loss })).toThrow('clipCov needs `noise`')
  })
})

describe('objectives that choose tokens', () => {
  const loss = (share: number) => ({
    clipCov: policyLoss({ objective: clipCov({ share, bounds: [-9, 9] }), entropyCoefficient: 0.01 }),
    klCov: policyLoss({ objective: klCov({ share, coefficient: 2 }), klMaskThreshold: 5 }),
  })

  it.each(['clipCov', 'klCov'] as const)('%s: chooses in the whole mini-batch, whatever its micro-batches', (name) => {
    const some = loss(0.1)[name]
    const whole = stepOnce(full, { loss: some })
    expectSame(stepOnce(full, { loss: some, microBatchTokens: 1, recompute: 'layers' }), whole)
    expect(stepOnce(full, { loss: loss(0.5)[name] }).after).not.toEqual(whole.after) // the choice matters
  })
})

describe('settings of a step', () => {
  it.each([
    [
      { maxGradNorm: 0, microBatchTokens: Number.NaN },
      /^GRPOLoss: maxGradNorm must be .* 0; microBatchTokens must be .* NaN$/,
    ],
    [{ maxGradNorm: Number.NaN }, /maxGradNorm must be positive, got NaN/],
    [{ maxGradNorm: -1 }, /got -1/],
    [{ microBatchTokens: 0 }, /microBatchTokens must be at least 1, got 0/],
    [{ microBatchTokens: -4096 }, /got -4096/],
  ])('%o are refused when it is made', (options, reason) => {
    expect(() => policyStep({ config, optimizer: descent, ...options })).toThrow(reason)
  })

  it('may be without limits', () => {
    const whole = { maxGradNorm: Number.POSITIVE_INFINITY, microBatchTokens: Number.POSITIVE_INFINITY }
    expectSame(stepOnce(plain, whole), stepOnce(plain, {}))
  })

  it.each([Number.NaN, Number.POSITIVE_INFINITY, -1])('a learning rate of %s is refused', (rate) => {
    const step = policyStep({ config, optimizer: descent })
    expect(() => step.update({ params: params.value, optimizer: {} }, plain, rate)).toThrow(
      /^GRPOLoss: the learning rate must not be negative/,
    )
    step.release()
  })
})

describe('what a token has', () => {
  const loss = policyLoss({ objective: cispo() })

  it('advantages by token that are the same in a row do what one for the row does', () => {
    const spread = plain.completions.map((row, i) => Array<number>(row.length).fill(Number(plain.advantages[i])))
    expectSame(stepOnce({ ...plain, advantages: spread }, { loss }), stepOnce(plain, { loss }))
  })

  it('a weight does to the gradient what it would do to the advantage', () => {
    const weights = each(plain, 'weight', Math.abs)
    const weighted = weights.map((row, i) => row.map((w) => w * Number(plain.advantages[i])))
    const byWeight = stepOnce({ ...plain, weights }, { loss })
    const byAdvantage = stepOnce({ ...plain, advantages: weighted }, { loss })
    expectSame(byWeight, byAdvantage)
  })

  it('pgClipFraction is the share of tokens that lost their gradient', () => {
    const good = { ...plain, advantages: plain.advantages.map(() => 1) }
    const narrow = policyLoss({ objective: clippedSurrogate({ clipEpsilon: 0 }) })
    const { pgClipFraction, clipFraction } = stepOnce(good, { loss: narrow }).metrics
    expect(clipFraction).toBeCloseTo(1, 6)
    expect(pgClipFraction).toBeGreaterThan(0)
    expect(pgClipFraction).toBeLessThan(1)
    expect(stepOnce(good, { loss }).metrics.pgClipFraction).toBe(0)
  })

  it.each([
    ['weights', { weights: [[1]] }],
    ['noise', { noise: full.completions.map(() => []) }],
    ['advantages', { advantages: full.completions.map(() => []) }],
    ['behaviorLogProbs', { behaviorLogProbs: full.completions.map(() => [0, 0, 0, 0, 0, 0, 0]) }],
  ])('%s that do not fit are refused by name', (name, change) => {
    expect(() => stepOnce({ ...full, ...change }, { loss })).toThrow(new RegExp(`^cispo: .* ${name}$`))
  })
})

describe('withNoise', () => {
  it('draws for each row from its own stream', () => {
    expect(full.noise![1]).toEqual(uniforms(child(key, 1), full.completions[1]!.length))
  })
})

describe('correctedRows', () => {
  it('weights tokens by the ratio of trainer and sampler, and masks what is rejected', () => {
    const rows = lossRows({
      prompts: [[1], [1]],
      completions: [[2, 3], [4]],
      oldLogProbs: [[-2, -2], [-1]],
      advantages: [1, -1],
      temperature: 1,
    })
    const moved = rescoredRows(rows, [[-1, -2], [-5]])
    expect(moved.lists).toEqual({ ...rows.lists, behaviorLogProbs: [[-2, -2], [-1]], oldLogProbs: [[-1, -2], [-5]] })
    const { rows: corrected, metrics } = correctedRows(
      { ...moved, lists: { ...moved.lists, weights: [[2, 2], [2]] } },
      { weights: { level: 'token', limit: 2 }, reject: [{ statistic: 'sequence-mean-k2', limit: 1 }] },
    )
    expect(corrected.masks).toEqual([[1, 1], [0]])
    expectClose(
      flatRows(corrected).weights!.flatMap((row) => Array.from(row)),
      [4, 2, 2 * Math.exp(-4)],
      { absolute: 1e-12 },
    )
    expect(metrics.rejected).toBeCloseTo(1 / 3, 12)
    expect(rescoredRows(moved, [[0, 0], [0]]).lists.behaviorLogProbs).toBe(rows.lists.oldLogProbs)
  })

  it('refuses rows without the log-probabilities of the sampler', () => {
    expect(() => correctedRows(lossRows(plain), {})).toThrow(/no behaviorLogProbs/)
  })

  it('without options changes no gradient', () => {
    const loss = policyLoss()
    expectSame(stepOnce(flatRows(correctedRows(lossRows(full), {}).rows), { loss }), stepOnce(full, { loss }))
  })
})

import { child, keyFromSeed, uniform } from '@tandem-rl/base'
import { requireLeft, requireRight } from '@tandem-rl/testing'
import type { SamplingParams } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { countTokens } from '../../../../src/modules/generation/sampling/counts.js'
import { DEFAULT_SAMPLING } from '../../../../src/modules/generation/sampling/params.js'
import { type SampleState, sampleToken } from '../../../../src/modules/generation/sampling/sampleToken.js'
import { nextTokenOf } from '../../../kit/nextToken.js'
import { oracleDistribution, oracleLogits, ranking, softmax } from '../../../kit/samplingOracle.js'

const VOCABULARY = 23

/** Logits on a grid, so that many are equal, or anywhere; some without a chance. */
const logitsOf = (size: number): fc.Arbitrary<Float32Array> =>
  fc
    .array(
      fc.oneof(
        { weight: 6, arbitrary: fc.integer({ min: -12, max: 12 }).map((quarter) => quarter / 4) },
        { weight: 6, arbitrary: fc.double({ min: -60, max: 60, noNaN: true }) },
        { weight: 1, arbitrary: fc.constant(Number.NEGATIVE_INFINITY) },
      ),
      { minLength: size, maxLength: size },
    )
    .filter((row) => row.some(Number.isFinite))
    .map((row) => Float32Array.from(row))

const id = fc.nat(VOCABULARY - 1)
const ids = fc.array(id, { maxLength: 6 })

/** Mostly off: most rows have few of them at once, and many have none. */
const offOr = <T>(off: T, ...others: readonly T[]): fc.Arbitrary<T> =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(off) }, { weight: 1, arbitrary: fc.constantFrom(...others) })

const anyParams: fc.Arbitrary<SamplingParams> = fc
  .record({
    temperature: fc.constantFrom(0, 0, 0.01, 0.5, 1, 1, 2, 30),
    topK: offOr(0, 1, 2, 5, VOCABULARY, 100),
    topP: offOr(1, 0.123, 0.512, 0.937, 1e-9),
    minP: offOr(0, 0.05, 0.3, 1),
    repetitionPenalty: offOr(1, 0.5, 1.3),
    presencePenalty: offOr(0, 1.5, -2),
    frequencyPenalty: offOr(0, 0.7, -0.3),
    logitBias: offOr<readonly (readonly [number, number])[]>(
      [],
      [[0, 5]],
      [
        [3, -100],
        [7, 0.3],
      ],
    ).map((pairs) => new Map(pairs)),
    allowedTokens: fc.oneof(
      { weight: 4, arbitrary: fc.constant(null) },
      { weight: 1, arbitrary: fc.uniqueArray(id, { minLength: 1, maxLength: 8 }) },
    ),
  })
  .map((some) => ({ ...DEFAULT_SAMPLING, ...some }))

const anyState: fc.Arbitrary<SampleState> = fc
  .record({ prompt: ids, output: ids, banned: fc.oneof(fc.constant([]), ids), step: fc.nat(5000) })
  .map(({ prompt, output, banned, step }) => ({
    promptCounts: countTokens(prompt),
    outputCounts: countTokens(output),
    banned,
    step,
    key: child(keyFromSeed(1), step % 7),
  }))

const rows = fc.tuple(logitsOf(VOCABULARY), anyParams, anyState)

/** How far a point is from the place of a token among the cumulated probabilities: 0 inside. */
const distanceTo = (chances: readonly number[], token: number, point: number): number => {
  const start = chances.slice(0, token).reduce((sum, chance) => sum + chance, 0)
  return Math.max(0, start - point, point - (start + chances[token]!))
}

/** Log-probabilities of different magnitudes: absolute near 0, relative far from it. */
const expectLogProb = (actual: number, expected: number): void => {
  if (expected === Number.NEGATIVE_INFINITY) expect(actual).toBe(expected)
  else expect(Math.abs(actual - expected)).toBeLessThan(2e-6 * Math.max(1, Math.abs(expected)))
}

/** Log-softmax: the logarithm of a probability that vanishes is still a number. */
const logSoftmax = (row: readonly number[]): readonly number[] => {
  const max = Math.max(...row)
  const logMass = Math.log(row.reduce((sum, logit) => sum + Math.exp(logit - max), 0))
  return row.map((logit) => logit - max - logMass)
}

describe('a sampled token', () => {
  it('is the one that inverse transform gives on the distribution of the oracle', () => {
    const law = fc.property(rows, ([logits, params, state]) => {
      fc.pre(oracleLogits(logits, params, state).some(Number.isFinite))
      const token = requireRight(sampleToken(nextTokenOf(logits, params), params, state))
      const chances = oracleDistribution(logits, params, state)
      if (params.temperature === 0) expect(token.id).toBe(ranking(oracleLogits(logits, params, state))[0])
      else expect(distanceTo(chances, token.id, uniform(state.key, state.step))).toBeLessThan(1e-6)
      expect(chances[token.id]).toBeGreaterThan(0)
      expectLogProb(token.processedLogProb, Math.log(chances[token.id]!))
    })
    fc.assert(law, { numRuns: 3000 })
  })

  it('carries the raw log-probability and the one at its temperature', () => {
    const law = fc.property(rows, ([logits, params, state]) => {
      fc.pre(oracleLogits(logits, params, state).some(Number.isFinite))
      const token = requireRight(sampleToken(nextTokenOf(logits, params), params, state))
      const inverse = params.temperature === 0 ? 1 : 1 / params.temperature
      const row = Array.from(logits)
      expectLogProb(token.rawLogProb, logSoftmax(row)[token.id]!)
      expectLogProb(token.temperedLogProb, logSoftmax(row.map((logit) => logit * inverse))[token.id]!)
    })
    fc.assert(law, { numRuns: 500 })
  })

  it('is the same at every size of blocks', () => {
    const law = fc.property(rows, fc.integer({ min: 1, max: 40 }), ([logits, params, state], blockSize) => {
      fc.pre(oracleLogits(logits, params, state).some(Number.isFinite))
      const [one, other] = [4, blockSize].map((size) =>
        requireRight(sampleToken(nextTokenOf(logits, params, size), params, state)),
      )
      const chances = oracleDistribution(logits, params, state)
      const point = uniform(state.key, state.step)
      const start = chances.slice(0, one!.id).reduce((sum, chance) => sum + chance, 0)
      fc.pre(Math.min(Math.abs(point - start), Math.abs(point - start - chances[one!.id]!)) > 1e-6)
      expect(other!.id).toBe(one!.id)
    })
    fc.assert(law, { numRuns: 500 })
  })

  it('depends on its arguments alone and changes none', () => {
    const law = fc.property(rows, ([logits, params, state]) => {
      const next = nextTokenOf(logits, params)
      const before = structuredClone({ next, state })
      const first = sampleToken(next, params, state)
      expect({ next, state }).toEqual(before)
      expect(sampleToken(next, params, state)).toEqual(first)
    })
    fc.assert(law, { numRuns: 300 })
  })
})

describe('what is reported of a token', () => {
  const modes = fc.constantFrom('raw', 'tempered', 'processed')

  it('are rank and most probable tokens of the distribution of the mode', () => {
    const law = fc.property(rows, modes, fc.nat(30), ([logits, some, state], logProbsMode, topLogProbs) => {
      const params: SamplingParams = { ...some, logProbsMode, topLogProbs }
      fc.pre(oracleLogits(logits, params, state).some(Number.isFinite))
      const token = requireRight(sampleToken(nextTokenOf(logits, params), params, state))
      const inverse = params.temperature === 0 ? 1 : 1 / params.temperature
      const row =
        logProbsMode === 'processed'
          ? oracleDistribution(logits, params, state).map(Math.log)
          : logSoftmax(Array.from(logits, (logit) => (logProbsMode === 'raw' ? logit : logit * inverse)))
      const order = logProbsMode === 'processed' ? oracleLogits(logits, params, state) : Array.from(logits)
      const expected = ranking(order).filter((token) => row[token]! > Number.NEGATIVE_INFINITY)
      expect(token.top.map(({ id }) => id).slice(0, expected.length)).toEqual(expected.slice(0, topLogProbs))
      expect(token.top.map(({ rank }) => rank)).toEqual(token.top.map((_, i) => i + 1))
      for (const { id, logProb } of token.top.slice(0, expected.length)) expectLogProb(logProb, row[id]!)
      expect(token.rank).toBe(ranking(order).indexOf(token.id) + 1)
    })
    fc.assert(law, { numRuns: 1000 })
  })

  it('is nothing unless asked for', () => {
    const token = requireRight(
      sampleToken(nextTokenOf(Float32Array.of(1, 2), DEFAULT_SAMPLING), DEFAULT_SAMPLING, {
        promptCounts: countTokens([]),
        outputCounts: countTokens([]),
        banned: [],
        step: 0,
        key: keyFromSeed(0),
      }),
    )
    expect(token).toMatchObject({ rank: 0, top: [] })
  })
})

describe('frequencies', () => {
  const logits = Float32Array.from({ length: VOCABULARY }, (_, i) => Math.sin(i * 7) * 3)
  const cases: readonly (readonly [string, Partial<SamplingParams>, readonly number[]])[] = [
    ['with temperature alone', { temperature: 1.3 }, []],
    ['with a banned token', { temperature: 0.8 }, [11]],
    ['with top-p', { topP: 0.9 }, []],
    ['with top-k and a penalty', { topK: 9, presencePenalty: 1 }, []],
  ]

  it.each(cases)('%s come close to the probabilities (chi-square)', (_, some, banned) => {
    const params = { ...DEFAULT_SAMPLING, ...some }
    const base = { promptCounts: countTokens([]), outputCounts: countTokens([2, 9]), banned, key: keyFromSeed(5) }
    const next = nextTokenOf(logits, params)
    const draws = 20_000
    const counts = new Float64Array(VOCABULARY)
    for (let step = 0; step < draws; step++) counts[requireRight(sampleToken(next, params, { ...base, step })).id]!++
    const chances = oracleDistribution(logits, params, { ...base })
    const chiSquare = chances.reduce(
      (sum, chance, i) => (chance === 0 ? sum : sum + (counts[i]! - draws * chance) ** 2 / (draws * chance)),
      0,
    )
    for (const [i, chance] of chances.entries()) if (chance === 0) expect(counts[i]).toBe(0)
    const freedom = chances.filter((chance) => chance > 0).length - 1
    expect(chiSquare).toBeLessThan(freedom + 5 * Math.sqrt(2 * freedom)) // five standard deviations, with a fixed key
  })
})

describe('logits that cannot be sampled from', () => {
  const state = {
    promptCounts: countTokens([]),
    outputCounts: countTokens([]),
    banned: [],
    step: 0,
    key: keyFromSeed(0),
  }

  it('fail by the place of the first NaN or Infinity, with any parameters', () => {
    const wrong = fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY)
    const law = fc.property(logitsOf(VOCABULARY), anyParams, id, wrong, (logits, params, place, value) => {
      const bad = logits.with(place, value)
      const failure = requireLeft(sampleToken(nextTokenOf(bad, params), params, state), 'GenerationFailure')
      expect(failure).toMatchObject({
        kind: 'internal',
        reason: `the model gave the logit ${value} to token ${place}`,
      })
    })
    fc.assert(law, { numRuns: 200 })
  })

  it.each([
    ['all are -Infinity', [-Infinity, -Infinity], {}, [], 'every logit is -Infinity'],
    ['all tokens are banned', [1, 2], {}, [0, 1], 'no token can be sampled'],
    ['no allowed token has a chance', [1, -Infinity], { allowedTokens: [1] }, [], 'no token can be sampled'],
    ['a bias is beyond float32', [1, 2], { logitBias: new Map([[1, 1e300]]) }, [], 'give token 1 the logit Infinity'],
  ] as const)('fail where %s', (_, row, some, banned, reason) => {
    const params = { ...DEFAULT_SAMPLING, ...some }
    const next = nextTokenOf(Float32Array.from(row), params)
    const failure = requireLeft(sampleToken(next, params, { ...state, banned }), 'GenerationFailure')
    expect(failure).toMatchObject({ kind: 'internal', reason: expect.stringContaining(reason) })
  })

  it('are drawn exactly where the banned token had nearly all of the probability', () => {
    const logits = Float32Array.of(500, 0, Math.log(3), -Infinity, 0)
    for (const temperature of [0, 1]) {
      const params = { ...DEFAULT_SAMPLING, temperature }
      const token = requireRight(sampleToken(nextTokenOf(logits, params, 2), params, { ...state, banned: [0] }))
      const chances = softmax([-Infinity, 0, Math.log(3), -Infinity, 0])
      expectLogProb(token.processedLogProb, Math.log(chances[token.id]!))
      expect(token.rawLogProb).toBeLessThan(-400)
    }
  })
})

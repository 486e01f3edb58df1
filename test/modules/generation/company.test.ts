/** The dependence of a row's numbers on the other rows of its batch. */
import { keyFromSeed } from '@tandem-rl/base'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { KeyValues, PrefillItem } from '../../../src/modules/generation/runner/modelRunner.js'
import { makeRunner } from '../../../src/modules/generation/runner/runner.js'
import type { DecoderConfig } from '../../../src/modules/transformer/config/description.js'
import { initialParams } from '../../../src/modules/transformer/params.js'
import { makeScorer } from '../../../src/modules/transformer/scorer.js'
import { useOnnxRuntime } from '../../kit/engine.js'
import { configOf, tinyConfig } from '../../kit/models.js'

useOnnxRuntime()

const ROWS = 7
const STEPS = 6

const logProbsOf = (logits: Float32Array): readonly number[] => {
  const highest = logits.reduce((most, logit) => Math.max(most, logit), Number.NEGATIVE_INFINITY)
  const normalizer = highest + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - highest), 0))
  return Array.from(logits, (logit) => logit - normalizer)
}

/**
 * The log-probabilities of each row after its prompt and after each of some steps, alone and
 * together.
 */
const inCompany = (config: DecoderConfig) => {
  const params = own(scope(() => initialParams(config, keyFromSeed(3), 0.3)))
  const runner = makeRunner(config)
  const numbersOf = (rows: readonly number[]): readonly (readonly (readonly number[])[])[] => {
    const [lane, decoding] = [runner.makeLane(), runner.makeDecoding('constant')]
    const prompts = rows.map((row) => ({
      tokens: Int32Array.from({ length: 3 + 2 * row }, (_, t) => (5 * t + row) % config.vocabularySize),
      ...{ past: [], inverseTemperature: 1, scores: 'last' as const },
    }))
    const first = runner.prefill(params.value, prompts, 'constant')
    const slots = first.map(({ keyValues }) => lane.insert([keyValues]))
    const found = first.map(({ next }) => [logProbsOf(next.logits)])
    for (let step = 0; step < STEPS; step++) {
      const fed = slots.map((slot, i) => ({
        ...{ slot, inverseTemperature: 1 },
        token: (rows[i]! + 3 * step) % config.vocabularySize,
      }))
      const scores = decoding.step(params.value, [{ lane, rows: fed }])
      for (const [i, { logits }] of scores.entries()) found[i]!.push(logProbsOf(logits))
    }
    lane.release()
    decoding.release()
    return found
  }
  const all = Array.from({ length: ROWS }, (_, row) => row)
  const result = { together: numbersOf(all), alone: all.flatMap((row) => numbersOf([row])) }
  runner.release()
  params.release()
  return result
}

const best = (logProbs: readonly number[]): number => logProbs.indexOf(Math.max(...logProbs))

/** Widths of a small decoder, as multiples of `unit`. */
const widths = (unit: number) =>
  fc
    .record({
      vocabulary: fc.integer({ min: Math.ceil(24 / unit), max: Math.floor(260 / unit) }),
      hidden: fc.integer({ min: Math.ceil(12 / unit), max: Math.floor(72 / unit) }),
      intermediate: fc.integer({ min: Math.ceil(16 / unit), max: Math.floor(80 / unit) }),
    })
    .map(({ vocabulary, hidden, intermediate }) =>
      tinyConfig({
        ...{ vocabularySize: vocabulary * unit, hiddenSize: hidden * unit, intermediateSize: intermediate * unit },
        ...{ heads: 2, keyValueHeads: 1, layers: 1, maxPositions: 64 },
      }),
    )

describe('the log-probabilities of a row alone and with others', () => {
  it('are equal bit for bit where the vocabulary and all hidden widths are multiples of 4', () => {
    const law = fc.property(widths(4), (config) => {
      const { together, alone } = inCompany(config)
      expect(together).toEqual(alone)
    })
    fc.assert(law, { numRuns: 12 })
  })

  it('differ by less than 1e-6 at other widths, and the most probable token is the same', () => {
    const law = fc.property(widths(1), (config) => {
      const { together, alone } = inCompany(config)
      for (const [row, steps] of together.entries()) {
        for (const [step, logProbs] of steps.entries()) {
          const other = alone[row]![step]!
          for (const [id, logProb] of logProbs.entries()) expect(Math.abs(logProb - other[id]!)).toBeLessThan(1e-6)
          expect(best(logProbs)).toBe(best(other))
        }
      }
    })
    fc.assert(law, { numRuns: 12, examples: [97, 101, 257].map((n) => [tinyConfig({ vocabularySize: n })]) })
  })
})

describe('the numbers of a prompt', () => {
  it('are equal bit for bit, whole or in pieces, alone or with others, with constant weights', () => {
    const config = tinyConfig({
      ...{ vocabularySize: 64, hiddenSize: 256, intermediateSize: 96, maxPositions: 256 },
      ...{ heads: 4, keyValueHeads: 2, layers: 2 },
    })
    using params = own(scope(() => initialParams(config, keyFromSeed(3), 0.1)))
    const runner = makeRunner(config)
    const itemOf = (tokens: Int32Array, past: readonly KeyValues[] = []) => ({
      ...{ tokens, past, inverseTemperature: 1, scores: 'last' as const },
    })
    const computed = (items: readonly PrefillItem[]) =>
      runner
        .prefill(params.value, items, 'constant')
        .map(({ next, keyValues }) => ({ keyValues, numbers: Array.from(next.logits) }))
    const prompt = fc
      .tuple(fc.integer({ min: 2, max: 200 }), fc.nat(63))
      .map(([length, first]) => Int32Array.from({ length }, (_, t) => (first + 7 * t) % 64))
    const law = fc.property(
      fc.array(prompt, { minLength: 1, maxLength: 4 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (prompts, share) => {
        const together = computed(prompts.map((tokens) => itemOf(tokens)))
        for (const [i, tokens] of prompts.entries()) {
          const cut = Math.min(tokens.length - 1, 1 + Math.floor(share * (tokens.length - 1)))
          const [begun] = computed([itemOf(tokens.slice(0, cut))])
          const [ended] = computed([itemOf(tokens.slice(cut), [begun!.keyValues])])
          expect(ended!.numbers).toEqual(together[i]!.numbers)
          expect(computed([itemOf(tokens)])[0]!.numbers).toEqual(together[i]!.numbers)
        }
      },
    )
    fc.assert(law, { numRuns: 15 })
    runner.release()
  })
})

describe('the scores of a row beside a row beyond the trained length', () => {
  const TRAINED = 16
  const scoresOf = (rope: object) => {
    const config = configOf({
      ...{ model_type: 'llama', vocab_size: 32, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 2 },
      ...{ num_attention_heads: 2, max_position_embeddings: TRAINED, rope_parameters: rope },
    })
    const params = own(scope(() => initialParams(config, keyFromSeed(5), 0.3)))
    const scorer = makeScorer(config)
    const rowOf = (length: number): readonly number[] => Array.from({ length }, (_, t) => (7 * t + 3) % 32)
    const score = (lengths: readonly number[]): readonly Float32Array[] =>
      scorer.score(params.value, {
        prompts: lengths.map(() => [1, 2]),
        shared: 1,
        completions: lengths.map(rowOf),
        temperature: 1,
      })
    const [alone] = score([12])
    const largest = (other: number): number => {
      const [beside] = score([12, other])
      return Math.max(...Array.from(beside!, (x, t) => Math.abs(x - alone![t]!)))
    }
    const result = { short: largest(13), long: largest(40) }
    scorer.release()
    params.release()
    return result
  }

  const factors = { short_factor: [1, 1, 1, 1], long_factor: [2, 4, 8, 16] }

  it.each([
    { rope_type: 'dynamic', factor: 2 },
    { rope_type: 'longrope', factor: 4, original_max_position_embeddings: TRAINED, ...factors },
  ])('depend on it under $rope_type, since the longest row sets the frequencies of all', (rope) => {
    const { short, long } = scoresOf(rope)
    expect(short).toBeLessThan(1e-6)
    expect(long).toBeGreaterThan(1e-3)
  })

  it.each([{ rope_type: 'default' }, { rope_type: 'linear', factor: 2 }])(
    'do not under $rope_type, but for rounding',
    (rope) => {
      const { short, long } = scoresOf(rope)
      expect(Math.max(short, long)).toBeLessThan(1e-6)
    },
  )
})

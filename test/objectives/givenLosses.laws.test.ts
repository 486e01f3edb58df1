/**
 * Losses of given completions, pairs, teachers and returns: their equations in float64, what is
 * under the mask, and micro-batches.
 */
import { valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DistillationLoss } from '../../src/objectives/distillationLoss.js'
import { type DPOLossOptions, dpoLoss } from '../../src/objectives/dpoLoss.js'
import { SFTLoss, type SFTLossOptions } from '../../src/objectives/sftLoss.js'
import { valueLoss } from '../../src/objectives/valueLoss.js'
import { expectClose } from '../kit/close.js'
import { useEngine, valuesOf } from '../kit/engine.js'
import { evenly } from '../kit/policyLossCases.js'
import { interleavedTensors } from '../kit/trainingRows.js'

useEngine()

type Matrix = readonly (readonly number[])[]

/**
 * Rows of one loss. What `x`, `other` and `more` are is for the loss to say: it is differentiated
 * by `x`.
 */
interface Rows {
  readonly x: Matrix
  readonly other: Matrix
  readonly more: Matrix
  readonly mask: Matrix
}

/** Tokens and completions of the whole. */
type Counts = readonly [tokens: number, completions: number]

interface Case {
  readonly name: string
  readonly loss: (
    x: tf.Tensor,
    given: Readonly<Record<'other' | 'more' | 'mask', tf.Tensor>>,
    counts: Counts,
  ) => tf.Tensor
  /** The loss in float64; lists of each row hold the tokens that count. */
  readonly oracle: (rows: readonly OwnTokens[], counts: Counts) => number
}

interface OwnTokens {
  readonly x: readonly number[]
  readonly other: readonly number[]
  readonly more: readonly number[]
}

const sum = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0)
const mean = (xs: readonly number[]): number => (xs.length === 0 ? 0 : sum(xs) / xs.length)
const minus = (a: readonly number[], b: readonly number[]): readonly number[] => a.map((x, i) => x - b[i]!)
const logSigmoid = (x: number): number => -Math.log1p(Math.exp(-x))
const k3 = (x: number): number => Math.exp(x) - 1 - x
const each = (rows: readonly OwnTokens[], f: (row: OwnTokens) => number): readonly number[] => rows.map(f)

const countsOf = ([tokens, completions]: Counts) => ({ tokens: tf.scalar(tokens), completions: tf.scalar(completions) })

const sft = (name: string, options: SFTLossOptions, oracle: Case['oracle']): Case => ({
  name: `SFTLoss, ${name}`,
  loss: (logProbs, { other: refLogProbs, mask }, counts) => {
    const { lossSft, lossKlToRef } = SFTLoss(options).apply(
      { logProbs },
      { refLogProbs, mask, counts: countsOf(counts) },
    )
    return lossKlToRef === undefined ? lossSft : tf.add(lossSft, lossKlToRef)
  },
  oracle,
})

/**
 * The chosen completions are `x` with the reference `other`; the rejected ones are `more` under a
 * reference that gives them -1 everywhere.
 */
const dpo = (name: string, options: DPOLossOptions, ofLead: (lead: number) => number, size = sum): Case => {
  return {
    name: `dpoLoss, ${name}`,
    loss: (logProbs, { other, more, mask }, [tokens, completions]) =>
      dpoLoss(options).apply(
        { logProbs: interleavedTensors(logProbs, more) },
        {
          refLogProbs: interleavedTensors(other, tf.neg(tf.onesLike(more))),
          mask: interleavedTensors(mask, mask),
          counts: countsOf([tokens, 2 * completions]),
        },
      ).lossDpo,
    oracle: (rows, [, completions]) => {
      const reference = options.reference !== 'none'
      const ratio = (x: readonly number[], other: readonly number[]): number => size(reference ? minus(x, other) : x)
      return (
        sum(
          each(rows, ({ x, other, more }) =>
            ofLead(
              ratio(x, other) -
                ratio(
                  more,
                  more.map(() => -1),
                ),
            ),
          ),
        ) / completions
      )
    },
  }
}

const CASES: readonly Case[] = [
  sft('means', {}, (rows, [, n]) => -sum(each(rows, ({ x }) => mean(x))) / n),
  sft('sums', { normalizeBySeqLength: 'no', reduction: 'sum' }, (rows) => -sum(each(rows, ({ x }) => sum(x)))),
  sft(
    'divergence',
    { klToRefCoefficient: 0.3 },
    (rows, [tokens, n]) =>
      -sum(each(rows, ({ x }) => mean(x))) / n +
      (0.3 * sum(each(rows, ({ x, other }) => sum(minus(other, x).map(k3))))) / Math.max(tokens, 1),
  ),
  sft(
    'minor_sft',
    { lossFunction: 'minor_sft', beta: 0.7 },
    (rows, [, n]) =>
      -sum(each(rows, ({ x, other }) => (x.length === 0 ? 0 : logSigmoid(0.7 * (mean(x) - mean(other)))))) / n,
  ),
  dpo('sigmoid', { beta: 0.6 }, (h) => -logSigmoid(0.6 * h)),
  dpo('sigmoid by tokens', { normalizeBySeqLength: 'yes' }, (h) => -logSigmoid(0.1 * h), mean),
  dpo('smoothed', { beta: 0.6, labelSmoothing: 0.2 }, (h) => -0.8 * logSigmoid(0.6 * h) - 0.2 * logSigmoid(-0.6 * h)),
  dpo('ipo', { form: 'ipo', beta: 0.4 }, (h) => (h - 1 / 0.8) ** 2, mean),
  dpo('without a reference', { reference: 'none' }, (h) => -logSigmoid(0.1 * h)),
  ...(['reverse', 'forward'] as const).map(
    (klDirection): Case => ({
      name: `DistillationLoss, ${klDirection}`,
      loss: (logProbs, { other: teacherLogProbs, mask }, counts) =>
        DistillationLoss({ klDirection }).apply({ logProbs }, { teacherLogProbs, mask, counts: countsOf(counts) })
          .lossDistillation,
      oracle: (rows, [, n]) =>
        sum(
          each(rows, ({ x, other }) => mean((klDirection === 'reverse' ? minus(other, x) : minus(x, other)).map(k3))),
        ) / n,
    }),
  ),
  ...([undefined, 0.3] as const).map(
    (clipEpsilon): Case => ({
      name: `valueLoss, clip ${clipEpsilon}`,
      loss: (values, { other: oldValues, more: returns, mask }, counts) =>
        valueLoss(clipEpsilon === undefined ? {} : { clipEpsilon }).apply(
          { values },
          { oldValues, returns, mask, counts: countsOf(counts) },
        ).lossValue,
      oracle: (rows, [tokens]) =>
        sum(
          each(rows, ({ x, other, more }) => {
            const e = clipEpsilon ?? Number.POSITIVE_INFINITY
            const near = x.map((v, i) => Math.min(other[i]! + e, Math.max(other[i]! - e, v)))
            return sum(x.map((v, i) => Math.max((v - more[i]!) ** 2, (near[i]! - more[i]!) ** 2) / 2))
          }),
        ) / Math.max(tokens, 1),
    }),
  ),
]

const batches: fc.Arbitrary<Rows> = fc
  .tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 4 }))
  .chain(([b, t]) => {
    const matrix = (element: fc.Arbitrary<number>): fc.Arbitrary<Matrix> =>
      fc.array(fc.array(element, { minLength: t, maxLength: t }), { minLength: b, maxLength: b })
    const nats = matrix(evenly(-3, -0.1))
    return fc.record({ x: nats, other: nats, more: nats, mask: matrix(fc.constantFrom(0, 1, 1)) })
  })

const tokensOf = ({ mask }: Rows): number => sum(mask.flat())
const wholeOf = (rows: Rows): Counts => [tokensOf(rows), rows.mask.length]
const tensor = (rows: Matrix): tf.Tensor => tf.tensor2d(rows.flat(), [rows.length, rows[0]?.length ?? 0])

const numbersOf = ({ loss }: Case, rows: Rows, counts = wholeOf(rows)) => {
  let numbers = { value: Number.NaN, gradient: [] as readonly number[] }
  scope(() => {
    const { value, grads } = valueAndGrad({ x: tensor(rows.x) }, ({ x }) => {
      const given = { other: tensor(rows.other), more: tensor(rows.more), mask: tensor(rows.mask) }
      return { value: loss(x, given, counts), aux: {} }
    })
    numbers = { value: valuesOf(value)[0]!, gradient: valuesOf(grads.x!) }
    return []
  })
  return numbers
}

const oracleOf = ({ oracle }: Case, rows: Rows): number => {
  const own = (of: Matrix, b: number): readonly number[] => of[b]!.filter((_, t) => rows.mask[b]![t] === 1)
  const lists = rows.mask.map((_, b) => ({ x: own(rows.x, b), other: own(rows.other, b), more: own(rows.more, b) }))
  return oracle(lists, wholeOf(rows))
}

const slopes = (given: Case, rows: Rows): readonly number[] =>
  rows.x.flatMap((row, b) =>
    row.map((_, t) => {
      const at = (by: number): number =>
        oracleOf(given, { ...rows, x: rows.x.map((r, i) => r.map((v, j) => (i === b && j === t ? v + by : v))) })
      return (at(1e-6) - at(-1e-6)) / 2e-6
    }),
  )

const FLOAT32 = { absolute: 3e-6, relative: 1e-5 }
const RUNS = { numRuns: 4 }

describe.each(CASES)('$name', (given) => {
  it('has the value and the gradient of its equation', () => {
    fc.assert(
      fc.property(batches, (rows) => {
        const { value, gradient } = numbersOf(given, rows)
        expectClose([value], [oracleOf(given, rows)], FLOAT32)
        expectClose(gradient, slopes(given, rows), FLOAT32)
      }),
      RUNS,
    )
  })

  it('does not look under the mask, be it NaN or infinite there, and has gradient 0 there', () => {
    const junk = fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY)
    fc.assert(
      fc.property(batches, junk, (rows, bad) => {
        const soil = (x: Matrix): Matrix => x.map((row, b) => row.map((v, t) => (rows.mask[b]![t] === 1 ? v : bad)))
        const soiled = { mask: rows.mask, x: soil(rows.x), other: soil(rows.other), more: soil(rows.more) }
        const [clean, dirty] = [numbersOf(given, rows), numbersOf(given, soiled)]
        expect(dirty.value).toBe(clean.value)
        expectClose(dirty.gradient, clean.gradient, { absolute: 0, relative: 0 })
        expect(dirty.gradient.every((g, i) => rows.mask.flat()[i] === 1 || g === 0)).toBe(true)
      }),
      RUNS,
    )
  })

  it('of a batch is the sum of those of its rows, with the counts of the whole', () => {
    fc.assert(
      fc.property(batches, (rows) => {
        const whole = numbersOf(given, rows)
        const parts = rows.mask.map((_, b) => {
          const one = (x: Matrix): Matrix => [x[b]!]
          const row = { x: one(rows.x), other: one(rows.other), more: one(rows.more), mask: one(rows.mask) }
          return numbersOf(given, row, wholeOf(rows))
        })
        expectClose([sum(parts.map(({ value }) => value))], [whole.value], FLOAT32)
        expectClose(
          parts.flatMap(({ gradient }) => gradient),
          whole.gradient,
          FLOAT32,
        )
      }),
      RUNS,
    )
  })
})

import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type Call,
  type KernelCase,
  type KnownDifference,
  kernelLaws,
  knownDifferences,
  row,
} from '../../../../../test/kit/backends.js'
import { useOnnxRuntime } from '../../../../../test/kit/engine.js'
import {
  anyFiniteFloat,
  anyFloat,
  anyFloatButNaN,
  anyInt,
  bools,
  type Elements,
  floatsIn,
  intsIn,
  shapes,
  tiedFloats,
  vector,
} from '../../../../../test/kit/hostTensor.js'
import { oneWith } from '../../../../../test/kit/kernelCases.js'
import { reductionRules } from '../../../src/onnxruntime/kernels/reduction.js'

const { backend } = useOnnxRuntime()

interface Reduction {
  /** Undefined: all axes. */
  readonly axes: number[] | undefined
  readonly keep: boolean
}

/** Distinct axes of a shape, some counted from the end. */
const axesOf = (shape: readonly number[]): fc.Arbitrary<number[]> =>
  fc
    .tuple(fc.subarray(shape.map((_, i) => i)), fc.array(fc.boolean(), { minLength: 5, maxLength: 5 }))
    .map(([axes, negative]) => axes.map((axis) => (negative[axis] ? axis - shape.length : axis)))

const reductionOf = (shape: readonly number[]): fc.Arbitrary<Reduction> =>
  fc.record({ axes: fc.option(axesOf(shape), { nil: undefined }), keep: fc.boolean() })

const reduced = (elements: Elements): fc.Arbitrary<KernelCase<Reduction>> => oneWith(elements, reductionOf)

/**
 * Reductions that fold at least one element into each result: tfjs's max and min of nothing are not
 * numbers.
 */
const foldedShapes = shapes(0, 5, 1)
const folded = (elements: Elements): fc.Arbitrary<KernelCase<Reduction>> => oneWith(elements, reductionOf, foldedShapes)

interface AlongAxis {
  readonly axis: number
  readonly exclusive: boolean
  readonly reverse: boolean
}

const alongAxis = (elements: Elements): fc.Arbitrary<KernelCase<AlongAxis>> =>
  oneWith(
    elements,
    (shape) =>
      fc.record({
        axis: fc.nat(shape.length - 1),
        exclusive: fc.boolean(),
        reverse: fc.boolean(),
      }),
    shapes(1, 5, 1),
  )

const highest = (elements: Elements): fc.Arbitrary<KernelCase<number>> =>
  oneWith(elements, (shape) => fc.nat(shape.at(-1)!), shapes(1, 4, 1))

const topk: Call<number> = ({ a }, k) => {
  const { values, indices } = tf.topk(a, k)
  return [values, indices]
}

const moderate = floatsIn(-100, 100)
const equalZeros = { within: { absolute: 0, relative: 0 } }
// Sums of up to some hundred numbers below 100, in another order.
const summed = { within: { absolute: 1e-2, relative: 1e-5 } }

const rows = [
  row('All', reduced(bools), ({ a }, { axes, keep }) => tf.all(a, axes, keep)),
  row('Any', reduced(bools), ({ a }, { axes, keep }) => tf.any(a, axes, keep)),
  row('ArgMax', alongAxis(tiedFloats), ({ a }, { axis }) => tf.argMax(a, axis)),
  row('ArgMax', alongAxis(anyInt), ({ a }, { axis }) => tf.argMax(a, axis), { on: 'int32' }),
  row('ArgMax', alongAxis(anyFloatButNaN), ({ a }, { axis }) => tf.argMax(a, axis), { on: 'extremes' }),
  row('ArgMin', alongAxis(tiedFloats), ({ a }, { axis }) => tf.argMin(a, axis)),
  row('ArgMin', alongAxis(anyInt), ({ a }, { axis }) => tf.argMin(a, axis), { on: 'int32' }),
  row('ArgMin', alongAxis(anyFloatButNaN), ({ a }, { axis }) => tf.argMin(a, axis), { on: 'extremes' }),
  row(
    'Cumsum',
    alongAxis(moderate),
    ({ a }, { axis, exclusive, reverse }) => tf.cumsum(a, axis, exclusive, reverse),
    summed,
  ),
  row('Cumsum', alongAxis(anyInt), ({ a }, { axis, exclusive, reverse }) => tf.cumsum(a, axis, exclusive, reverse), {
    on: 'int32',
  }),
  row('Max', folded(anyFloat), ({ a }, { axes, keep }) => tf.max(a, axes, keep), equalZeros),
  row('Max', folded(anyInt), ({ a }, { axes, keep }) => tf.max(a, axes, keep), { on: 'int32' }),
  row('Mean', reduced(moderate), ({ a }, { axes, keep }) => tf.mean(a, axes, keep), summed),
  row('Min', folded(anyFloat), ({ a }, { axes, keep }) => tf.min(a, axes, keep), equalZeros),
  row('Min', folded(anyInt), ({ a }, { axes, keep }) => tf.min(a, axes, keep), { on: 'int32' }),
  row('Prod', reduced(floatsIn(-2, 2)), ({ a }, { axes, keep }) => tf.prod(a, axes, keep), {
    within: { relative: 1e-4 },
  }),
  row('Prod', reduced(intsIn(-1, 1)), ({ a }, { axes, keep }) => tf.prod(a, axes, keep), { on: 'int32' }),
  row('Sum', reduced(moderate), ({ a }, { axes, keep }) => tf.sum(a, axes, keep), summed),
  row('Sum', reduced(intsIn(-(2 ** 22), 2 ** 22)), ({ a }, { axes, keep }) => tf.sum(a, axes, keep), { on: 'int32' }),
  row('TopK', highest(tiedFloats), topk),
  row('TopK', highest(anyFiniteFloat), topk, { ...equalZeros, on: 'extremes' }),
  row('TopK', highest(anyInt), topk, { on: 'int32', form: 'cpu' }),
]

const differences: readonly KnownDifference[] = [
  {
    kernel: 'ArgMax',
    reason: 'a NaN is never the greatest here; tfjs gives its place if it comes first',
    inputs: [vector([Number.NaN, 1])],
    call: ({ a }) => tf.argMax(a),
  },
  {
    kernel: 'ArgMin',
    reason: 'a NaN is never the least here; tfjs gives its place if it comes first',
    inputs: [vector([Number.NaN, 1])],
    call: ({ a }) => tf.argMin(a),
  },
  {
    kernel: 'Sum',
    reason: 'an int32 sum that overflows stays at the limit in onnxruntime, and wraps in JavaScript',
    inputs: [vector([-(2 ** 31), -1], 'int32')],
    call: ({ a }) => tf.sum(a),
  },
  {
    kernel: 'Cumsum',
    reason: 'tfjs takes a negative axis for no axis, and makes a shape with a hole',
    inputs: [{ shape: [2, 1], dtype: 'float32', data: [1, 2] }],
    call: ({ a }) => tf.cumsum(a, -2),
  },
  {
    kernel: 'TopK',
    reason: 'tfjs subtracts to compare, and loses its way between equal infinities',
    inputs: [vector([0, 2 ** 24, 2 ** -149, Number.POSITIVE_INFINITY])],
    call: ({ a }) => tf.topk(a, 3).values,
  },
]

describe('reduction kernels', () => {
  knownDifferences(differences)
  kernelLaws(backend, () => Object.keys(reductionRules), rows)

  it('ArgMax and ArgMin pass over NaN wherever it is', () => {
    const numbers = fc.array(fc.float({ noNaN: true, min: -100, max: 100 }), { minLength: 1, maxLength: 40 })
    const law = fc.property(numbers, fc.nat(), (values, seed) => {
      const place = seed % (values.length + 1)
      const mixed = [...values.slice(0, place), Number.NaN, ...values.slice(place)]
      const found = tf.tidy(() => {
        const x = tf.tensor1d(mixed)
        return [tf.argMax(x), tf.argMin(x)].map((t) => t.dataSync()[0]!)
      })
      expect(found.map((i) => mixed[i])).toEqual(
        [Math.max(...values), Math.min(...values)].map((n) => mixed[mixed.indexOf(n)]),
      )
    })
    fc.assert(law)
  })

  it('Max and Min are NaN wherever a NaN is, also among infinities and the largest numbers', () => {
    const extremes = fc.constantFrom(Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 3.4e38, -3.4e38, 0)
    const law = fc.property(fc.array(extremes, { minLength: 1, maxLength: 70 }), fc.nat(), (values, seed) => {
      const place = seed % values.length
      const found = tf.tidy(() => {
        const x = tf.stack([tf.tensor1d(values), tf.tensor1d(values.map((v, i) => (i === place ? Number.NaN : v)))])
        return [tf.max(x, 1), tf.min(x, 1)].map((t) => Array.from(t.dataSync()))
      })
      expect(found).toEqual([
        [Math.fround(Math.max(...values)), Number.NaN],
        [Math.fround(Math.min(...values)), Number.NaN],
      ])
    })
    fc.assert(law)
  })
})

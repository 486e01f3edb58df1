import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type Call,
  type KernelCase,
  type KnownDifference,
  kernelLaws,
  knownDifferences,
  outcomesOn,
  row,
} from '../../../../../test/kit/backends.js'
import { useOnnxRuntime, valuesOf } from '../../../../../test/kit/engine.js'
import {
  anyFloat,
  anyInt,
  bools,
  type Elements,
  floatsIn,
  hostTensor,
  intsIn,
  shapes,
  vector,
} from '../../../../../test/kit/hostTensor.js'
import { cases } from '../../../../../test/kit/kernelCases.js'
import { indexingRules } from '../../../src/onnxruntime/kernels/indexing.js'

const { backend } = useOnnxRuntime()

/** A table with at least one row on the axis looked along, and indices of any shape. */
const lookUps = (elements: Elements): fc.Arbitrary<KernelCase<number>> =>
  cases(
    fc.tuple(shapes(1, 4, 1), shapes(0, 3)).chain(([shape, places]) =>
      fc.integer({ min: -shape.length, max: shape.length - 1 }).map((axis) => {
        const rows = shape.at(axis)!
        return [[hostTensor(elements, shape), hostTensor(intsIn(0, rows - 1), places)], axis] as const
      }),
    ),
  )

interface Batched {
  readonly axis: number
  readonly batchDims: number
}

/** Tables and indices that share their first axes. */
const batchedLookUps = (distance: number): fc.Arbitrary<KernelCase<Batched>> =>
  cases(
    fc.tuple(shapes(2 + distance, 4, 1), shapes(0, 2, 1), fc.nat(2)).map(([shape, places, extra]) => {
      const batchDims = 1 + (extra % (shape.length - 1 - distance))
      const axis = batchDims + distance
      const indices = hostTensor(intsIn(0, shape[axis]! - 1), [...shape.slice(0, batchDims), ...places])
      return [[hostTensor(anyFloat, shape), indices], { axis, batchDims }] as const
    }),
  )

const gather: Call<number> = ({ a, b }, axis) => tf.gather(a, b, axis)
const gatherBatched: Call<Batched> = ({ a, b }, { axis, batchDims }) => tf.gather(a, b, axis, batchDims)

interface Classes {
  readonly depth: number
  readonly on: number
  readonly off: number
}

const classes: fc.Arbitrary<KernelCase<Classes>> = cases(
  fc
    .tuple(shapes(0, 4), fc.integer({ min: 2, max: 5 }))
    .map(([shape, depth]) => [[hostTensor(intsIn(-2, depth + 1), shape)], { depth, on: 5, off: -3 }]),
)

const hot =
  (dtype: 'float32' | 'int32' | 'bool'): Call<Classes> =>
  ({ a }, { depth, on, off }) =>
    tf.oneHot(a as tf.Tensor1D, depth, on, off, dtype) // typed for rank 1, made for any

/** Rows and where each goes; some ids are out of range on either side. */
const segments: fc.Arbitrary<KernelCase<number>> = cases(
  fc
    .tuple(shapes(1, 4), fc.integer({ min: 1, max: 4 }))
    .map(([shape, count]) => [
      [hostTensor(floatsIn(-100, 100), shape), hostTensor(intsIn(-2, count + 2), shape.slice(0, 1))],
      count,
    ]),
)

const rows = [
  row('GatherV2', lookUps(anyFloat), gather),
  row('GatherV2', lookUps(anyInt), gather, { on: 'int32' }),
  row('GatherV2', lookUps(bools), gather, { on: 'bool' }),
  row('GatherV2', batchedLookUps(0), gatherBatched, { on: 'batches' }),
  row('GatherV2', batchedLookUps(1), gatherBatched, { on: 'batches, a later axis', form: 'cpu' }),
  row('OneHot', classes, hot('float32')),
  row('OneHot', classes, hot('int32'), { on: 'int32' }),
  row('OneHot', classes, hot('bool'), { on: 'bool', form: 'cpu' }),
  row('UnsortedSegmentSum', segments, ({ a, b }, count) => tf.unsortedSegmentSum(a, b as tf.Tensor1D, count), {
    within: { absolute: 1e-3, relative: 1e-5 },
  }),
]

const differences: readonly KnownDifference[] = [
  {
    kernel: 'UnsortedSegmentSum',
    reason: 'tfjs multiplies every row by 0 or 1, so that a NaN or an infinity reaches every segment',
    inputs: [vector([Number.NaN, 1]), vector([0, 1], 'int32')],
    call: ({ a, b }) => tf.unsortedSegmentSum(a, b as tf.Tensor1D, 2),
  },
  {
    kernel: 'UnsortedSegmentSum',
    reason: "tfjs's sum of int32 rows is float32",
    inputs: [vector([1, 2], 'int32'), vector([0, 1], 'int32')],
    call: ({ a, b }) => tf.unsortedSegmentSum(a, b as tf.Tensor1D, 2),
  },
]

describe('indexing kernels', () => {
  knownDifferences(differences)
  kernelLaws(backend, () => Object.keys(indexingRules), rows)

  it('UnsortedSegmentSum of int32 rows is exact', () => {
    const law = fc.property(
      fc.array(fc.tuple(fc.integer({ min: -1e6, max: 1e6 }), fc.nat(3)), { minLength: 1 }),
      (pairs) => {
        tf.tidy(() => {
          const x = tf.tensor1d(
            pairs.map(([value]) => value),
            'int32',
          )
          const ids = tf.tensor1d(
            pairs.map(([, id]) => id),
            'int32',
          )
          const expected = [0, 1, 2, 3].map((id) =>
            pairs.reduce((sum, [value, i]) => (i === id ? sum + value : sum), 0),
          )
          expect(valuesOf(tf.unsortedSegmentSum(x, ids, 4))).toEqual(expected)
        })
      },
    )
    fc.assert(law)
  })

  it('regression: UnsortedSegmentSum loses no addition to equal ids, and repeats exactly (ScatterND did neither)', () => {
    const [rows, width] = [40_000, 8]
    const [x, ids] = [tf.ones([rows, width]), tf.zeros([rows], 'int32') as tf.Tensor1D] // typed by its shape
    const fractions = tf.tidy(() => tf.reshape(tf.div(tf.range(0, rows * width), rows * width), [rows, width]))
    const sums = (values: tf.Tensor): number[] => tf.tidy(() => valuesOf(tf.unsortedSegmentSum(values, ids, 2)))
    const first = sums(fractions)
    for (let i = 0; i < 5; i++) {
      expect(sums(x)).toEqual([...new Array(width).fill(rows), ...new Array(width).fill(0)])
      expect(sums(fractions)).toEqual(first)
    }
    tf.dispose([x, ids, fractions])
  })

  it('gather beyond the last row, by computed indices, is an error when the values are asked for', () => {
    const [table, places] = [tf.tensor1d([1, 2, 3]), tf.tensor1d([2], 'int32')]
    const found = tf.tidy(() => tf.gather(table, tf.add(places, tf.scalar(1, 'int32'))))
    expect(() => found.dataSync()).toThrow('indices element out of data bounds')
    tf.dispose([table, places, found])
  })

  it('gather at a computed negative index counts from the end, where tfjs-cpu throws', () => {
    const given = { inputs: [vector([1, 2, 3]), vector([1], 'int32')], options: undefined }
    const call: Call<undefined> = ({ a, b }) => tf.gather(a, tf.neg(b))
    expect(outcomesOn('onnxruntime', given, call)[0]!.values).toEqual([3])
    expect(() => outcomesOn('cpu', given, call)).toThrow('not in [0, 2]')
  })

  it('gather at a known index that is not there leaves nothing behind when it throws', () => {
    const [table, places] = [tf.tensor1d([1, 2, 3]), tf.tensor1d([3], 'int32')]
    const before = tf.memory().numDataBuffers
    expect(() => tf.gather(table, places)).toThrow('GatherV2: the index value 3 is not in [0, 2]')
    expect(tf.memory().numDataBuffers).toBe(before)
    tf.dispose([table, places])
  })
})

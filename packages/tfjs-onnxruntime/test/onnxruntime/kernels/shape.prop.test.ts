import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe } from 'vitest'
import { type Call, type KernelCase, kernelLaws, row } from '../../../../../test/kit/backends.js'
import { useOnnxRuntime } from '../../../../../test/kit/engine.js'
import {
  anyFloat,
  anyInt,
  bools,
  type Elements,
  elementCount,
  hostTensor,
  shapes,
} from '../../../../../test/kit/hostTensor.js'
import { cases, one, oneWith } from '../../../../../test/kit/kernelCases.js'
import { shapeRules } from '../../../src/onnxruntime/kernels/shape.js'
import { directKernels } from '../../../src/register.js'

const { backend } = useOnnxRuntime()

const axisOf = (rank: number): fc.Arbitrary<number> => fc.integer({ min: -rank, max: rank - 1 })

/** One to four tensors that differ along one axis at most. */
const joinable = (elements: Elements): fc.Arbitrary<KernelCase<number>> =>
  cases(
    shapes(1, 5).chain((shape) =>
      fc
        .tuple(axisOf(shape.length), fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 4 }))
        .map(([axis, sizes]) => {
          const place = axis < 0 ? axis + shape.length : axis
          const parts = sizes.map((size) => shape.map((n, i) => (i === place ? size : n)))
          return [parts.map((part) => hostTensor(elements, part)), axis] as const
        }),
    ),
  )

/** One to four tensors of one shape and an axis for a new axis. */
const stackable = (elements: Elements): fc.Arbitrary<KernelCase<number>> =>
  cases(
    shapes(0, 4).chain((shape) =>
      fc
        .tuple(axisOf(shape.length + 1), fc.integer({ min: 1, max: 4 }))
        .map(([axis, count]) => [Array.from({ length: count }, () => hostTensor(elements, shape)), axis] as const),
    ),
  )

const stack: Call<number> = ({ all }, axis) => tf.stack([...all], axis)
const concat: Call<number> = ({ all }, axis) => tf.concat([...all], axis)

/** Widths before and after each axis. */
const widths = (shape: readonly number[]): fc.Arbitrary<[number, number][]> =>
  fc.array(fc.tuple(fc.nat(2), fc.nat(2)), { minLength: shape.length, maxLength: shape.length })

interface Range {
  readonly begin: number[]
  readonly size: number[]
}

/** A box inside a shape; a size of -1 reaches to the end. */
const rangeOf = (shape: readonly number[]): fc.Arbitrary<Range> =>
  fc
    .tuple(
      ...shape.map((n) =>
        fc.nat(n).chain((begin) => fc.tuple(fc.constant(begin), fc.integer({ min: -1, max: n - begin }))),
      ),
    )
    .map((ranges) => ({ begin: ranges.map(([begin]) => begin), size: ranges.map(([, size]) => size) }))

interface Parts {
  readonly axis: number
  readonly parts: number | number[]
}

/** Equal parts, or sizes of which one may be left to tfjs. */
const partsOf = (shape: readonly number[]): fc.Arbitrary<Parts> =>
  axisOf(shape.length).chain((axis) => {
    const total = shape.at(axis)!
    const divisors = [1, 2, 3, 4, 5].filter((n) => total % n === 0)
    const equal: fc.Arbitrary<number | number[]> = fc.constantFrom(...divisors)
    const sizes = fc.tuple(fc.nat(total), fc.boolean()).map(([cut, open]) => [cut, open ? -1 : total - cut])
    return fc.record({ axis: fc.constant(axis), parts: fc.oneof(equal, sizes) })
  })

const split: Call<Parts> = ({ a }, { axis, parts }) => tf.split(a, typeof parts === 'number' ? parts : [...parts], axis)

const orderOf = (shape: readonly number[]): fc.Arbitrary<number[]> => {
  const axes = shape.map((_, i) => i)
  return fc.shuffledSubarray(axes, { minLength: axes.length })
}

const repeatsOf = (shape: readonly number[]): fc.Arbitrary<number[]> =>
  fc.array(fc.nat(3), { minLength: shape.length, maxLength: shape.length })

const some = shapes(1, 4)
const pad: Call<[[number, number][], number]> = ({ a }, [paddings, fill]) => tf.pad(a, paddings, fill)
const padded = (elements: Elements, fills = [0, 7, -1]): fc.Arbitrary<KernelCase<[[number, number][], number]>> =>
  oneWith(elements, (shape) => fc.tuple(widths(shape), fc.constantFrom(...fills)), some)

const moving = [
  row('Concat', joinable(anyFloat), concat),
  row('Concat', joinable(anyInt), concat, { on: 'int32' }),
  row('Concat', joinable(bools), concat, { on: 'bool' }),
  row('Pack', stackable(anyFloat), stack),
  row('Pack', stackable(anyInt), stack, { on: 'int32' }),
  row('Pack', stackable(bools), stack, { on: 'bool' }),
  row('PadV2', padded(anyFloat), pad),
  row('PadV2', padded(anyInt), pad, { on: 'int32' }),
  row('PadV2', padded(bools, [0, 1]), pad, { on: 'bool' }),
  row('Slice', oneWith(anyFloat, rangeOf, shapes(1, 5)), ({ a }, { begin, size }) => tf.slice(a, begin, size)),
  row('Slice', oneWith(anyInt, rangeOf, some), ({ a }, { begin, size }) => tf.slice(a, begin, size), { on: 'int32' }),
  row('Slice', oneWith(bools, rangeOf, some), ({ a }, { begin, size }) => tf.slice(a, begin, size), { on: 'bool' }),
  row('Slice', oneWith(anyFloat, rangeOf, shapes(1, 5)), ({ a }, { begin }) => tf.slice(a, begin), {
    on: 'up to the end',
  }),
  row('Slice', oneWith(anyFloat, rangeOf, shapes(1, 4)), ({ a }, { begin }) => tf.slice(a, begin[0]!), {
    on: 'one number, up to the end',
  }),
  row('SplitV', oneWith(anyFloat, partsOf, shapes(1, 5)), split),
  row('SplitV', oneWith(anyInt, partsOf, some), split, { on: 'int32' }),
  row('SplitV', oneWith(bools, partsOf, some), split, { on: 'bool' }),
  row('Tile', oneWith(anyFloat, repeatsOf, some), ({ a }, repeats) => tf.tile(a, repeats)),
  row('Tile', oneWith(anyInt, repeatsOf, some), ({ a }, repeats) => tf.tile(a, repeats), { on: 'int32' }),
  row('Tile', oneWith(bools, repeatsOf, some), ({ a }, repeats) => tf.tile(a, repeats), { on: 'bool' }),
  row('Transpose', oneWith(anyFloat, orderOf), ({ a }, order) => tf.transpose(a, order)),
  row('Transpose', oneWith(anyInt, orderOf), ({ a }, order) => tf.transpose(a, order), { on: 'int32' }),
  row('Transpose', oneWith(bools, orderOf), ({ a }, order) => tf.transpose(a, order), { on: 'bool' }),
  row(
    'Unpack',
    oneWith(anyFloat, (shape) => axisOf(shape.length), some),
    ({ a }, axis) => tf.unstack(a, axis),
  ),
  row(
    'Unpack',
    oneWith(anyInt, (shape) => axisOf(shape.length), some),
    ({ a }, axis) => tf.unstack(a, axis),
    { on: 'int32' },
  ),
  row(
    'Unpack',
    oneWith(bools, (shape) => axisOf(shape.length), some),
    ({ a }, axis) => tf.unstack(a, axis),
    { on: 'bool' },
  ),
]

/**
 * Another shape of the same number of elements: two axes run together, the other way round, or left
 * to tfjs.
 */
const reshaping = (shape: readonly number[]): fc.Arbitrary<number[]> => {
  const size = elementCount(shape)
  const open = size === 0 ? [] : [[-1], [...shape, -1]]
  return fc.constantFrom([size], [1, size, 1], [...shape].reverse(), ...open)
}

const filled = fc
  .tuple(
    shapes(),
    fc.oneof(fc.constantFrom(0, -0, 1, -1), anyFloat.element),
    fc.constantFrom('float32', 'int32', undefined),
  )
  .map(([shape, value, dtype]) => ({ inputs: [], options: { shape: [...shape], value, dtype } }))
  .filter(({ options: { value, dtype } }) => dtype !== 'int32' || Math.abs(value) < 2 ** 31)

const bound = fc.float({ min: -50, max: 50, noNaN: true })

const lines = fc
  .record({ start: bound, stop: bound, num: fc.integer({ min: 1, max: 20 }) })
  .map((options) => ({ inputs: [], options }))

interface Count {
  readonly start: number
  readonly stop: number
  readonly step: number
}

/** Ranges that end: tfjs takes a step of the wrong sign for an empty range, or counts down by 1. */
const ranges = (ends: fc.Arbitrary<number>): fc.Arbitrary<KernelCase<Count>> =>
  fc
    .record({ start: ends, stop: ends, step: fc.constantFrom(1, -1, 2, -3, 0.75) })
    .map((options) => ({ inputs: [], options }))

const count =
  (dtype: 'float32' | 'int32'): Call<Count> =>
  (_none, { start, stop, step }) =>
    tf.range(start, stop, step, dtype)

const direct = [
  row(
    'ExpandDims',
    oneWith(anyFloat, (shape) => axisOf(shape.length + 1)),
    ({ a }, axis) => tf.expandDims(a, axis),
  ),
  row('Fill', filled, (_none, { shape, value, dtype }) => tf.fill(shape, value, dtype)),
  row('Fill', one(bools), ({ a }) => tf.fill([...a.shape], 1, 'bool'), { on: 'bool' }),
  row('Identity', one(anyFloat), ({ a }) => tf.clone(a)),
  row('LinSpace', lines, (_none, { start, stop, num }) => tf.linspace(start, stop, num)),
  row('OnesLike', one(anyFloat), ({ a }) => tf.onesLike(a)),
  row('OnesLike', one(anyInt), ({ a }) => tf.onesLike(a), { on: 'int32' }),
  row('OnesLike', one(bools), ({ a }) => tf.onesLike(a), { on: 'bool' }),
  row('Range', ranges(fc.integer({ min: -50, max: 50 })), count('int32'), { on: 'int32' }),
  row('Range', ranges(fc.float({ min: -50, max: 50, noNaN: true })), count('float32')),
  row('Reshape', oneWith(anyFloat, reshaping), ({ a }, shape) => tf.reshape(a, shape)),
  row('Reshape', oneWith(bools, reshaping), ({ a }, shape) => tf.reshape(a, shape), { on: 'bool' }),
  row('ZerosLike', one(anyFloat), ({ a }) => tf.zerosLike(a)),
  row('ZerosLike', one(anyInt), ({ a }) => tf.zerosLike(a), { on: 'int32' }),
  row('ZerosLike', one(bools), ({ a }) => tf.zerosLike(a), { on: 'bool' }),
]

describe('kernels that move elements', () => {
  kernelLaws(backend, () => Object.keys(shapeRules), moving)
})

describe('kernels that fill or share data', () => {
  kernelLaws(backend, () => Object.keys(directKernels(backend())), direct)
})

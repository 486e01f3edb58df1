/** Arrays with a shape and a dtype, drawn at random: what kernels are tested on. */
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'

export type NumericType = 'float32' | 'int32' | 'bool'

/** A tensor's content outside of any backend, row-major. */
export interface HostTensor {
  readonly shape: readonly number[]
  readonly dtype: NumericType
  readonly data: readonly number[]
}

/** The distribution of a tensor's elements. */
export interface Elements {
  readonly dtype: NumericType
  readonly element: fc.Arbitrary<number>
}

export const elementCount = (shape: readonly number[]): number => shape.reduce((product, n) => product * n, 1)

/** A 1-D tensor of given numbers. */
export const vector = (data: readonly number[], dtype: NumericType = 'float32'): HostTensor => ({
  shape: [data.length],
  dtype,
  data,
})

/** The tensor on the current backend. The caller disposes it. */
export const toTensor = ({ shape, dtype, data }: HostTensor): tf.Tensor => tf.tensor([...data], [...shape], dtype)

const floatsBetween = (min: number, max: number): fc.Arbitrary<number> =>
  fc.float({ min: Math.fround(min), max: Math.fround(max), noNaN: true, noDefaultInfinity: true })

const EDGE_FLOATS = [
  0,
  -0,
  1,
  -1,
  0.5,
  -0.5,
  1.5,
  2.5,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  Number.NaN,
  2 ** -149, // the smallest denormal
  -(2 ** -149),
  Math.fround(1.1754942e-38), // the largest denormal
  2 ** -126, // the smallest normal
  2 ** 24,
  Math.fround(3.4028234663852886e38), // the largest float32
  -Math.fround(3.4028234663852886e38),
]

/** Numbers between two bounds. */
export const floatsIn = (min: number, max: number): Elements => ({
  dtype: 'float32',
  element: fc.oneof(
    { weight: 3, arbitrary: floatsBetween(min, max) },
    { weight: 1, arbitrary: fc.constantFrom(...[0, -0, 1, -1, min, max].filter((x) => x >= min && x <= max)) },
  ),
})

/**
 * Any float32: negative zero, infinities, NaN, denormals and the extremes among ordinary numbers.
 */
export const anyFloat: Elements = {
  dtype: 'float32',
  element: fc.oneof(
    { weight: 2, arbitrary: floatsBetween(-100, 100) },
    { weight: 1, arbitrary: fc.float() },
    { weight: 2, arbitrary: fc.constantFrom(...EDGE_FLOATS) },
  ),
}

/** Any float32 but NaN: for kernels whose rule for NaN is not tfjs's. */
export const anyFloatButNaN: Elements = {
  dtype: 'float32',
  element: anyFloat.element.filter((x) => !Number.isNaN(x)),
}

/** Any float32 but NaN and the infinities. */
export const anyFiniteFloat: Elements = { dtype: 'float32', element: anyFloat.element.filter(Number.isFinite) }

/** Few different whole numbers, so that ties are common. */
export const tiedFloats: Elements = { dtype: 'float32', element: fc.constantFrom(-2, -1, 0, 1, 2) }

/** Whole numbers as float32. */
export const wholeFloats = (min: number, max: number): Elements => ({
  dtype: 'float32',
  element: fc.integer({ min, max }),
})

export const intsIn = (min: number, max: number): Elements => ({
  dtype: 'int32',
  element: fc.oneof(
    { weight: 2, arbitrary: fc.integer({ min, max }) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(...[min, min + 1, -1, 0, 1, max - 1, max].filter((x) => x >= min && x <= max)),
    },
  ),
})

/** Any int32, its extremes often. */
export const anyInt = intsIn(-(2 ** 31), 2 ** 31 - 1)

export const bools: Elements = { dtype: 'bool', element: fc.constantFrom(0, 1) }

/**
 * Shapes of rank `minRank` to `maxRank` with axes of size 0 (rarely), 1 and a few; small in all.
 */
export const shapes = (minRank = 0, maxRank = 5, minSize = 0): fc.Arbitrary<readonly number[]> =>
  fc.integer({ min: minRank, max: maxRank }).chain((rank) => {
    const largest = rank <= 2 ? 5 : rank === 3 ? 4 : 3
    const size = fc.oneof(
      { weight: 8, arbitrary: fc.integer({ min: Math.max(1, minSize), max: largest }) },
      { weight: minSize === 0 ? 1 : 0, arbitrary: fc.constant(0) },
    )
    return fc.array(size, { minLength: rank, maxLength: rank })
  })

/** A tensor of a given shape. */
export const hostTensor = ({ dtype, element }: Elements, shape: readonly number[]): fc.Arbitrary<HostTensor> => {
  const length = elementCount(shape)
  return fc.array(element, { minLength: length, maxLength: length }).map((data) => ({ shape, dtype, data }))
}

/** Shapes that broadcast to `shape`: leading axes may be missing, others may have size 1. */
export const broadcastable = (shape: readonly number[]): fc.Arbitrary<readonly number[]> =>
  fc
    .tuple(fc.integer({ min: 0, max: shape.length }), fc.array(fc.nat(3), { minLength: 5, maxLength: 5 }))
    .map(([dropped, ones]) => shape.slice(dropped % 2 === 0 ? 0 : dropped).map((n, i) => (ones[i] === 0 ? 1 : n)))

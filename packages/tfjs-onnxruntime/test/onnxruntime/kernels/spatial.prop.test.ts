import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe } from 'vitest'
import { type Call, type KernelCase, kernelLaws, row } from '../../../../../test/kit/backends.js'
import { useOnnxRuntime } from '../../../../../test/kit/engine.js'
import { anyFloat, anyInt, bools, type Elements, hostTensor, shapes } from '../../../../../test/kit/hostTensor.js'
import { cases, one, oneWith } from '../../../../../test/kit/kernelCases.js'
import { spatialRules } from '../../../src/onnxruntime/kernels/spatial.js'

const { backend } = useOnnxRuntime()

const KINDS = [
  [anyFloat, {}],
  [anyInt, { on: 'int32' }],
  [bools, { on: 'bool' }],
] as const

const axesOf = (shape: readonly number[]): fc.Arbitrary<number[]> => fc.subarray(shape.map((_, i) => i))

interface Mirrored {
  readonly paddings: [number, number][]
  readonly mode: 'reflect' | 'symmetric'
}

/** Borders no wider than there are elements to mirror. */
const borders = (shape: readonly number[]): fc.Arbitrary<Mirrored> =>
  fc.constantFrom('reflect' as const, 'symmetric' as const).chain((mode) => {
    const widths = shape.map((n) => fc.nat(Math.min(3, mode === 'reflect' ? n - 1 : n)))
    return fc.record({
      paddings: fc.tuple(...widths.map((width) => fc.tuple(width, width))),
      mode: fc.constant(mode),
    })
  })

interface Strides {
  readonly begin: number[]
  readonly end: number[]
  readonly strides: number[]
  readonly masks: readonly number[]
}

/**
 * Begins, ends and strides for some of the axes, and masks. A range with stride 1 does not end
 * before it begins: tfjs's cpu kernel refuses to make it empty.
 */
const stridesOf = (shape: readonly number[]): fc.Arbitrary<Strides> =>
  fc.integer({ min: 1, max: shape.length }).chain((count) => {
    const perAxis = (element: fc.Arbitrary<number>): fc.Arbitrary<number[]> =>
      fc.array(element, { minLength: count, maxLength: count })
    const bits = fc.nat(2 ** count - 1)
    const ellipsis = count === shape.length ? fc.constant(0) : fc.constantFrom(0, 1)
    return fc
      .record({
        begin: perAxis(fc.integer({ min: -2, max: 2 })),
        end: perAxis(fc.integer({ min: -3, max: 4 })),
        strides: perAxis(fc.constantFrom(1, 1, 2, -1, -2)),
        masks: fc.tuple(bits, bits, ellipsis, fc.constant(0)),
      })
      .filter(({ begin, end, strides, masks: [b, e, ellipsis] }) => {
        const info = tf.slice_util.sliceInfo([...shape], begin, end, strides, b, e, ellipsis, 0, 0)
        return info.strides.some((n) => n !== 1) || info.begin.every((n, axis) => n <= info.end[axis]!)
      })
  })

const stridedSlice: Call<Strides> = ({ a }, { begin, end, strides, masks }) =>
  tf.stridedSlice(a, begin, end, strides, ...masks)

interface Blocks {
  readonly block: number[]
  readonly edges: number[][]
}

/** Images whose axes, with their paddings, are made of whole blocks. */
const padded = (elements: Elements): fc.Arbitrary<KernelCase<Blocks>> =>
  cases(
    fc
      .record({
        block: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 2 }),
        blocks: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 2, maxLength: 2 }),
        before: fc.array(fc.nat(2), { minLength: 2, maxLength: 2 }),
        batch: fc.integer({ min: 1, max: 3 }),
        rest: shapes(0, 1, 1),
      })
      .map(({ block, blocks, before, batch, rest }) => {
        const sizes = block.map((n, i) => n * blocks[i]!)
        const edges = sizes.map((n, i) => [Math.min(before[i]!, n - 1), 0])
        const shape = [batch, ...sizes.map((n, i) => n - edges[i]![0]!), ...rest]
        return [[hostTensor(elements, shape)], { block, edges }] as const
      }),
  )

/** Batches of as many images as a block has pixels, and crops that leave something. */
const folded = (elements: Elements): fc.Arbitrary<KernelCase<Blocks>> =>
  cases(
    fc
      .record({
        block: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 2 }),
        sizes: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 2, maxLength: 2 }),
        crops: fc.array(fc.tuple(fc.nat(2), fc.nat(2)), { minLength: 2, maxLength: 2 }),
        batch: fc.integer({ min: 1, max: 2 }),
        rest: shapes(0, 1, 1),
      })
      .map(({ block, sizes, crops, batch, rest }) => {
        const edges = block.map((n, i) => {
          const first = Math.min(crops[i]![0], n * sizes[i]! - 1)
          return [first, Math.min(crops[i]![1], n * sizes[i]! - 1 - first)]
        })
        const images = block.reduce((product, n) => product * n, batch)
        return [[hostTensor(elements, [images, ...sizes.slice(0, block.length), ...rest])], { block, edges }] as const
      }),
  )

const deep: fc.Arbitrary<KernelCase<number>> = cases(
  fc.tuple(fc.integer({ min: 2, max: 3 }), shapes(4, 4, 1)).map(([size, [n, h, w, c]]) => {
    const shape = [n!, h!, w!, c! * size ** 2]
    return [[hostTensor(anyFloat, shape)], size] as const
  }),
)

const mirrorPad: Call<Mirrored> = ({ a }, { paddings, mode }) => tf.mirrorPad(a, paddings, mode)

const rows = [
  ...KINDS.flatMap(([elements, on]) => [
    row('BatchToSpaceND', folded(elements), ({ a }, { block, edges }) => tf.batchToSpaceND(a, block, edges), on),
    row('MirrorPad', oneWith(elements, borders, shapes(1, 4, 1)), mirrorPad, on),
    row('Reverse', oneWith(elements, axesOf, shapes(1, 5)), ({ a }, axes) => tf.reverse(a, axes), on),
    row('SpaceToBatchND', padded(elements), ({ a }, { block, edges }) => tf.spaceToBatchND(a, block, edges), on),
    row('StridedSlice', oneWith(elements, stridesOf, shapes(1, 5)), stridedSlice, on),
  ]),
  row('Reverse', one(anyFloat), ({ a }) => tf.reverse(a), { on: 'all axes' }),
  row('DepthToSpace', deep, ({ a }, size) => tf.depthToSpace(a as tf.Tensor4D, size, 'NHWC')), // of rank 4
  row('FlipLeftRight', one(anyFloat, shapes(4, 4)), ({ a }) => tf.image.flipLeftRight(a as tf.Tensor4D)), // of rank 4
]

describe('kernels that turn and fold axes', () => {
  kernelLaws(backend, () => Object.keys(spatialRules), rows)
})

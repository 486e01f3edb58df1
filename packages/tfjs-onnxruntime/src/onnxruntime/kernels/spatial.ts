/** Kernels that rearrange axes: reversal, strides, mirrored borders, blocks of pixels. */
import * as tf from '@tensorflow/tfjs-core'
import { sizeOf, type Value } from '../graph.js'
import {
  type Emitter,
  integersAttribute,
  type KernelAttributes,
  type KernelRule,
  normalizeAxes,
  numberAttribute,
  type RuleTable,
} from '../rule.js'
import { padValue, reshapeValue, transposeValue } from './shape.js'

/** The start, the step and the number of elements for each axis. */
interface Steps {
  readonly begin: readonly number[]
  readonly strides: readonly number[]
  readonly shape: readonly number[]
}

/** Takes elements at regular distances along each axis; a negative stride runs backward. */
const sliceValue = (emitter: Emitter, value: Value, { begin, strides, shape }: Steps): Value => {
  const ends = begin.map((first, i) => {
    const end = first + shape[i]! * strides[i]!
    return end < 0 ? -value.shape[i]! - 1 : end // a negative end counts from the back; this one is before the first element
  })
  const axes = begin.map((_, i) => i)
  const lists = [begin, ends, axes, strides].map((list) => emitter.integers(list))
  return emitter.emit('Slice', [value, ...lists], { shape, type: value.type })
}

const reverseValue = (emitter: Emitter, value: Value, axes: readonly number[]): Value =>
  sliceValue(emitter, value, {
    begin: value.shape.map((n, i) => (axes.includes(i) ? n - 1 : 0)),
    strides: value.shape.map((_, i) => (axes.includes(i) ? -1 : 1)),
    shape: value.shape,
  })

const reverse: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined || value.shape.length === 0) return undefined
  const axes = attributes.dims == null ? value.shape.map((_, i) => i) : integersAttribute(attributes, 'dims')
  return reverseValue(emitter, value, normalizeAxes(axes, value.shape.length))
}

/** Flips images `[batch, height, width, channels]` left to right. */
const flipLeftRight: KernelRule = (emitter, { image }) => {
  const value = emitter.valueOf(image!)
  return value?.shape.length === 4 && value.type === 'float32' ? reverseValue(emitter, value, [2]) : undefined
}

const stridedSlice: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined || value.shape.length === 0) return undefined
  const list = (name: string): number[] => [...integersAttribute(attributes, name)]
  const [beginMask, endMask, ellipsisMask, newAxisMask, shrinkAxisMask] = (
    ['beginMask', 'endMask', 'ellipsisMask', 'newAxisMask', 'shrinkAxisMask'] as const
  ).map((name) => numberAttribute(attributes, name))
  const info = tf.slice_util.sliceInfo(
    [...value.shape],
    list('begin'),
    list('end'),
    list('strides'),
    beginMask!,
    endMask!,
    ellipsisMask!,
    newAxisMask!,
    shrinkAxisMask!,
  )
  if (sizeOf(info.finalShape) === 0) return undefined
  if (info.isIdentity) return reshapeValue(emitter, value, info.finalShape)
  const { begin, end, strides } = info
  // Not `finalShapeSparse`, which lacks the axes that are to go.
  const shape = begin.map((first, i) => Math.ceil((end[i]! - first) / strides[i]!))
  return reshapeValue(emitter, sliceValue(emitter, value, { begin, strides, shape }), info.finalShape)
}

type Widths = readonly (readonly [number, number])[]

const paddingsOf = (attributes: KernelAttributes, name: string): Widths => attributes[name] as Widths // MirrorPadAttrs, SpaceToBatchNDAttrs and BatchToSpaceNDAttrs of tfjs-core

/**
 * Pads with borders that mirror the inside: `reflect` without the outermost element, `symmetric`
 * with it.
 */
const mirrorPad: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined) return undefined
  const inner = attributes.mode === 'reflect' ? 1 : 0
  return paddingsOf(attributes, 'paddings').reduce((padded, [before, after], axis) => {
    if (before === 0 && after === 0) return padded
    const size = value.shape[axis]!
    const places = Array.from({ length: before + size + after }, (_, i) => {
      const at = i - before
      if (at < 0) return -at - 1 + inner
      return at < size ? at : 2 * size - 1 - at - inner
    })
    const shape = padded.shape.map((n, i) => (i === axis ? places.length : n))
    return emitter.emit(
      'Gather',
      [padded, emitter.integers(places)],
      { shape, type: value.type },
      { attributes: { axis } },
    )
  }, value)
}

/** Moves channels to blocks of pixels: `[b, h, w, s s c]` to `[b, h s, w s, c]`. */
const depthToSpace: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value?.type !== 'float32' || attributes.dataFormat !== 'NHWC') return undefined
  const size = numberAttribute(attributes, 'blockSize')
  const [batch, height, width, channels] = value.shape as readonly [number, number, number, number] // tfjs asserts the rank
  const depth = channels / size ** 2
  const blocks = reshapeValue(emitter, value, [batch, height, width, size, size, depth])
  return reshapeValue(emitter, transposeValue(emitter, blocks, [0, 1, 3, 2, 4, 5]), [
    batch,
    height * size,
    width * size,
    depth,
  ])
}

const blockShapeOf = (attributes: KernelAttributes): number[] => [...integersAttribute(attributes, 'blockShape')]

/** Moves blocks of the axes after the first into the first. */
const spaceToBatch: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined) return undefined
  const block = blockShapeOf(attributes)
  const rest = value.shape.slice(1 + block.length).map(() => [0, 0] as const)
  const padded = padValue(emitter, value, [[0, 0], ...paddingsOf(attributes, 'paddings'), ...rest], 0)
  const { getReshaped, getPermuted, getReshapedPermuted } = tf.backend_util
  const split = getReshaped([...padded.shape], block, sizeOf(block), false)
  const order = getPermuted(split.length, block.length, false)
  const folded = transposeValue(emitter, reshapeValue(emitter, padded, split), order)
  return reshapeValue(emitter, folded, getReshapedPermuted([...padded.shape], block, sizeOf(block), false))
}

/** Inverts spaceToBatch, with crops for its paddings. */
const batchToSpace: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined) return undefined
  const block = blockShapeOf(attributes)
  const crops = paddingsOf(attributes, 'crops').map((widths) => [...widths])
  const { getReshaped, getPermuted, getReshapedPermuted, getSliceBeginCoords, getSliceSize } = tf.backend_util
  const split = getReshaped([...value.shape], block, sizeOf(block))
  const unfolded = transposeValue(emitter, reshapeValue(emitter, value, split), getPermuted(split.length, block.length))
  const whole = getReshapedPermuted([...value.shape], block, sizeOf(block))
  const rest = whole.slice(1 + block.length)
  const begin = [...getSliceBeginCoords(crops, block.length), ...rest.map(() => 0)]
  const shape = [...getSliceSize(whole, crops, block.length), ...rest]
  if (sizeOf(shape) === 0) return undefined
  return sliceValue(emitter, reshapeValue(emitter, unfolded, whole), { begin, strides: begin.map(() => 1), shape })
}

export const spatialRules: RuleTable = {
  BatchToSpaceND: batchToSpace,
  DepthToSpace: depthToSpace,
  FlipLeftRight: flipLeftRight,
  MirrorPad: mirrorPad,
  Reverse: reverse,
  SpaceToBatchND: spaceToBatch,
  StridedSlice: stridedSlice,
}

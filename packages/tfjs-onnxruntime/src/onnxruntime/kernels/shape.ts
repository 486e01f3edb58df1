/**
 * Kernels that move elements without arithmetic. A call whose shapes do not fit throws tfjs's own
 * error.
 */
import * as tf from '@tensorflow/tfjs-core'
import type { Value } from '../graph.js'
import { sizeOf } from '../graph.js'
import type { Emitter, KernelInputs, KernelRule, RuleTable } from '../rule.js'
import { integersAttribute, normalizeAxes, numberAttribute } from '../rule.js'

/** Reshapes a value; the elements stay in order. */
export const reshapeValue = (emitter: Emitter, value: Value, shape: readonly number[]): Value =>
  emitter.emit('Reshape', [value, emitter.integers(shape)], { shape, type: value.type })

/** Reorders the axes. */
export const transposeValue = (emitter: Emitter, value: Value, order: readonly number[]): Value => {
  const shape = order.map((axis) => value.shape[axis]!)
  return emitter.emit('Transpose', [value], { shape, type: value.type }, { attributes: { perm: order } })
}

/**
 * Returns all inputs as values of one type, in order; undefined if one is a string or complex, or
 * if types differ.
 */
const listed = (emitter: Emitter, inputs: KernelInputs): readonly Value[] | undefined => {
  const values = Object.values(inputs).map((info) => (info === undefined ? undefined : emitter.valueOf(info)))
  const type = values[0]?.type
  return values.every((v): v is Value => v !== undefined && v.type === type) ? values : undefined
}

const concat: KernelRule = (emitter, inputs, attributes) => {
  const all = listed(emitter, inputs)
  if (all === undefined) return undefined
  const [axis] = normalizeAxes([numberAttribute(attributes, 'axis')], all[0]!.shape.length)
  const shapes = all.map((v) => [...v.shape])
  tf.backend_util.assertParamsConsistent(shapes, axis!)
  const shape = tf.backend_util.computeOutShape(shapes, axis!)
  const present = all.filter((v) => sizeOf(v.shape) > 0)
  if (present.length === 0) return undefined
  return emitter.emit('Concat', present, { shape, type: all[0]!.type }, { attributes: { axis: axis! } })
}

const pack: KernelRule = (emitter, inputs, attributes) => {
  const all = listed(emitter, inputs)
  if (all === undefined) return undefined
  const [axis] = normalizeAxes([numberAttribute(attributes, 'axis')], all[0]!.shape.length + 1)
  for (const { shape } of all) {
    tf.util.assertShapesMatch([...all[0]!.shape], [...shape], 'All tensors passed to stack must have matching shapes')
  }
  const { shape: one, type } = all[0]!
  const shape = [...one.slice(0, axis), all.length, ...one.slice(axis)]
  // If an axis follows the new one, concatenating along that axis puts every element in its place.
  if (axis! < one.length) {
    const joined = one.map((n, i) => (i === axis ? n * all.length : n))
    const value = emitter.emit('Concat', all, { shape: joined, type }, { attributes: { axis: axis! } })
    return reshapeValue(emitter, value, shape)
  }
  const expanded = all.map((v) => reshapeValue(emitter, v, [...one, 1]))
  return emitter.emit('Concat', expanded, { shape, type }, { attributes: { axis: axis! } })
}

/** Splits along an axis into one piece for each size. */
const splitValue = (emitter: Emitter, value: Value, axis: number, sizes: readonly number[]): readonly Value[] => {
  if (sizes.length === 1) return [value]
  const outputs = sizes.map((size) => ({ shape: value.shape.map((n, i) => (i === axis ? size : n)), type: value.type }))
  return emitter.emitMany('Split', [value, emitter.integers(sizes)], outputs, { attributes: { axis } })
}

const unpack: KernelRule = (emitter, { value: info }, attributes) => {
  const value = emitter.valueOf(info!)
  if (value === undefined) return undefined
  const [axis] = normalizeAxes([numberAttribute(attributes, 'axis')], value.shape.length)
  const count = value.shape[axis!]!
  const shape = value.shape.filter((_, i) => i !== axis)
  return splitValue(
    emitter,
    value,
    axis!,
    Array.from({ length: count }, () => 1),
  ).map((piece) => reshapeValue(emitter, piece, shape))
}

const split: KernelRule = (emitter, { x: info }, attributes) => {
  const value = emitter.valueOf(info!)
  if (value === undefined) return undefined
  const [axis] = normalizeAxes([numberAttribute(attributes, 'axis')], value.shape.length)
  const given = attributes.numOrSizeSplits as number | readonly number[] // SplitVAttrs of tfjs-core
  const parts = typeof given === 'number' ? given : [...given] // tfjs writes the inferred size into the list
  return splitValue(emitter, value, axis!, tf.backend_util.prepareSplitSize(info!, parts, axis))
}

const slice: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined || value.shape.length === 0) return undefined
  const first = [...integersAttribute(attributes, 'begin')]
  const size = attributes.size == null ? undefined : [...integersAttribute(attributes, 'size')] // without a size, up to the end
  const [begin, shape] = tf.slice_util.parseSliceParams(x!, first, size) as [number[], number[]] // declared as number[][]
  tf.slice_util.assertParamsValid(x!, begin, shape)
  if (begin.some((n) => n < 0)) throw new RangeError(`slice: begin must not be negative, got [${begin.join()}]`)
  const moved = value.shape.map((_, i) => i).filter((i) => shape[i] !== value.shape[i])
  if (moved.length === 0) return reshapeValue(emitter, value, value.shape)
  const starts = moved.map((i) => begin[i]!)
  const ends = moved.map((i) => begin[i]! + shape[i]!)
  return emitter.emit('Slice', [value, emitter.integers(starts), emitter.integers(ends), emitter.integers(moved)], {
    shape,
    type: value.type,
  })
}

/** Pads a value with elements of one number; a negative width removes elements instead. */
export const padValue = (
  emitter: Emitter,
  value: Value,
  paddings: readonly (readonly [number, number])[],
  fill: number,
): Value => {
  const shape = value.shape.map((n, i) => n + paddings[i]![0] + paddings[i]![1])
  const widths = [...paddings.map(([before]) => before), ...paddings.map(([, after]) => after)]
  const around = fill === 0 ? emitter.fixed(0, value.type) : emitter.scalar(fill, value.type)
  return emitter.emit('Pad', [value, emitter.integers(widths), around], { shape, type: value.type })
}

const pad: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined) return undefined
  const paddings = attributes.paddings as readonly (readonly [number, number])[] // PadV2Attrs of tfjs-core
  if (paddings.length !== value.shape.length) {
    throw new Error(`pad: ${paddings.length} pairs of widths given for a tensor of rank ${value.shape.length}`)
  }
  return padValue(emitter, value, paddings, numberAttribute(attributes, 'constantValue'))
}

const tile: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined || value.shape.length === 0) return undefined
  const repeats = integersAttribute(attributes, 'reps')
  const shape = value.shape.map((n, i) => n * repeats[i]!)
  return emitter.emit('Tile', [value, emitter.integers(repeats)], { shape, type: value.type })
}

const transpose: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined) return undefined
  const order = integersAttribute(attributes, 'perm')
  return order.every((axis, i) => axis === i)
    ? reshapeValue(emitter, value, value.shape)
    : transposeValue(emitter, value, order)
}

export const shapeRules: RuleTable = {
  Concat: concat,
  Pack: pack,
  PadV2: pad,
  Slice: slice,
  SplitV: split,
  Tile: tile,
  Transpose: transpose,
  Unpack: unpack,
}

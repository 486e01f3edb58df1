/**
 * The common parts of convolutions and pools: the geometry of their windows, and the axis order of
 * ONNX.
 */
import type * as tf from '@tensorflow/tfjs-core'
import type { Value } from '../graph.js'
import type { Emitter } from '../rule.js'
import { padValue, transposeValue } from './shape.js'

/**
 * Windows of `kernel` elements, `dilations` apart, moved by `strides` over `size` elements: `count`
 * of them. One number for each spatial axis.
 */
export interface Windows {
  readonly size: readonly number[]
  readonly count: readonly number[]
  readonly kernel: readonly number[]
  readonly strides: readonly number[]
  readonly dilations: readonly number[]
  /** The number of elements by which the first window begins before the first element. */
  readonly before: readonly number[]
  /**
   * The number of elements by which the last window extends beyond the last element; negative if it
   * ends before.
   */
  readonly after: readonly number[]
}

type Info = tf.backend_util.Conv2DInfo | tf.backend_util.Conv3DInfo

const geometry = (info: Info): Omit<Windows, 'after'> => {
  const { padInfo } = info
  const flat = {
    size: [info.inHeight, info.inWidth],
    count: [info.outHeight, info.outWidth],
    kernel: [info.filterHeight, info.filterWidth],
    strides: [info.strideHeight, info.strideWidth],
    dilations: [info.dilationHeight, info.dilationWidth],
    before: [padInfo.top, padInfo.left],
  }
  if (!('inDepth' in info)) return flat
  return {
    size: [info.inDepth, ...flat.size],
    count: [info.outDepth, ...flat.count],
    kernel: [info.filterDepth, ...flat.kernel],
    strides: [info.strideDepth, ...flat.strides],
    dilations: [info.dilationDepth, ...flat.dilations],
    before: [info.padInfo.front, ...flat.before],
  }
}

/** Returns the windows that tfjs computed. */
export const windowsOf = (info: Info): Windows => {
  const { size, count, kernel, strides, dilations, before } = geometry(info)
  const after = size.map(
    (n, i) => (count[i]! - 1) * strides[i]! + (kernel[i]! - 1) * dilations[i]! + 1 - n - before[i]!,
  )
  return { size, count, kernel, strides, dilations, before, after }
}

/** Returns the windows' borders in ONNX's order: all beginnings, then all ends. */
export const borders = ({ before, after }: Windows): readonly number[] => [
  ...before,
  ...after.map((n) => Math.max(0, n)),
]

/**
 * Returns true if ONNX puts the windows at the same positions: it uses as many as fit, and starts
 * at the edge or before.
 */
export const countsAsOnnx = ({ before, after, strides }: Windows): boolean =>
  after.every((n, i) => -n < strides[i]! && before[i]! >= 0)

const spatial = (value: Value): readonly number[] => value.shape.slice(2).map((_, i) => i)

/** Moves the channels: `[n, ..., c]` to `[n, c, ...]`. */
export const channelsFirst = (emitter: Emitter, value: Value): Value =>
  transposeValue(emitter, value, [0, value.shape.length - 1, ...spatial(value).map((i) => i + 1)])

/** Moves the channels: `[n, c, ...]` to `[n, ..., c]`. */
export const channelsLast = (emitter: Emitter, value: Value): Value =>
  transposeValue(emitter, value, [0, ...spatial(value).map((i) => i + 2), 1])

/** Swaps the first two axes. */
export const swapFirst = (emitter: Emitter, value: Value): Value =>
  transposeValue(emitter, value, [1, 0, ...spatial(value).map((i) => i + 2)])

/** Converts a filter of tfjs, `[..., in, out]`, to ONNX's layout: `[out, in, ...]`. */
export const filterFirst = (emitter: Emitter, filter: Value): Value => {
  const n = filter.shape.length - 2
  return transposeValue(emitter, filter, [n + 1, n, ...spatial(filter)])
}

/**
 * Computes the gradient of a convolution for its input, `[n, c, ...]`: `filter` is `[out, in /
 * group, ...]`.
 */
export const spreadBack = (
  emitter: Emitter,
  dy: Value,
  filter: Value,
  options: { readonly windows: Windows; readonly group: number },
): Value => {
  const { windows, group } = options
  const { size, kernel, strides, dilations, after } = windows
  const channels = filter.shape[1]! * group
  const reached = size.map((n, i) => n + Math.min(0, after[i]!))
  const spread = emitter.emit(
    'ConvTranspose',
    [dy, filter],
    { shape: [dy.shape[0]!, channels, ...reached], type: 'float32' },
    { attributes: { kernel_shape: kernel, strides, dilations, group, pads: borders(windows) } },
  )
  if (reached.every((n, i) => n === size[i])) return spread
  const rest = size.map((n, i) => [0, n - reached[i]!] as const) // the elements that no window covers
  return padValue(emitter, spread, [[0, 0], [0, 0], ...rest], 0)
}

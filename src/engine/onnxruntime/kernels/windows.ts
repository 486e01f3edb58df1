/** What convolutions and pools share: the geometry of their windows, and the order of axes that ONNX asks for. */
import type * as tf from '@tensorflow/tfjs-core'
import type { Value } from '../graph.js'
import type { Emitter } from '../rule.js'
import { padValue, transposeValue } from './shape.js'

/** Windows of `kernel` elements, `dilations` apart, moved by `strides` over `size` elements: `count` of them. One number for each spatial axis. */
export interface Windows {
  readonly size: readonly number[]
  readonly count: readonly number[]
  readonly kernel: readonly number[]
  readonly strides: readonly number[]
  readonly dilations: readonly number[]
  /** Elements that the first window reaches before the first element. */
  readonly before: readonly number[]
  /** Elements that the last window reaches beyond the last element; negative if it ends before. */
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

/** The windows that tfjs computed. */
export const windowsOf = (info: Info): Windows => {
  const { size, count, kernel, strides, dilations, before } = geometry(info)
  const after = size.map(
    (n, i) => (count[i]! - 1) * strides[i]! + (kernel[i]! - 1) * dilations[i]! + 1 - n - before[i]!,
  )
  return { size, count, kernel, strides, dilations, before, after }
}

/** The windows' borders as ONNX wants them: all beginnings, then all ends. */
export const borders = ({ before, after }: Windows): readonly number[] => [
  ...before,
  ...after.map((n) => Math.max(0, n)),
]

/** Whether ONNX moves the windows to the same places: it makes as many of them as fit, and starts at the edge or before. */
export const countsAsOnnx = ({ before, after, strides }: Windows): boolean =>
  after.every((n, i) => -n < strides[i]! && before[i]! >= 0)

const spatial = (value: Value): readonly number[] => value.shape.slice(2).map((_, i) => i)

/** `[n, ..., c]` to `[n, c, ...]`. */
export const channelsFirst = (emitter: Emitter, value: Value): Value =>
  transposeValue(emitter, value, [0, value.shape.length - 1, ...spatial(value).map((i) => i + 1)])

/** `[n, c, ...]` to `[n, ..., c]`. */
export const channelsLast = (emitter: Emitter, value: Value): Value =>
  transposeValue(emitter, value, [0, ...spatial(value).map((i) => i + 2), 1])

/** The first two axes swapped. */
export const swapFirst = (emitter: Emitter, value: Value): Value =>
  transposeValue(emitter, value, [1, 0, ...spatial(value).map((i) => i + 2)])

/** A filter of tfjs's, `[..., in, out]`, as ONNX has it: `[out, in, ...]`. */
export const filterFirst = (emitter: Emitter, filter: Value): Value => {
  const n = filter.shape.length - 2
  return transposeValue(emitter, filter, [n + 1, n, ...spatial(filter)])
}

/** The gradient of a convolution for its input, `[n, c, ...]`: `filter` is `[out, in / group, ...]`. */
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
  const rest = size.map((n, i) => [0, n - reached[i]!] as const) // what no window reaches
  return padValue(emitter, spread, [[0, 0], [0, 0], ...rest], 0)
}

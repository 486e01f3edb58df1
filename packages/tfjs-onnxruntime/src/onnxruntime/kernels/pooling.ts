/** Averages and maxima of windows, in two and three dimensions, and their gradients. */
import * as tf from '@tensorflow/tfjs-core'
import { sameShape, sizeOf, type Value } from '../graph.js'
import {
  type Emitter,
  flagAttribute,
  isFloat,
  type KernelAttributes,
  type KernelRule,
  type RuleTable,
} from '../rule.js'
import { castValue } from './elementwise.js'
import { reshapeValue } from './shape.js'
import { borders, channelsFirst, channelsLast, countsAsOnnx, spreadBack, type Windows, windowsOf } from './windows.js'

/** The Pool attributes of tfjs-core. */
interface PoolAttributes {
  readonly filterSize: [number, number]
  readonly strides: [number, number]
  readonly pad: 'same' | 'valid'
  readonly dimRoundingMode?: 'floor' | 'round' | 'ceil'
  readonly dataFormat?: 'NHWC' | 'NCHW' | 'NDHWC' | 'NCDHW'
}

/**
 * Returns the windows of a pool over `[n, ..., c]`; undefined if a window may be empty, or the
 * channels come first.
 */
const poolWindows = (shape: readonly number[], attributes: KernelAttributes): Windows | undefined => {
  const { filterSize, strides, pad, dimRoundingMode, dataFormat } = attributes as unknown as PoolAttributes // see there
  if (dataFormat === 'NCHW' || dataFormat === 'NCDHW') return undefined
  const input = [...shape]
  const windows =
    input.length === 5
      ? windowsOf(
          tf.backend_util.computePool3DInfo(
            input as [number, number, number, number, number], // checked here
            filterSize as unknown as [number, number, number], // of a Pool3D kernel
            strides as unknown as [number, number, number], // of a Pool3D kernel
            1,
            pad,
            dimRoundingMode,
          ),
        )
      : windowsOf(
          tf.backend_util.computePool2DInfo(
            input as [number, number, number, number], // tfjs asserts the rank
            filterSize,
            strides,
            1,
            pad,
            dimRoundingMode,
          ),
        )
  const inside = windows.kernel.every((n, i) => windows.before[i]! < n && windows.after[i]! < n)
  return inside && countsAsOnnx(windows) ? windows : undefined
}

const onnxAttributes = (windows: Windows) => ({
  kernel_shape: windows.kernel,
  strides: windows.strides,
  pads: borders(windows),
})

/** The ONNX operation that reduces each window to one number. */
const pool =
  (operation: 'AveragePool' | 'MaxPool'): KernelRule =>
  (emitter, { x }, attributes) => {
    const value = emitter.valueOf(x!)
    if (value === undefined || !isFloat(value)) return undefined
    const windows = poolWindows(value.shape, attributes)
    if (windows === undefined) return undefined
    const input = channelsFirst(emitter, value)
    const shape = [...input.shape.slice(0, 2), ...windows.count]
    const own = operation === 'AveragePool' ? { count_include_pad: 0 } : {}
    const output = { shape, type: 'float32' } as const
    return channelsLast(
      emitter,
      emitter.emit(operation, [input], output, { attributes: { ...onnxAttributes(windows), ...own } }),
    )
  }

/**
 * Computes the gradient of averagePool as tfjs does: every element of a window, also at the border,
 * gets the same full share.
 */
const averagePoolGradient: KernelRule = (emitter, { dy, input }, attributes) => {
  const gradient = emitter.valueOf(dy!)
  if (gradient === undefined || !isFloat(gradient)) return undefined
  const windows = poolWindows(input!.shape, attributes)
  if (windows === undefined || !sameShape(gradient.shape.slice(1, -1), windows.count)) return undefined
  const [batch, channels] = [input!.shape[0]!, input!.shape.at(-1)!]
  const { count, kernel, size } = windows
  const planes = reshapeValue(emitter, channelsFirst(emitter, gradient), [batch * channels, 1, ...count])
  const shape = [1, 1, ...kernel]
  const share = emitter.fixed(1 / sizeOf(kernel), 'float32')
  const weights = emitter.emit('Expand', [share, emitter.integers(shape)], { shape, type: 'float32' })
  const spread = spreadBack(emitter, planes, weights, { windows, group: 1 })
  return channelsLast(emitter, reshapeValue(emitter, spread, [batch, channels, ...size]))
}

/**
 * Returns the maxima, and their positions in the input, as indices into `[n, c, ...]`; both with
 * the channels second.
 */
interface Maxima {
  readonly values: Value
  readonly places: Value
}

const maxima = (emitter: Emitter, value: Value, windows: Windows): Maxima => {
  const input = channelsFirst(emitter, value)
  const shape = [...input.shape.slice(0, 2), ...windows.count]
  const [values, places] = emitter.emitMany(
    'MaxPool',
    [input],
    [
      { shape, type: 'float32' },
      { shape, type: 'int64' },
    ],
    { attributes: onnxAttributes(windows) },
  )
  return { values: values!, places: places! }
}

/** Computes the gradient of the maximum, which goes to the position of each maximum. */
const maxPoolGradient: KernelRule = (emitter, { dy, input }, attributes) => {
  const [gradient, value] = [emitter.valueOf(dy!), emitter.valueOf(input!)]
  if (gradient === undefined || value === undefined || !isFloat(gradient) || !isFloat(value)) return undefined
  const windows = poolWindows(value.shape, attributes)
  if (windows === undefined || !sameShape(gradient.shape.slice(1, -1), windows.count)) return undefined
  const { places } = maxima(emitter, value, windows)
  const [total, count] = [sizeOf(value.shape), sizeOf(gradient.shape)]
  const zero = emitter.fixed(0, 'float32')
  const spread = emitter.emit(
    'ScatterElements',
    [
      emitter.emit('Expand', [zero, emitter.integers([total])], { shape: [total], type: 'float32' }),
      reshapeValue(emitter, places, [count]),
      reshapeValue(emitter, channelsFirst(emitter, gradient), [count]),
    ],
    { shape: [total], type: 'float32' },
    { attributes: { axis: 0, reduction: 'add' } },
  )
  const shape = [value.shape[0]!, value.shape.at(-1)!, ...windows.size]
  return channelsLast(emitter, reshapeValue(emitter, spread, shape))
}

/**
 * Returns the maxima and their positions in `[n, h, w, c]`, or in `[h, w, c]` without the batch.
 */
const maxPoolWithPlaces: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined || !isFloat(value) || value.shape.length !== 4) return undefined
  const windows = poolWindows(value.shape, attributes)
  if (windows === undefined) return undefined
  const [batch, channels] = [value.shape[0]!, value.shape.at(-1)!]
  const isNaNValue = emitter.emit('IsNaN', [value], { shape: value.shape, type: 'bool' })
  const least = emitter.fixed(Number.NEGATIVE_INFINITY, 'float32')
  const compared = emitter.emit('Where', [isNaNValue, least, value], value) // a NaN is never the maximum
  const { values, places } = maxima(emitter, compared, windows)
  const area = sizeOf(windows.size)
  const output = { shape: places.shape, type: 'int64' } as const
  const inPlane = emitter.emit('Mod', [places, emitter.integers([area])], output)
  const scaled = emitter.emit('Mul', [inPlane, emitter.integers([channels])], output)
  const withBatch = flagAttribute(attributes, 'includeBatchInIndex')
  const offsets = Array.from({ length: batch * channels }, (_, i) => {
    const [n, c] = [Math.floor(i / channels), i % channels]
    return withBatch ? n * area * channels + c : c
  })
  const offset = emitter.emit('Reshape', [emitter.integers(offsets), emitter.integers([batch, channels, 1, 1])], {
    shape: [batch, channels, 1, 1],
    type: 'int64',
  })
  const found = castValue(emitter, emitter.emit('Add', [scaled, offset], output), 'int32')
  return [values, found].map((v) => channelsLast(emitter, v))
}

export const poolingRules: RuleTable = {
  AvgPool: pool('AveragePool'),
  AvgPool3D: pool('AveragePool'),
  AvgPool3DGrad: averagePoolGradient,
  AvgPoolGrad: averagePoolGradient,
  MaxPool: pool('MaxPool'),
  MaxPool3D: pool('MaxPool'),
  MaxPool3DGrad: maxPoolGradient,
  MaxPoolGrad: maxPoolGradient,
  MaxPoolWithArgmax: maxPoolWithPlaces,
}

/**
 * Convolutions and their gradients, in two and three dimensions, with full or one-channel filters.
 */
import * as tf from '@tensorflow/tfjs-core'
import { sameShape, type Value } from '../graph.js'
import {
  type Emitter,
  isFloat,
  type KernelAttributes,
  type KernelInputs,
  type KernelRule,
  type RuleTable,
} from '../rule.js'
import { emitActivation } from './activation.js'
import { reshapeValue, transposeValue } from './shape.js'
import {
  borders,
  channelsFirst,
  channelsLast,
  countsAsOnnx,
  filterFirst,
  spreadBack,
  swapFirst,
  type Windows,
  windowsOf,
} from './windows.js'

/**
 * The arguments of tfjs's functions that compute a convolution's geometry, as kernel attributes.
 */
interface ConvolutionAttributes {
  readonly strides: [number, number]
  readonly pad: 'same' | 'valid'
  readonly dilations?: [number, number] | null
  readonly dimRoundingMode?: 'floor' | 'round' | 'ceil'
  readonly dataFormat?: 'NHWC' | 'NCHW' | 'NDHWC' | 'NCDHW'
  readonly inputShape?: [number, number, number, number]
  readonly filterShape?: [number, number, number, number]
}

const typed = (attributes: KernelAttributes): ConvolutionAttributes => attributes as unknown as ConvolutionAttributes // the Conv attributes of tfjs-core; rank 5 goes through the same names

type Kind = 'full' | 'depthwise'

/** Returns the windows of a convolution; undefined if ONNX would count other windows. */
const convolutionWindows = (
  kind: Kind,
  inputShape: readonly number[],
  filterShape: readonly number[],
  attributes: KernelAttributes,
): Windows | undefined => {
  const { strides, pad, dimRoundingMode, dilations: given } = typed(attributes)
  const dilations = given ?? 1
  const [input, filter] = [[...inputShape], [...filterShape]]
  const windows =
    input.length === 5
      ? windowsOf(
          tf.backend_util.computeConv3DInfo(
            input as [number, number, number, number, number], // checked here
            filter as [number, number, number, number, number], // tfjs asserts equal ranks
            strides as unknown as [number, number, number], // of a Conv3D kernel
            dilations as unknown as [number, number, number],
            pad,
          ),
        )
      : windowsOf(
          tf.backend_util.computeConv2DInfo(
            input as [number, number, number, number], // tfjs asserts the rank
            filter as [number, number, number, number],
            strides,
            dilations,
            pad,
            dimRoundingMode,
            kind === 'depthwise',
            isFirst(attributes) ? 'channelsFirst' : 'channelsLast',
          ),
        )
  return countsAsOnnx(windows) ? windows : undefined
}

/** Returns true if the channels are the second axis instead of the last. */
const isFirst = (attributes: KernelAttributes): boolean => attributes.dataFormat === 'NCHW'

const toFirst = (emitter: Emitter, value: Value, attributes: KernelAttributes): Value =>
  isFirst(attributes) ? value : channelsFirst(emitter, value)

const fromFirst = (emitter: Emitter, value: Value, attributes: KernelAttributes): Value =>
  isFirst(attributes) ? value : channelsLast(emitter, value)

interface Operands {
  readonly a: Value
  readonly b: Value
}

const floats = (emitter: Emitter, a: tf.TensorInfo, b: tf.TensorInfo): Operands | undefined => {
  const [left, right] = [emitter.valueOf(a), emitter.valueOf(b)]
  return left !== undefined && right !== undefined && isFloat(left) && isFloat(right)
    ? { a: left, b: right }
    : undefined
}

/** Converts a depthwise filter `[h, w, c, m]` to ONNX's layout: `[c m, 1, h, w]` in c groups. */
const depthwiseFilter = (emitter: Emitter, filter: Value): Value => {
  const [height, width, channels, multiplier] = filter.shape as readonly [number, number, number, number] // tfjs asserts it
  const moved = transposeValue(emitter, filter, [2, 3, 0, 1])
  return reshapeValue(emitter, moved, [channels * multiplier, 1, height, width])
}

const filterOf = (emitter: Emitter, filter: Value, kind: Kind): { readonly weights: Value; readonly group: number } =>
  kind === 'full'
    ? { weights: filterFirst(emitter, filter), group: 1 }
    : { weights: depthwiseFilter(emitter, filter), group: filter.shape[2]! }

const convolve = (
  emitter: Emitter,
  inputs: KernelInputs,
  attributes: KernelAttributes,
  kind: Kind,
): Value | undefined => {
  const operands = floats(emitter, inputs.x!, inputs.filter!)
  if (operands === undefined) return undefined
  const windows = convolutionWindows(kind, operands.a.shape, operands.b.shape, attributes)
  if (windows === undefined) return undefined
  const x = toFirst(emitter, operands.a, attributes)
  const { weights, group } = filterOf(emitter, operands.b, kind)
  const { count, kernel, strides, dilations } = windows
  const made = emitter.emit(
    'Conv',
    [x, weights],
    { shape: [x.shape[0]!, weights.shape[0]!, ...count], type: 'float32' },
    { attributes: { kernel_shape: kernel, strides, dilations, group, pads: borders(windows) } },
  )
  return fromFirst(emitter, made, attributes)
}

/** Reshapes one number for each channel so that it broadcasts along the channels. */
const perChannel = (emitter: Emitter, info: tf.TensorInfo, attributes: KernelAttributes): Value | undefined => {
  const value = emitter.valueOf(info)
  if (value === undefined || !isFirst(attributes) || value.shape.length !== 1 || value.shape[0] === 1) return value
  return reshapeValue(emitter, value, [value.shape[0]!, 1, 1])
}

/** Computes a convolution with optional bias and an activation. */
const fused =
  (kind: Kind): KernelRule =>
  (emitter, inputs, attributes) => {
    const product = convolve(emitter, inputs, attributes, kind)
    if (product === undefined) return undefined
    const bias = inputs.bias == null ? undefined : perChannel(emitter, inputs.bias, attributes)
    const sum = bias === undefined ? product : emitter.emit('Add', [product, bias], product)
    const weights = inputs.preluActivationWeights
    return emitActivation(
      emitter,
      sum,
      weights == null ? undefined : perChannel(emitter, weights, attributes),
      attributes,
    )
  }

const plain =
  (kind: Kind): KernelRule =>
  (emitter, inputs, attributes) =>
    convolve(emitter, inputs, attributes, kind)

/**
 * Returns true if `dy` has one element for each window: tfjs ignores the rounding mode in its
 * gradients.
 */
const fitsWindows = (dy: Value, { count }: Windows, attributes: KernelAttributes): boolean =>
  sameShape(isFirst(attributes) ? dy.shape.slice(2) : dy.shape.slice(1, -1), count)

/** Computes the gradient for the input. */
const forInput =
  (kind: Kind): KernelRule =>
  (emitter, inputs, attributes) => {
    const operands = floats(emitter, inputs.dy!, inputs.filter!)
    const { inputShape } = typed(attributes)
    if (operands === undefined || inputShape === undefined) return undefined
    const windows = convolutionWindows(kind, inputShape, operands.b.shape, attributes)
    if (windows === undefined || !fitsWindows(operands.a, windows, attributes)) return undefined
    const { weights, group } = filterOf(emitter, operands.b, kind)
    const dx = spreadBack(emitter, toFirst(emitter, operands.a, attributes), weights, { windows, group })
    return fromFirst(emitter, dx, attributes)
  }

/**
 * Computes the gradient for the filter: a convolution of the input with dy as its filter, with
 * batch and channels, and strides and dilations, swapped.
 */
const forFilter =
  (kind: Kind): KernelRule =>
  (emitter, inputs, attributes) => {
    const operands = floats(emitter, inputs.x!, inputs.dy!)
    const { filterShape } = typed(attributes)
    if (operands === undefined || filterShape === undefined) return undefined
    const windows = convolutionWindows(kind, operands.a.shape, filterShape, attributes)
    if (windows === undefined || !fitsWindows(operands.b, windows, attributes)) return undefined
    const [x, dy] = [operands.a, operands.b].map((v) => swapFirst(emitter, toFirst(emitter, v, attributes)))
    const [channels, batch] = x!.shape as readonly [number, number] // of rank 4 or 5
    const group = kind === 'full' ? 1 : channels
    const input = kind === 'full' ? x! : reshapeValue(emitter, x!, [1, channels * batch, ...windows.size])
    const { count, kernel, strides, dilations, after } = windows
    // An input beyond the last window gives excess elements.
    const found = kernel.map((n, i) => n + Math.floor(Math.max(0, -after[i]!) / dilations[i]!))
    const gradient = emitter.emit(
      'Conv',
      [input, dy!],
      { shape: [input.shape[0]!, dy!.shape[0]!, ...found], type: 'float32' },
      { attributes: { kernel_shape: count, strides: dilations, dilations: strides, group, pads: borders(windows) } },
    )
    const [inner, outer] = filterShape.slice(-2)
    const parts = kind === 'full' ? gradient : reshapeValue(emitter, gradient, [inner!, outer!, ...found])
    const axes = kernel.map((_, i) => i + 2)
    const bounds = [kernel.map(() => 0), kernel, axes].map((list) => emitter.integers(list))
    const kept = emitter.emit('Slice', [parts, ...bounds], { shape: [inner!, outer!, ...kernel], type: 'float32' })
    return transposeValue(emitter, kept, [...axes, 0, 1])
  }

export const convolutionRules: RuleTable = {
  Conv2D: plain('full'),
  Conv2DBackpropFilter: forFilter('full'),
  Conv2DBackpropInput: forInput('full'),
  Conv3D: plain('full'),
  Conv3DBackpropFilterV2: forFilter('full'),
  Conv3DBackpropInputV2: forInput('full'),
  DepthwiseConv2dNative: plain('depthwise'),
  DepthwiseConv2dNativeBackpropFilter: forFilter('depthwise'),
  DepthwiseConv2dNativeBackpropInput: forInput('depthwise'),
  FusedConv2D: fused('full'),
  FusedDepthwiseConv2D: fused('depthwise'),
}

import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe } from 'vitest'
import { type Call, type KernelCase, kernelLaws, row } from '../../../../../test/kit/backends.js'
import { useOnnxRuntime } from '../../../../../test/kit/engine.js'
import { floatsIn, hostTensor } from '../../../../../test/kit/hostTensor.js'
import { cases, type WindowCase, windowCases } from '../../../../../test/kit/kernelCases.js'
import { convolutionRules } from '../../../src/onnxruntime/kernels/convolution.js'

const { backend } = useOnnxRuntime()

const values = floatsIn(-3, 3)
const close = { within: { absolute: 1e-4, relative: 1e-4 } }

interface Convolution extends WindowCase {
  readonly dilation: number
  readonly layout: 'NHWC' | 'NCHW'
  readonly activation: 'linear' | 'relu' | 'leakyrelu' | 'prelu'
}

interface Draw {
  readonly axes: 2 | 3
  readonly kind: 'full' | 'depthwise'
  readonly layouts: readonly Convolution['layout'][]
  readonly dilations: readonly number[]
}

/** Images, a filter and a bias for the channels of the result. */
const convolutions = ({ axes, kind, layouts, dilations }: Draw): fc.Arbitrary<KernelCase<Convolution>> =>
  cases(
    fc
      .record({
        windows: windowCases(axes, axes === 2 && kind === 'full' ? 'numbers' : 'names'),
        out: fc.integer({ min: 1, max: 3 }),
        dilation: fc.constantFrom(...dilations),
        layout: fc.constantFrom(...layouts),
        activation: fc.constantFrom('linear' as const, 'relu' as const, 'leakyrelu' as const, 'prelu' as const),
      })
      .map(({ windows, out, dilation, layout, activation }) => {
        const { size, kernel, strides, batch, channels, rounding } = windows
        const spread = rounding === undefined ? dilation : 1
        const reach = size.map((n, i) => n + (kernel[i]! - 1) * (spread - 1)) // room for the spread filter
        const shape = layout === 'NHWC' ? [batch, ...reach, channels] : [batch, channels, ...reach]
        const stride =
          spread > 1 ? strides.map(() => 1) : kind === 'depthwise' ? strides.map(() => strides[0]!) : strides
        const made = kind === 'full' ? out : channels * out
        return [
          [
            hostTensor(values, shape),
            hostTensor(values, [...kernel, channels, out]),
            hostTensor(values, [made]),
            hostTensor(values, [made]),
          ],
          { ...windows, strides: stride, dilation: spread, layout, activation },
        ] as const
      }),
  )

const flat = convolutions({ axes: 2, kind: 'full', layouts: ['NHWC'], dilations: [1, 2] })
const planar = convolutions({ axes: 2, kind: 'full', layouts: ['NCHW'], dilations: [1] })
const undilated = convolutions({ axes: 2, kind: 'full', layouts: ['NHWC', 'NCHW'], dilations: [1] })
const deep = convolutions({ axes: 3, kind: 'full', layouts: ['NHWC'], dilations: [1] })
const depthwise = convolutions({ axes: 2, kind: 'depthwise', layouts: ['NHWC'], dilations: [1, 2] })
const depthwiseUndilated = convolutions({ axes: 2, kind: 'depthwise', layouts: ['NHWC'], dilations: [1] })

// Casts below: the cases have the ranks that tfjs asks for, and one stride for each axis.
const conv2d = (x: tf.Tensor, filter: tf.Tensor, o: Convolution): tf.Tensor =>
  tf.conv2d(
    x as tf.Tensor4D,
    filter as tf.Tensor4D,
    o.strides as [number, number],
    o.pad,
    o.layout,
    o.dilation,
    o.rounding,
  )

const conv3d = (x: tf.Tensor, filter: tf.Tensor, { strides, pad }: Convolution): tf.Tensor =>
  tf.conv3d(x as tf.Tensor5D, filter as tf.Tensor5D, strides as [number, number, number], pad as 'same' | 'valid')

const depthwiseConv2d = (x: tf.Tensor, filter: tf.Tensor, o: Convolution): tf.Tensor =>
  tf.depthwiseConv2d(x as tf.Tensor4D, filter as tf.Tensor4D, o.strides as [number, number], o.pad, 'NHWC', o.dilation)

type Forward = (x: tf.Tensor, filter: tf.Tensor, options: Convolution) => tf.Tensor

/**
 * Both gradients of a convolution, weighted so that every place of the result counts differently.
 */
const gradients =
  (forward: Forward): Call<Convolution> =>
  ({ a, b }, options) => {
    const loss = (x: tf.Tensor, filter: tf.Tensor): tf.Tensor => {
      const made = forward(x, filter, options)
      return tf.sum(tf.mul(made, tf.reshape(tf.sin(tf.range(1, made.size + 1)), made.shape)))
    }
    return tf.grads(loss)([a, b])
  }

const fused =
  (kind: 'conv2d' | 'depthwiseConv2d'): Call<Convolution> =>
  ({ a, b, c, d }, { strides, pad, layout, dilation, activation, rounding }) =>
    tf.fused[kind]({
      x: a as tf.Tensor4D,
      filter: b as tf.Tensor4D,
      strides: strides as [number, number],
      pad,
      dataFormat: layout,
      dilations: dilation,
      bias: c,
      activation,
      ...(rounding && kind === 'conv2d' && { dimRoundingMode: rounding }),
      ...(activation === 'prelu' && { preluActivationWeights: d }),
      ...(activation === 'leakyrelu' && { leakyreluAlpha: 0.3 }),
    })

const rows = [
  row('Conv2D', flat, ({ a, b }, o) => conv2d(a, b, o), close),
  row('Conv2D', planar, ({ a, b }, o) => conv2d(a, b, o), { ...close, on: 'channels first' }),
  row('Conv2DBackpropFilter', undilated, gradients(conv2d), close),
  row('Conv2DBackpropInput', undilated, gradients(conv2d), close),
  row('Conv3D', deep, ({ a, b }, o) => conv3d(a, b, o), close),
  row('Conv3DBackpropFilterV2', deep, gradients(conv3d), close),
  row('Conv3DBackpropInputV2', deep, gradients(conv3d), close),
  row('DepthwiseConv2dNative', depthwise, ({ a, b }, o) => depthwiseConv2d(a, b, o), close),
  row('DepthwiseConv2dNativeBackpropFilter', depthwiseUndilated, gradients(depthwiseConv2d), close),
  row('DepthwiseConv2dNativeBackpropInput', depthwiseUndilated, gradients(depthwiseConv2d), close),
  row('FusedConv2D', flat, fused('conv2d'), close),
  row('FusedConv2D', planar, fused('conv2d'), { ...close, on: 'channels first' }),
  row('FusedDepthwiseConv2D', depthwise, fused('depthwiseConv2d'), close),
]

describe('convolutions', () => {
  kernelLaws(backend, () => Object.keys(convolutionRules), rows)
})

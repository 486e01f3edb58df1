import * as tf from '@tensorflow/tfjs-core'
import type fc from 'fast-check'
import { describe } from 'vitest'
import {
  type Call,
  type KernelCase,
  type KnownDifference,
  kernelLaws,
  knownDifferences,
  row,
} from '../../../../../test/kit/backends.js'
import { useOnnxRuntime } from '../../../../../test/kit/engine.js'
import { type Elements, floatsIn, hostTensor, intsIn, tiedFloats } from '../../../../../test/kit/hostTensor.js'
import { cases, type WindowCase, windowCases } from '../../../../../test/kit/kernelCases.js'
import { poolingRules } from '../../../src/onnxruntime/kernels/pooling.js'

const { backend } = useOnnxRuntime()

const values = floatsIn(-50, 50)
const equalZeros = { within: { absolute: 0, relative: 0 } } // -0 may come back as 0
const close = { within: { absolute: 1e-4, relative: 1e-5 } }

/** Images and windows over them. */
const images = (
  elements: Elements,
  axes: 2 | 3,
  pads: 'numbers' | 'names' = 'names',
): fc.Arbitrary<KernelCase<WindowCase>> =>
  cases(
    windowCases(axes, pads).map((options) => {
      const { size, batch, channels } = options
      return [[hostTensor(elements, [batch, ...size, channels])], options] as const
    }),
  )

/**
 * Images of three spatial axes without two equal elements, and windows that are cubes: see the
 * known differences.
 */
const distinct: fc.Arbitrary<KernelCase<WindowCase>> = images(values, 3).map(({ inputs: [image], options }) => ({
  inputs: [{ ...image!, data: image!.data.map((_, i) => Math.fround(Math.sin(i * 7.3) * 50)) }],
  options: { ...options, kernel: options.kernel.map(() => Math.min(...options.kernel)) },
}))

type Pool = (x: tf.Tensor, options: WindowCase) => tf.Tensor

// Casts: the cases have the ranks that tfjs asks for, and one number for each axis.
const flat =
  (pool: typeof tf.maxPool): Pool =>
  (x, { kernel, strides, pad, rounding }) =>
    pool(x as tf.Tensor4D, kernel as [number, number], strides as [number, number], pad, rounding)

const deep =
  (pool: typeof tf.maxPool3d): Pool =>
  (x, { kernel, strides, pad, rounding }) => {
    const [size, steps] = [kernel, strides] as [[number, number, number], [number, number, number]]
    return pool(x as tf.Tensor5D, size, steps, pad, rounding)
  }

const [avgPool, maxPool] = [flat(tf.avgPool), flat(tf.maxPool)]
const [avgPool3d, maxPool3d] = [deep(tf.avgPool3d), deep(tf.maxPool3d)]

const run =
  (pool: Pool): Call<WindowCase> =>
  ({ a }, options) =>
    pool(a, options)

/** The gradient of a pool, weighted so that every window counts differently. */
const gradient =
  (pool: Pool): Call<WindowCase> =>
  ({ a }, options) =>
    tf.grad((x) => {
      const made = pool(x, options)
      return tf.sum(tf.mul(made, tf.reshape(tf.sin(tf.range(1, made.size + 1)), made.shape)))
    })(a)

const withPlaces =
  (batches: 'counted' | 'not counted'): Call<WindowCase> =>
  ({ a }, { kernel, strides, pad }) => {
    const [size, steps] = [kernel, strides] as [[number, number], [number, number]]
    const { result, indexes } = tf.maxPoolWithArgmax(a as tf.Tensor4D, size, steps, pad, batches === 'counted')
    return [result!, indexes!]
  }

const rows = [
  row('AvgPool', images(values, 2, 'numbers'), run(avgPool), close),
  row('AvgPool3D', images(values, 3, 'numbers'), run(avgPool3d), close),
  row('AvgPool3DGrad', images(values, 3), gradient(avgPool3d), close),
  row('AvgPoolGrad', images(values, 2), gradient(avgPool), close),
  row('MaxPool', images(values, 2, 'numbers'), run(maxPool), equalZeros),
  row('MaxPool', images(intsIn(-9, 9), 2), run(maxPool), { on: 'int32', form: 'cpu' }),
  row('MaxPool3D', images(values, 3, 'numbers'), run(maxPool3d), equalZeros),
  row('MaxPool3DGrad', distinct, gradient(maxPool3d), close),
  row('MaxPoolGrad', images(tiedFloats, 2), gradient(maxPool), { ...close, on: 'ties' }),
  row('MaxPoolGrad', images(values, 2, 'numbers'), gradient(maxPool), close),
  row('MaxPoolWithArgmax', images(tiedFloats, 2), withPlaces('counted'), equalZeros),
  row('MaxPoolWithArgmax', images(values, 2), withPlaces('not counted'), {
    ...equalZeros,
    on: 'without the batch',
  }),
]

const image = (data: readonly number[], axes: 2 | 3) =>
  ({ shape: axes === 2 ? [1, 1, data.length, 1] : [1, 1, 1, data.length, 1], dtype: 'float32', data }) as const

const differences: readonly KnownDifference[] = [
  {
    kernel: 'MaxPool3DGrad',
    reason: "tfjs's 3-D kernel takes the height of a window for its width, and loses gradients where the two differ",
    inputs: [{ shape: [1, 1, 2, 1, 1], dtype: 'float32', data: [1, 2] }],
    call: ({ a }) => tf.grad((x) => tf.sum(tf.maxPool3d(x as tf.Tensor5D, [1, 2, 1], 1, 'valid')))(a),
  },
  {
    kernel: 'MaxPool3DGrad',
    reason: "of equal maxima tfjs's 3-D kernel takes the last (its 2-D kernel the first); here it is always the first",
    inputs: [image([1, 1], 3)],
    call: ({ a }) => tf.grad((x) => tf.sum(tf.maxPool3d(x as tf.Tensor5D, [1, 1, 2], 1, 'valid')))(a),
  },
]

describe('pools', () => {
  knownDifferences(differences)
  kernelLaws(backend, () => Object.keys(poolingRules), rows)
})

import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe } from 'vitest'
import { type Call, type KernelCase, kernelLaws, row } from '../../../../../test/kit/backends.js'
import { useOnnxRuntime } from '../../../../../test/kit/engine.js'
import { floatsIn, hostTensor, shapes } from '../../../../../test/kit/hostTensor.js'
import { cases, oneWith } from '../../../../../test/kit/kernelCases.js'
import { normalizationRules } from '../../../src/onnxruntime/kernels/normalization.js'

const { backend } = useOnnxRuntime()

const values = floatsIn(-3, 3)
const positive = floatsIn(0.1, 3)
const close = { within: { absolute: 1e-4, relative: 1e-4 } }

interface Parameters {
  readonly offset: boolean
  readonly scale: boolean
}

/**
 * Values of rank 2 to 4 with a mean, a variance, an offset and a scale for each channel, or for
 * each element.
 */
const batches: fc.Arbitrary<KernelCase<Parameters>> = cases(
  fc
    .record({ shape: shapes(2, 4, 1), each: fc.boolean(), offset: fc.boolean(), scale: fc.boolean() })
    .map(({ shape, each, offset, scale }) => {
      const own = each ? shape : shape.slice(-1)
      const parameters = [values, positive, values, values].map((elements) => hostTensor(elements, own))
      return [[hostTensor(values, shape), ...parameters], { offset, scale }] as const
    }),
)

const normalize: Call<Parameters> = ({ all }, { offset, scale }) => {
  const [x, mean, variance, shift, factor] = all as [tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor] // see `batches`
  const inputs = { x, mean, variance, ...(offset && { offset: shift }), ...(scale && { scale: factor }) }
  return tf.engine().runKernel('FusedBatchNorm', inputs, { varianceEpsilon: 1e-3 })
}

interface Response {
  readonly radius: number
  readonly bias: number
  readonly alpha: number
  readonly beta: number
}

const responses = (): fc.Arbitrary<Response> =>
  fc.record({
    radius: fc.integer({ min: 1, max: 4 }),
    bias: fc.constantFrom(1, 2.5),
    alpha: fc.constantFrom(1, 0.3),
    beta: fc.constantFrom(0.5, 0.75, 1),
  })

const respond: Call<Response> = ({ a }, { radius, bias, alpha, beta }) =>
  tf.localResponseNormalization(a as tf.Tensor4D, radius, bias, alpha, beta) // of rank 4

const gradient: Call<Response> = (operands, options) =>
  tf.grad((x) => {
    const made = respond({ ...operands, a: x }, options) as tf.Tensor // one result
    return tf.sum(tf.mul(made, tf.reshape(tf.sin(tf.range(1, made.size + 1)), made.shape)))
  })(operands.a)

const images = oneWith(values, responses, shapes(4, 4, 1))

const rows = [
  row('FusedBatchNorm', batches, normalize, close),
  row('LRN', images, respond, close),
  row('LRNGrad', images, gradient, close),
]

describe('normalizations', () => {
  kernelLaws(backend, () => Object.keys(normalizationRules), rows)
})

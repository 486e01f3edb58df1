import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { expectForward, expectGradients, type Operation } from '../../../../test/kit/differentiable.js'
import { useOnnxRuntime, valuesOf } from '../../../../test/kit/engine.js'
import { floatsIn, hostTensor, shapes } from '../../../../test/kit/hostTensor.js'
import { rmsNormOracle } from '../../../../test/kit/oracle.js'
import { rmsNorm } from '../../src/ops/rmsNorm.js'

useOnnxRuntime()

const EPSILON = 1e-3

const norms: fc.Arbitrary<Operation> = shapes(1, 4, 1).chain((shape) =>
  fc.tuple(hostTensor(floatsIn(-3, 3), shape), hostTensor(floatsIn(-2, 2), shape.slice(-1))).map((inputs) => ({
    inputs,
    shape,
    call: ([x, weight]) => rmsNorm(x!, weight!, EPSILON),
    oracle: ([x, weight]) => rmsNormOracle(x!, weight!, EPSILON),
  })),
)

describe('rmsNorm', () => {
  it('equals the float64 oracle', () => {
    const law = fc.property(norms, (norm) => {
      expectForward(norm)
    })
    fc.assert(law)
  })

  it('has the gradients of the oracle', () => {
    const law = fc.property(norms, (norm) => {
      expectGradients(norm)
    })
    fc.assert(law, { numRuns: 50 })
  })

  it('of a row of zeros is zero, and so is one scaled up without epsilon', () => {
    tf.tidy(() => {
      expect(valuesOf(rmsNorm(tf.zeros([1, 3]), tf.ones([3]), 1e-6))).toEqual([0, 0, 0])
      const [small, large] = [
        [1, 2, 2],
        [100, 200, 200],
      ].map((row) => valuesOf(rmsNorm(tf.tensor2d([row]), tf.ones([3]), 0)))
      expect(small!.map((x) => x.toFixed(5))).toEqual(large!.map((x) => x.toFixed(5)))
    })
  })

  it('can be differentiated in x alone', () => {
    tf.tidy(() => {
      const [x, weight] = [tf.tensor2d([[0.3, -0.4]]), tf.tensor1d([1, 2])]
      const both = tf.grads((a, b) => tf.sum(rmsNorm(a, b, EPSILON)))([x, weight])
      const alone = tf.grad((a) => tf.sum(rmsNorm(a, weight, EPSILON)))(x)
      expect(valuesOf(alone)).toEqual(valuesOf(both[0]!))
    })
  })
})

import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { expectForward, expectGradients, type Operation } from '../../../../test/kit/differentiable.js'
import { useOnnxRuntime, valuesOf } from '../../../../test/kit/engine.js'
import { floatsIn, hostTensor, shapes } from '../../../../test/kit/hostTensor.js'
import { layerNormOracle } from '../../../../test/kit/oracle.js'
import { layerNorm } from '../../src/ops/layerNorm.js'

useOnnxRuntime()

const EPSILON = 1e-2

const norms: fc.Arbitrary<Operation> = shapes(1, 4, 1).chain((shape) => {
  const vector = hostTensor(floatsIn(-2, 2), shape.slice(-1))
  return fc.tuple(hostTensor(floatsIn(-3, 3), shape), vector, vector).map((inputs) => ({
    inputs,
    shape,
    call: ([x, weight, bias]) => layerNorm(x!, { weight: weight!, bias: bias! }, EPSILON),
    oracle: ([x, weight, bias]) => layerNormOracle(x!, weight!, bias!, EPSILON),
  }))
})

describe('layerNorm', () => {
  it('equals the float64 oracle', () => {
    const law = fc.property(norms, (norm) => {
      expectForward(norm, { absolute: 1e-4, relative: 1e-4 })
    })
    fc.assert(law)
  })

  it('has the gradients of the oracle', () => {
    const law = fc.property(norms, (norm) => {
      expectGradients(norm, { absolute: 1e-3, relative: 1e-3 })
    })
    fc.assert(law, { numRuns: 50 })
  })

  it('does not change when a number is added to a row', () => {
    tf.tidy(() => {
      const params = { weight: tf.tensor1d([1, 2, 3]), bias: tf.tensor1d([0, 1, 0]) }
      const [plain, moved] = [0, 8].map((by) =>
        valuesOf(layerNorm(tf.tensor2d([[1 + by, 2 + by, 4 + by]]), params, 1e-5)),
      )
      expect(moved!.map((x) => x.toFixed(4))).toEqual(plain!.map((x) => x.toFixed(4)))
    })
  })
})

import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, it } from 'vitest'
import { onBackend } from '../../../../test/kit/backends.js'
import { expectClose } from '../../../../test/kit/close.js'
import { BACKENDS, expectForward, expectGradients, type Operation } from '../../../../test/kit/differentiable.js'
import { useOnnxRuntime, valuesOf } from '../../../../test/kit/engine.js'
import { floatsIn, hostTensor, shapes } from '../../../../test/kit/hostTensor.js'
import { swiGluOracle } from '../../../../test/kit/oracle.js'
import { swiGlu } from '../../src/ops/swiGlu.js'

useOnnxRuntime()

const gates: fc.Arbitrary<Operation> = shapes(0, 4).chain((shape) =>
  fc.tuple(hostTensor(floatsIn(-10, 10), shape), hostTensor(floatsIn(-3, 3), shape)).map((inputs) => ({
    inputs,
    shape,
    call: ([gate, up]) => swiGlu(gate!, up!),
    oracle: ([gate, up]) => swiGluOracle(gate!, up!),
  })),
)

describe('swiGlu', () => {
  it('equals the float64 oracle, also for nothing', () => {
    const law = fc.property(gates, (gate) => {
      expectForward(gate)
    })
    fc.assert(law)
  })

  it('has the gradients of the oracle', () => {
    const law = fc.property(gates, (gate) => {
      expectGradients(gate)
    })
    fc.assert(law, { numRuns: 50 })
  })

  it.each(BACKENDS)('saturates without NaN on %s', (name) => {
    onBackend(name, () => {
      tf.tidy(() => {
        const gate = tf.tensor1d([-1e4, -100, 0, 100, 1e4])
        expectClose(valuesOf(swiGlu(gate, tf.ones([5]))), [0, 0, 0, 100, 1e4])
        expectClose(valuesOf(tf.grad((g) => tf.sum(swiGlu(g, tf.ones([5]))))(gate)), [0, 0, 0.5, 1, 1])
      })
    })
  })
})

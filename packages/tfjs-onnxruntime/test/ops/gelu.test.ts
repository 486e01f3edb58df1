import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, it } from 'vitest'
import { onBackend } from '../../../../test/kit/backends.js'
import { expectClose } from '../../../../test/kit/close.js'
import { BACKENDS, expectForward, expectGradients, type Operation } from '../../../../test/kit/differentiable.js'
import { useOnnxRuntime, valuesOf } from '../../../../test/kit/engine.js'
import { floatsIn, hostTensor, shapes } from '../../../../test/kit/hostTensor.js'
import { geluOracle, geluTanhOracle, swiGluOracle } from '../../../../test/kit/oracle.js'
import { type Activation, activate, gate } from '../../src/ops/activation.js'
import { gelu, geluTanh } from '../../src/ops/gelu.js'
import { silu } from '../../src/ops/swiGlu.js'

useOnnxRuntime()

const ORACLES: Readonly<Record<Activation, (x: readonly number[]) => number[]>> = {
  gelu: geluOracle,
  geluTanh: geluTanhOracle,
  silu: (x) =>
    swiGluOracle(
      x,
      x.map(() => 1),
    ),
}

const NAMES = Object.keys(ORACLES) as Activation[] // keys of the record above

const operations = (name: Activation): fc.Arbitrary<Operation> =>
  shapes(0, 3).chain((shape) =>
    hostTensor(floatsIn(-4, 4), shape).map((x) => ({
      inputs: [x],
      shape,
      call: ([input]) => activate(name, input!),
      oracle: ([input]) => ORACLES[name](input!),
    })),
  )

const gated = (name: Activation): fc.Arbitrary<Operation> =>
  shapes(1, 2).chain((shape) =>
    fc.tuple(hostTensor(floatsIn(-4, 4), shape), hostTensor(floatsIn(-2, 2), shape)).map((inputs) => ({
      inputs,
      shape,
      call: ([gates, up]) => gate(name, gates!, up!),
      oracle: ([gates, up]) => ORACLES[name](gates!).map((x, i) => x * up![i]!),
    })),
  )

describe.each(NAMES)('%s', (name) => {
  it('equals the float64 oracle, also for nothing', () => {
    const law = fc.property(operations(name), (operation) => {
      expectForward(operation)
    })
    fc.assert(law, { numRuns: 50 })
  })

  it('has the gradient of the oracle', () => {
    const law = fc.property(operations(name), (operation) => {
      expectGradients(operation)
    })
    fc.assert(law, { numRuns: 25 })
  })

  it('multiplies what it lets through, with both gradients', () => {
    const law = fc.property(gated(name), (operation) => {
      expectForward(operation)
      expectGradients(operation)
    })
    fc.assert(law, { numRuns: 25 })
  })

  it.each(BACKENDS)('saturates without NaN on %s', (backend) => {
    onBackend(backend, () => {
      tf.tidy(() => {
        const x = tf.tensor1d([-1e4, -100, 0, 100, 1e4])
        expectClose(valuesOf(activate(name, x)), [0, 0, 0, 100, 1e4])
        expectClose(valuesOf(tf.grad((y) => tf.sum(activate(name, y)))(x)), [0, 0, 0.5, 1, 1])
      })
    })
  })
})

describe('activation functions', () => {
  it('are the operations of the same name', () => {
    tf.tidy(() => {
      const x = tf.tensor1d([-1, 0.5, 2])
      for (const [name, f] of [
        ['gelu', gelu],
        ['geluTanh', geluTanh],
        ['silu', silu],
      ] as const) {
        expectClose(valuesOf(activate(name, x)), valuesOf(f(x)), { absolute: 0 })
      }
    })
  })
})

import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { onBackend } from '../../../../test/kit/backends.js'
import { BACKENDS, expectForward, type Operation } from '../../../../test/kit/differentiable.js'
import { useOnnxRuntime } from '../../../../test/kit/engine.js'
import { elementCount, floatsIn, hostTensor, shapes } from '../../../../test/kit/hostTensor.js'
import { matMulOracle } from '../../../../test/kit/oracle.js'
import { scaledMatMul } from '../../src/ops/scaledMatMul.js'

useOnnxRuntime()

const size = fc.integer({ min: 0, max: 5 })

const products: fc.Arbitrary<Operation> = fc
  .record({
    lead: shapes(0, 3),
    m: size,
    k: size,
    n: size,
    alpha: fc.constantFrom(1, 0.25, -3),
    transposeA: fc.boolean(),
    transposeB: fc.boolean(),
  })
  .chain(({ lead, ...rest }) => {
    const { m, k, n, alpha, transposeA, transposeB } = rest
    const a = hostTensor(floatsIn(-3, 3), [...lead, ...(transposeA ? [k, m] : [m, k])])
    const b = hostTensor(floatsIn(-3, 3), [...lead, ...(transposeB ? [n, k] : [k, n])])
    return fc.tuple(a, b).map((inputs) => ({
      inputs,
      shape: [...lead, m, n],
      call: ([x, y]) => scaledMatMul(x!, y!, { alpha, transposeA, transposeB }),
      oracle: ([x, y]) => matMulOracle(x!, y!, { ...rest, batch: elementCount(lead) }),
    }))
  })

describe('scaledMatMul', () => {
  it('equals the float64 oracle, also for nothing', () => {
    const law = fc.property(products, (product) => {
      expectForward(product)
    })
    fc.assert(law)
  })

  it.each(BACKENDS)('refuses sizes that do not fit, when it is called, on %s', (name) => {
    onBackend(name, () => {
      tf.tidy(() => {
        expect(() => scaledMatMul(tf.ones([2, 3]), tf.ones([2, 3]))).toThrow('2,3')
        expect(() => scaledMatMul(tf.ones([2, 2, 3]), tf.ones([3, 3, 2]))).toThrow()
      })
    })
  })

  it('has no gradient of its own on onnxruntime, and the error names it', () => {
    const [a, b] = [tf.ones([2, 2]), tf.ones([2, 2])]
    expect(() => tf.grad((x) => scaledMatMul(x, b))(a)).toThrow('ScaledMatMul')
    tf.dispose([a, b])
  })
})

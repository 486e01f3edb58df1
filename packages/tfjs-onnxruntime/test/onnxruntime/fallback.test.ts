import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Call, expectSameOnBoth, type KernelCase, onBackend, outcomesOn } from '../../../../test/kit/backends.js'
import { expectClose } from '../../../../test/kit/close.js'
import { useOnnxRuntime, valuesOf } from '../../../../test/kit/engine.js'
import { floatsIn, intsIn, shapes, vector } from '../../../../test/kit/hostTensor.js'
import { one } from '../../../../test/kit/kernelCases.js'
import { cpuBackend, runOnCpu } from '../../src/onnxruntime/fallback.js'

const { backend } = useOnnxRuntime()

const countOf = (kernel: string): number => backend().stats().fallbacks[kernel] ?? 0

const check = (
  cases: fc.Arbitrary<KernelCase<unknown>>,
  call: (a: tf.Tensor, b: tf.Tensor) => tf.Tensor | tf.Tensor[],
): void => {
  const law = fc.property(cases, (given) => {
    expectSameOnBoth(given, ({ a, b }) => call(a, b))
  })
  fc.assert(law)
}

describe('kernels without an ONNX form', () => {
  it('are done by the cpu backend, with the same results', () => {
    const list = shapes(1, 1, 1)
    check(one(intsIn(-9, 9), list), (a) => [tf.unique(a).values, tf.unique(a).indices])
    check(one(intsIn(0, 9), list), (a) => tf.bincount(a as tf.Tensor1D, [], 10)) // rank 1 by `list`
    check(one(floatsIn(-9, 9), list), (a) => tf.abs(tf.complex(a, tf.neg(a))))
  })

  it('leave no tensor and no data behind on either backend', () => {
    const x = tf.tensor2d([
      [1, -2],
      [3, 4],
    ])
    const before = [tf.memory().numTensors, tf.memory().numDataBuffers, cpuBackend().numDataIds()]
    tf.tidy(() => {
      tf.unique(x, 1)
      tf.abs(tf.complex(x, x))
      tf.spectral.fft(tf.complex(x, x))
    })
    expect([tf.memory().numTensors, tf.memory().numDataBuffers, cpuBackend().numDataIds()]).toEqual(before)
    x.dispose()
  })

  it('are counted by name', () => {
    const x = tf.tensor1d([1, -2])
    const before = { unique: countOf('Unique'), bincount: countOf('Bincount'), add: countOf('Add') }
    const counted = tf.tidy(() => tf.bincount(tf.tensor1d([1], 'int32'), [], 2))
    const made = [tf.unique(x), tf.unique(x), counted, tf.add(x, 1)]
    expect(countOf('Unique')).toBe(before.unique + 2)
    expect(countOf('Bincount')).toBe(before.bincount + 1)
    expect(countOf('Add')).toBe(before.add)
    tf.dispose([x, made])
  })

  it('take what is recorded and give what can be recorded on', () => {
    const x = tf.tensor1d([1, -2])
    const result = tf.tidy(() => tf.mul(tf.unique(tf.neg(x)).values, 3))
    expect(valuesOf(result)).toEqual([-3, 6])
    tf.dispose([x, result])
  })

  it('take lists of tensors among their inputs', () => {
    const call: Call<undefined> = ({ a, b, c }) => {
      const made = tf.engine().runKernel(
        'RaggedGather',
        {
          paramsNestedSplits: [a, b],
          paramsDenseValues: c,
          indices: tf.tensor1d([1, 0], 'int32'),
        } as unknown as tf.NamedTensorMap, // cast: tfjs's own types have no lists here
        { outputRaggedRank: 2 },
      )
      return made as unknown as readonly tf.Tensor[] // cast: the kernel gives several
    }
    const inputs = [vector([0, 1, 3], 'int32'), vector([0, 2, 3, 5], 'int32'), vector([0.1, 0.2, 0.3, 0.4, 0.5])]
    expectSameOnBoth({ inputs, options: undefined }, call)
  })

  it('find a rank on their inputs, as on tensors', () => {
    const image = { shape: [1, 2, 2, 1], dtype: 'float32', data: [1, 2, 3, 4] } as const
    const filter = { shape: [1, 1, 1], dtype: 'float32', data: [0.5] } as const
    const call: Call<undefined> = ({ a, b }) =>
      Object.values(tf.grads((x, f) => tf.dilation2d(x as tf.Tensor4D, f as tf.Tensor3D, 1, 'valid'))([a, b]))
    expectSameOnBoth({ inputs: [image, filter], options: undefined }, call)
  })

  it('name themselves where the cpu backend has no such kernel either', () => {
    const x = tf.tensor1d([1], 'int32')
    expect(() => tf.engine().runKernel('Silu', { x })).toThrow('Silu')
    expect(() => runOnCpu(backend(), 'NoSuchKernel', { x }, {})).toThrow('NoSuchKernel')
    x.dispose()
  })
})

describe('complex numbers', () => {
  it('fft, its inverse, parts and arithmetic equal the cpu backend', () => {
    const given = { inputs: [vector([1, 2, 3, 4]), vector([0, -1, 0.5, 2])], options: undefined }
    const call: Call<undefined> = ({ a, b }) => {
      const z = tf.complex(a, b)
      const spectrum = tf.spectral.fft(z)
      const back = tf.spectral.ifft(spectrum)
      return [tf.real(spectrum), tf.imag(spectrum), tf.real(back), tf.imag(back), tf.abs(tf.mul(z, spectrum))]
    }
    const [actual, expected] = [outcomesOn('onnxruntime', given, call), outcomesOn('cpu', given, call)]
    for (const [i, { shape, values }] of actual.entries()) {
      expect(shape).toEqual([4]) // tfjs-cpu reshapes the parts of a complex tensor in place, and says [1, 4] for some
      expectClose(values, expected[i]!.values, { absolute: 1e-5, relative: 1e-5 })
    }
  })

  it('a complex tensor reads as pairs', () => {
    const z = tf.tidy(() => tf.complex(tf.tensor1d([1, 2]), tf.tensor1d([3, 4])))
    expect(valuesOf(z)).toEqual([1, 3, 2, 4])
    z.dispose()
  })
})

describe('strings', () => {
  it('are kept, reshaped, joined, sliced and read', () => {
    const words = tf.tensor1d(['ä', '', 'two words', '水'])
    const made = tf.tidy(() => [tf.reshape(words, [2, 2]), tf.concat([words, words]), tf.slice(words, [1], [2])])
    expect(made.map((t) => [t.dtype, Array.from(t.dataSync())])).toEqual([
      ['string', ['ä', '', 'two words', '水']],
      ['string', ['ä', '', 'two words', '水', 'ä', '', 'two words', '水']],
      ['string', ['', 'two words']],
    ])
    tf.dispose([words, made])
  })
})

describe('moving between backends', () => {
  it('a tensor made on one backend is used on the other, and back', () => {
    const law = fc.property(fc.array(fc.float({ noNaN: true }), { minLength: 1, maxLength: 9 }), (values) => {
      const x = onBackend('cpu', () => tf.tensor1d(values))
      const here = tf.neg(x)
      const there = onBackend('cpu', () => tf.neg(here))
      expect(valuesOf(there)).toEqual(valuesOf(x))
      tf.dispose([x, here, there])
    })
    fc.assert(law)
  })

  it('a recorded value that moves away before a run arrives computed, and what is recorded on it stays right', () => {
    const x = tf.tensor1d([1, 2])
    const doubled = tf.mul(x, 2)
    const shared = tf.reshape(doubled, [2, 1])
    const later = tf.add(doubled, 1)
    expect(onBackend('cpu', () => tf.tidy(() => valuesOf(tf.neg(doubled))))).toEqual([-2, -4])
    expect([doubled, shared, later].map(valuesOf)).toEqual([
      [2, 4],
      [2, 4],
      [3, 5],
    ])
    tf.dispose([x, doubled, shared, later])
  })
})

describe("the rest of tfjs's backend interface", () => {
  it('data() resolves to what dataSync() gives', async () => {
    const x = tf.tensor1d([1, 2])
    const y = tf.neg(x)
    expect([...(await y.data())]).toEqual([-1, -2])
    expect(await y.array()).toEqual([-1, -2])
    tf.dispose([x, y])
  })

  it('time() measures the work that was recorded in it', async () => {
    const x = tf.ones([64, 64])
    const { kernelMs, wallMs } = await tf.time(() => {
      tf.tidy(() => void tf.matMul(x, x))
    })
    expect(kernelMs).toBeGreaterThanOrEqual(0)
    expect(wallMs).toBeGreaterThanOrEqual(0)
    x.dispose()
  })

  it('reports that tensors are not on a GPU', () => {
    const x = tf.tensor1d([1])
    expect(() => x.dataToGPU()).toThrow('main memory')
    x.dispose()
  })
})

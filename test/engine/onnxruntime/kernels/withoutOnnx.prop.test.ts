import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { WITHOUT_ONNX } from '../../../../src/engine/onnxruntime/kernels/withoutOnnx.js'
import { directKernels, RULES } from '../../../../src/engine/register.js'
import { type Call, expectSameOnBoth, type KernelCase } from '../../../kit/backends.js'
import { useOnnxRuntime } from '../../../kit/engine.js'
import { floatsIn, hostTensor, intsIn } from '../../../kit/hostTensor.js'
import { cases } from '../../../kit/kernelCases.js'

const { backend } = useOnnxRuntime()

const cpuKernels = (): readonly string[] => tf.getKernelsForBackend('cpu').map(({ kernelName }) => kernelName)

interface Binning {
  readonly size: number
  readonly binaryOutput: boolean
}

/** Numbers, bounds in order, and weights: enough for one call of each kernel below. */
const binnings: fc.Arbitrary<KernelCase<Binning>> = cases(
  fc
    .record({ count: fc.integer({ min: 1, max: 8 }), size: fc.integer({ min: 1, max: 6 }), binaryOutput: fc.boolean() })
    .map(({ count, ...options }) => [
      [hostTensor(intsIn(0, 7), [count]), hostTensor(floatsIn(-3, 3), [count]), hostTensor(floatsIn(-3, 3), [count])],
      options,
    ]),
)

const calls: Readonly<Record<string, Call<Binning>>> = {
  // Casts: the cases have rank 1.
  Bincount: ({ a, b }, { size }) => tf.bincount(a as tf.Tensor1D, b as tf.Tensor1D, size),
  DenseBincount: ({ a, b }, { size, binaryOutput }) =>
    tf.denseBincount(a as tf.Tensor1D, b as tf.Tensor1D, size, binaryOutput),
  SearchSorted: ({ b, c }) => tf.searchSorted(tf.reverse(tf.topk(b, b.size).values), tf.add(c, 0.5)),
  Unique: ({ a }) => {
    const { values, indices } = tf.unique(a)
    return [values, indices]
  },
}

describe('kernels without an ONNX form', () => {
  it('are all those of the cpu backend that are not recorded, and no others', () => {
    const ours = new Set([...Object.keys(RULES), ...Object.keys(directKernels(backend()))])
    expect([...cpuKernels()].filter((name) => !ours.has(name)).sort()).toEqual(Object.keys(WITHOUT_ONNX))
  })

  for (const [name, call] of Object.entries(calls)) {
    it(`${name} gives the cpu backend's result and is counted`, () => {
      const before = backend().stats().fallbacks[name] ?? 0
      const law = fc.property(binnings, (given) => {
        expectSameOnBoth(given, call)
      })
      fc.assert(law, { numRuns: 20 })
      expect(backend().stats().fallbacks[name]).toBeGreaterThanOrEqual(before + 20)
    })
  }
})

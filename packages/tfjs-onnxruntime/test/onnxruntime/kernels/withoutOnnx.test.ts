import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Call, expectSameOnBoth, type KernelCase } from '../../../../../test/kit/backends.js'
import { useOnnxRuntime } from '../../../../../test/kit/engine.js'
import { floatsIn, hostTensor, intsIn } from '../../../../../test/kit/hostTensor.js'
import { cases } from '../../../../../test/kit/kernelCases.js'
import { directKernels, RULES } from '../../../src/register.js'

const COMPLEX = 'complex numbers are kept as pairs of tensors, which ONNX operations do not take'
const STRINGS = 'works on strings, which the recorded graphs do not hold'
const DATA_SHAPE = 'the shape of the result depends on the values, and recorded shapes are known before anything runs'
const CHECKED = 'refuses some values with an error when it is called, and a recorded call has no values yet'

/**
 * The reason for each kernel name. Every kernel of tfjs's cpu backend has a rule or is listed here.
 */
const WITHOUT_ONNX: Readonly<Record<string, string>> = {
  Bincount: CHECKED,
  BroadcastArgs: 'computes with shapes of a few numbers, whose check for fitting is a check of values',
  Complex: COMPLEX,
  ComplexAbs: COMPLEX,
  CropAndResize:
    'the boxes are values: each result pixel would be four gathers at computed places with a test of bounds',
  DenseBincount: CHECKED,
  Dilation2D: 'no operation takes the maximum of sums over windows',
  Dilation2DBackpropFilter: 'no operation takes the maximum of sums over windows',
  Dilation2DBackpropInput: 'no operation takes the maximum of sums over windows',
  Draw: 'draws on a canvas',
  FFT: COMPLEX,
  IFFT: COMPLEX,
  Imag: COMPLEX,
  Multinomial: 'draws from the generator of tfjs, so that a seed gives the same samples on all backends',
  NonMaxSuppressionV3: DATA_SHAPE,
  NonMaxSuppressionV4: DATA_SHAPE,
  NonMaxSuppressionV5: DATA_SHAPE,
  RaggedGather: DATA_SHAPE,
  RaggedRange: DATA_SHAPE,
  RaggedTensorToTensor: DATA_SHAPE,
  Real: COMPLEX,
  RotateWithOffset: 'rounds places computed in float64: float32 chooses other pixels',
  SearchSorted: 'no operation searches; a comparison of every value with every bound would cost their product',
  SparseFillEmptyRows: DATA_SHAPE,
  SparseReshape: CHECKED,
  SparseSegmentMean: DATA_SHAPE,
  SparseSegmentSum: DATA_SHAPE,
  StaticRegexReplace: STRINGS,
  StringNGrams: STRINGS,
  StringSplit: STRINGS,
  StringToHashBucketFast: STRINGS,
  Transform: 'rounds places computed in float64: float32 chooses other pixels',
  Unique: DATA_SHAPE,
}

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

import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe } from 'vitest'
import { type KnownDifference, kernelLaws, knownDifferences, row } from '../../../../../test/kit/backends.js'
import { useOnnxRuntime } from '../../../../../test/kit/engine.js'
import {
  anyFloat,
  anyInt,
  type Elements,
  floatsIn,
  intsIn,
  vector,
  wholeFloats,
} from '../../../../../test/kit/hostTensor.js'
import { one, pair, twins } from '../../../../../test/kit/kernelCases.js'
import { arithmeticRules } from '../../../src/onnxruntime/kernels/arithmetic.js'

const { backend } = useOnnxRuntime()

const equalZeros = { within: { absolute: 0, relative: 0 } } // -0 may come back as 0
const close = { within: { absolute: 1e-6, relative: 1e-5 } }
const fine = { within: { absolute: 1e-30, relative: 1e-6 } } // digits near zero are what these kernels are for

/** Numbers whose sums are exact. */
const edges: Elements = {
  dtype: 'float32',
  element: fc.constantFrom(0, -0, 1, -1, 2.5, -2.5, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN),
}

const rows = [
  row('Atan2', pair(anyFloat), ({ a, b }) => tf.atan2(a, b), close),
  row('Atanh', one(anyFloat), ({ a }) => tf.atanh(a), close),
  row('BitwiseAnd', twins(anyInt), ({ a, b }) => tf.bitwiseAnd(a, b)),
  row('Expm1', one(anyFloat), ({ a }) => tf.expm1(a), close),
  row('Expm1', one(floatsIn(-1e-3, 1e-3)), ({ a }) => tf.expm1(a), { ...fine, on: 'numbers near zero' }),
  row('FloorDiv', pair(wholeFloats(-4000, 4000), wholeFloats(1, 100)), ({ a, b }) => tf.floorDiv(a, b)),
  row('FloorDiv', pair(anyInt), ({ a, b }) => tf.floorDiv(a, b), { on: 'int32' }),
  row('FloorDiv', pair(intsIn(-9, 9), intsIn(-3, 3)), ({ a, b }) => tf.floorDiv(a, b), { on: 'small int32' }),
  row('IsFinite', one(anyFloat), ({ a }) => tf.isFinite(a)),
  row('IsInf', one(anyFloat), ({ a }) => tf.isInf(a)),
  row('Log1p', one(anyFloat), ({ a }) => tf.log1p(a), close),
  row('Log1p', one(floatsIn(-1e-3, 1e-3)), ({ a }) => tf.log1p(a), { ...fine, on: 'numbers near zero' }),
  row('Mod', pair(wholeFloats(-4000, 4000), floatsIn(0.5, 100)), ({ a, b }) => tf.mod(a, b), equalZeros),
  row('Mod', pair(wholeFloats(-4000, 4000)), ({ a, b }) => tf.mod(a, b), {
    ...equalZeros,
    on: 'divisors of both signs',
  }),
  row('Mod', pair(edges), ({ a, b }) => tf.mod(a, b), { ...equalZeros, on: 'zeros, infinities and NaN' }),
  row('Mod', pair(anyInt), ({ a, b }) => tf.mod(a, b), { on: 'int32' }),
  row('Mod', pair(intsIn(-9, 9), intsIn(-3, 3)), ({ a, b }) => tf.mod(a, b), { on: 'small int32' }),
  row('Sign', one(anyFloat), ({ a }) => tf.sign(a)),
  row('Sign', one(anyInt), ({ a }) => tf.sign(a), { on: 'int32' }),
]

const differences: readonly KnownDifference[] = [
  {
    kernel: 'Mod',
    reason:
      'tfjs takes the remainder of a sum rounded in float64: of a tiny number with another sign than the divisor it is 0',
    inputs: [vector([-1e-30]), vector([1])],
    call: ({ a, b }) => tf.mod(a, b),
  },
  {
    kernel: 'FloorDiv',
    reason: 'onnxruntime divides in float32, tfjs in float64: a quotient just below a whole number may reach it',
    inputs: [vector([10000]), vector([0.1])],
    call: ({ a, b }) => tf.floorDiv(a, b),
  },
  {
    kernel: 'FloorDiv',
    reason:
      'a float32 that no int32 can hold (also NaN) becomes -2^31 in onnxruntime, and wraps or becomes 0 in JavaScript',
    inputs: [vector([1]), vector([0])],
    call: ({ a, b }) => tf.floorDiv(a, b),
  },
]

describe('composed arithmetic', () => {
  knownDifferences(differences)
  kernelLaws(backend, () => Object.keys(arithmeticRules), rows)
})

import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe } from 'vitest'
import { type Call, type KnownDifference, kernelLaws, knownDifferences, row } from '../../../../../test/kit/backends.js'
import { useOnnxRuntime } from '../../../../../test/kit/engine.js'
import { bools, floatsIn, intsIn, shapes, vector } from '../../../../../test/kit/hostTensor.js'
import { oneWith } from '../../../../../test/kit/kernelCases.js'
import { sequenceRules } from '../../../src/onnxruntime/kernels/sequence.js'

const { backend } = useOnnxRuntime()

interface Scan {
  readonly axis: number
  readonly exclusive: boolean
  readonly reverse: boolean
}

const scans = (shape: readonly number[]): fc.Arbitrary<Scan> =>
  fc.record({ axis: fc.nat(shape.length - 1), exclusive: fc.boolean(), reverse: fc.boolean() })

const product: Call<Scan> = ({ a }, { axis, exclusive, reverse }) => tf.cumprod(a, axis, exclusive, reverse)

const long = fc.integer({ min: 1, max: 40 }).map((n) => [n])

const rows = [
  row('Cumprod', oneWith(floatsIn(-3, 3), scans, shapes(1, 5)), product, {
    within: { absolute: 1e-5, relative: 1e-5 },
  }),
  row('Cumprod', oneWith(floatsIn(-1.5, 1.5), scans, long), product, {
    within: { absolute: 1e-5, relative: 1e-4 },
    on: 'long axes',
  }),
  row('Cumprod', oneWith(intsIn(-9, 9), scans, shapes(1, 5)), product, { on: 'int32' }),
  row('Cumprod', oneWith(bools, scans, shapes(1, 5)), product, { on: 'bool', form: 'cpu' }),
]

const differences: readonly KnownDifference[] = [
  {
    kernel: 'Cumprod',
    reason: 'onnxruntime multiplies neighbors first, so a product after a zero may be infinite on the way',
    inputs: [vector([0, 1e30, 1e30])],
    call: ({ a }) => tf.cumprod(a),
  },
]

describe('running products', () => {
  knownDifferences(differences)
  kernelLaws(backend, () => Object.keys(sequenceRules), rows)
})

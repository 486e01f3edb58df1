import { keyFromSeed, uniforms } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, it } from 'vitest'
import { type Call, expectSameOnBoth } from '../../../../test/kit/backends.js'
import { useOnnxRuntime } from '../../../../test/kit/engine.js'
import type { HostTensor } from '../../../../test/kit/hostTensor.js'

useOnnxRuntime()

const [ROWS, COLUMNS] = [131, 259]

/** Numbers in [-4, 4), the same for the same seed. */
const matrix = (seed: number, shape: readonly number[]): HostTensor => ({
  shape,
  dtype: 'float32',
  data: Array.from(uniforms(keyFromSeed(seed), shape[0]! * shape[1]!), (u) => Math.fround(8 * u - 4)),
})

/**
 * Calls of two matrices `[131, 259]`: large enough for several threads and for every path of a
 * vectorized loop.
 */
const CALLS: Readonly<Record<string, Call<undefined>>> = {
  'sums and means': ({ a }) => [tf.sum(a), tf.sum(a, 0), tf.sum(a, 1), tf.mean(a, 1)],
  'extremes and where they are': ({ a }) => [tf.max(a, 1), tf.min(a, 0), tf.argMax(a, 1), tf.argMin(a, 0)],
  'softmax and log-softmax': ({ a }) => [tf.softmax(a), tf.logSoftmax(a)],
  'running sums': ({ a }) => [tf.cumsum(a, 1), tf.cumsum(a, 0, true, true)],
  'the largest of each row': ({ a }) => {
    const { values, indices } = tf.topk(a, 7)
    return [values, indices]
  },
  products: ({ a, b }) => [tf.matMul(a, b, false, true), tf.matMul(a, b, true, false)],
  'arithmetic with broadcasting': ({ a, b }) => [
    tf.add(a, b),
    tf.mul(a, tf.max(b, 1, true)),
    tf.sub(a, tf.mean(b, 0)),
    tf.div(a, 3),
  ],
  'exponentials and their inverses': ({ a }) => [tf.exp(a), tf.log(tf.abs(a)), tf.sqrt(tf.abs(a)), tf.rsqrt(tf.abs(a))],
  sigmoids: ({ a }) => [tf.sigmoid(a), tf.tanh(a), tf.erf(a), tf.sin(a)],
  'choices and comparisons': ({ a, b }) => [tf.where(tf.greater(a, b), a, b), tf.maximum(a, b), tf.lessEqual(a, 0)],
  'moves of elements': ({ a, b }) => [
    tf.transpose(a),
    tf.concat([a, b], 1),
    tf.slice(a, [3, 5], [100, 200]),
    ...tf.split(b, [1, 130], 0),
  ],
  'rows by index': ({ a }) => [
    tf.gather(a, tf.range(130, 0, -1, 'int32')),
    tf.gather(a, tf.range(0, 259, 2, 'int32'), 1),
  ],
  'sums of rows by segment': ({ a }) =>
    tf.unsortedSegmentSum(a, tf.cast(tf.mod(tf.range(0, ROWS, 1, 'int32'), 7), 'int32') as tf.Tensor1D, 7),
}

describe('on large matrices', () => {
  it.each(Object.entries(CALLS))("%s equal the cpu backend's", (_name, call) => {
    const law = fc.property(fc.nat(1000), (seed) => {
      const inputs = [matrix(seed, [ROWS, COLUMNS]), matrix(seed + 1, [ROWS, COLUMNS])]
      expectSameOnBoth({ inputs, options: undefined }, call, { absolute: 2e-3, relative: 1e-5 })
    })
    fc.assert(law, { numRuns: 2 })
  })
})

import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { onBackend } from '../../../../test/kit/backends.js'
import { useOnnxRuntime } from '../../../../test/kit/engine.js'

useOnnxRuntime()

/** Calls that are wrong by their shapes alone. */
const WRONG: Readonly<Record<string, () => tf.Tensor | readonly tf.Tensor[]>> = {
  'add of shapes that do not broadcast': () => tf.add(tf.ones([2]), tf.ones([3])),
  'comparison of shapes that do not broadcast': () => tf.less(tf.ones([2]), tf.ones([3])),
  'addN of different shapes': () => tf.addN([tf.ones([2]), tf.ones([3])]),
  'where of shapes that do not broadcast': () => tf.where(tf.ones([2], 'bool'), tf.ones([3]), tf.ones([3])),
  'reshape to another number of elements': () => tf.reshape(tf.ones([4]), [3]),
  'reshape to a size that does not divide': () => tf.reshape(tf.ones([4]), [3, -1]),
  'reshape with two unknown sizes': () => tf.reshape(tf.ones([4]), [-1, -1]),
  'reshape of nothing to an unknown size': () => tf.reshape(tf.ones([0]), [0, -1]),
  'reshape of nothing to something': () => tf.reshape(tf.ones([0]), [3]),
  'expandDims beyond the rank': () => tf.expandDims(tf.ones([2]), 3),
  'concat of different sizes on another axis': () => tf.concat([tf.ones([2, 2]), tf.ones([2, 3])], 0),
  'concat of different ranks': () => tf.concat([tf.ones([2, 2]), tf.ones([2])], 0),
  'concat along an axis that is not there': () => tf.concat([tf.ones([2]), tf.ones([2])], 1),
  'stack of different shapes': () => tf.stack([tf.ones([2]), tf.ones([3])]),
  'unstack along an axis that is not there': () => tf.unstack(tf.ones([2]), 1),
  'slice beyond the end': () => tf.slice(tf.ones([3]), [2], [2]),
  'slice before the start': () => tf.slice(tf.ones([3]), [-1], [1]),
  'slice with too few starts': () => tf.slice(tf.ones([3, 3]), [0, 0, 0], [1, 1, 1]),
  'split in equal parts that do not divide': () => tf.split(tf.ones([5]), 2),
  'split in sizes that do not add up': () => tf.split(tf.ones([5]), [2, 2]),
  'split along an axis that is not there': () => tf.split(tf.ones([4]), 2, 1),
  'tile with too few repeats': () => tf.tile(tf.ones([2, 2]), [2]),
  'transpose with too few axes': () => tf.transpose(tf.ones([2, 2]), [0]),
  'matMul of sizes that do not fit': () => tf.matMul(tf.ones([2, 3]), tf.ones([2, 3])),
  'matMul of sizes that do not fit after transposing': () => tf.matMul(tf.ones([2, 3]), tf.ones([3, 2]), true),
  'matMul of batches that do not broadcast': () => tf.matMul(tf.ones([2, 2, 2]), tf.ones([3, 2, 2])),
  'matMul of vectors': () => tf.matMul(tf.ones([2]), tf.ones([2])),
  'fused matMul of sizes that do not fit': () => tf.fused.matMul({ a: tf.ones([2, 3]), b: tf.ones([2, 3]) }),
  'sum along an axis that is not there': () => tf.sum(tf.ones([2]), 1),
  'max along an axis that is not there': () => tf.max(tf.ones([2]), -2),
  'any along an axis that is not there': () => tf.any(tf.ones([2], 'bool'), 1),
  'argMax along an axis that is not there': () => tf.argMax(tf.ones([2]), 1),
  'softmax along another axis than the last': () => tf.softmax(tf.ones([2, 2]), 0),
  'topk of more than there are': () => tf.topk(tf.ones([2]), 3).values,
  'gather along an axis that is not there': () => tf.gather(tf.ones([2]), [0], 1),
  'gather with batches of different sizes': () => tf.gather(tf.ones([2, 3]), tf.zeros([3, 1], 'int32'), 1, 1),
  'gather of an index beyond the end': () => tf.gather(tf.ones([2, 2]), [0, 2]),
  'gather of a negative index': () => tf.gather(tf.ones([2, 2]), [-1]),
  'gather of an index beyond the end, by batches': () =>
    tf.gather(tf.ones([2, 2]), tf.tensor2d([0, 2], [2, 1], 'int32'), 1, 1),
  'oneHot with one class': () => tf.oneHot([0], 1),
  'unsortedSegmentSum with too few ids': () =>
    tf.unsortedSegmentSum(tf.ones([3]), tf.zeros([2], 'int32') as tf.Tensor1D, 2),
  'fill of a negative size': () => tf.fill([-1], 0),
}

/** Calls that the cpu backend answers with something. */
const WRONG_BUT_FOR_CPU: typeof WRONG = {
  'pad with too few widths': () => tf.pad(tf.ones([2, 2]), [[1, 1]]),
  'slice before the start by two': () => tf.slice(tf.ones([3]), [-2], [1]),
  'cumsum along an axis that is not there': () => tf.cumsum(tf.ones([2]), 1),
}

describe('a call whose shapes are wrong', () => {
  it.each(Object.entries(WRONG))('throws when it is made, as on the cpu backend: %s', (_name, call) => {
    const attempt = (): void => {
      tf.tidy(() => void call())
    }
    expect(() => onBackend('cpu', attempt), 'cpu').toThrow()
    expect(attempt, 'onnxruntime').toThrow()
  })

  it.each(Object.entries(WRONG_BUT_FOR_CPU))('throws when it is made: %s', (_name, call) => {
    expect(() => {
      tf.tidy(() => void call())
    }).toThrow()
  })
})

import * as tf from '@tensorflow/tfjs'
import { runFused } from './fused.js'

/**
 * The largest number of each row, along the last axis, which stays with size 1: what a softmax subtracts.
 *
 * A row with a NaN may give any of its numbers: the exponentials that follow are NaN all the same. `tf.max` promises NaN, which takes two passes more.
 *
 * @example
 * rowMax(tf.tensor2d([[1, 3], [5, 2]])).dataSync() // [3, 5]
 */
export const rowMax = (x: tf.Tensor): tf.Tensor => runFused('RowMax', { x }) ?? tf.max(x, -1, true)

/** Values of whole completions from those of their tokens. */
import * as tf from '@tensorflow/tfjs-core'
import { masked } from '../data/tensorDict/masked.js'

/** Sums the unmasked values of each row: `[B, T]` to `[B]`. Masked values have no effect. */
export const rowSums = (x: tf.Tensor, mask: tf.Tensor): tf.Tensor => tf.sum(masked(x, mask), -1)

/** Returns 1 for a row with unmasked tokens, else 0: `[B, T]` to `[B]`. */
export const rowsThatCount = (mask: tf.Tensor): tf.Tensor => tf.cast(tf.greater(tf.sum(mask, -1), 0), 'float32')

/** Computes `x / max(1, tokens of the row)`, `[B]`. */
export const perToken = (x: tf.Tensor, mask: tf.Tensor): tf.Tensor => tf.div(x, tf.maximum(tf.sum(mask, -1), 1))

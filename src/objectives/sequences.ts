/** Numbers of whole completions from those of their tokens. */
import * as tf from '@tensorflow/tfjs-core'
import { masked } from '../engine/masked.js'

/** Sum over the tokens of each row that count: `[B, T]` to `[B]`. What is under the mask never matters. */
export const rowSums = (x: tf.Tensor, mask: tf.Tensor): tf.Tensor => tf.sum(masked(x, mask), -1)

/** 1 for a row with a token that counts, else 0: `[B, T]` to `[B]`. */
export const rowsThatCount = (mask: tf.Tensor): tf.Tensor => tf.cast(tf.greater(tf.sum(mask, -1), 0), 'float32')

/** `x / max(1, tokens of the row)`, `[B]`. */
export const perToken = (x: tf.Tensor, mask: tf.Tensor): tf.Tensor => tf.div(x, tf.maximum(tf.sum(mask, -1), 1))

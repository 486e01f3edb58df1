/** Activation functions by name. */
import * as tf from '@tensorflow/tfjs-core'
import { gelu, geluTanh } from './gelu.js'
import { silu, swiGlu } from './swiGlu.js'

/**
 * The name of an activation: `silu(x) = x * sigmoid(x)`; `gelu` with the normal distribution,
 * `geluTanh` with its approximation by tanh.
 */
export type Activation = 'silu' | 'gelu' | 'geluTanh'

const FUNCTIONS: Readonly<Record<Activation, (x: tf.Tensor) => tf.Tensor>> = { silu, gelu, geluTanh }

/**
 * Applies the activation to each element.
 *
 * Shapes   x of any shape; result the same.
 *
 * @example
 * activate('geluTanh', tf.tensor1d([0, 1])).dataSync() // [0, 0.8412]
 */
export const activate = (name: Activation, x: tf.Tensor): tf.Tensor => FUNCTIONS[name](x)

/**
 * Computes `activation(gate) * up`.
 *
 * Shapes   gate, up `[..., F]`; result the same.
 * Source   Shazeer 2020, arXiv:2002.05202.
 *
 * @example
 * gate('silu', tf.tensor1d([0, 100]), tf.tensor1d([5, 2])).dataSync() // [0, 200]
 */
export const gate = (name: Activation, gates: tf.Tensor, up: tf.Tensor): tf.Tensor =>
  name === 'silu' ? swiGlu(gates, up) : tf.mul(FUNCTIONS[name](gates), up)

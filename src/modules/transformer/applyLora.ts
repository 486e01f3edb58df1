/** Where an adapter meets a projection: the names of its tensors, and its part of the arithmetic. */
import * as tf from '@tensorflow/tfjs-core'
import type { Params } from './params.js'

/** The names of the tensors of an adapter on a module. */
export interface LoraNames {
  /** `[R, I]` */
  readonly a: string
  /** `[O, R]` */
  readonly b: string
  /** A scalar. */
  readonly scaling: string
}

const SUFFIXES = { a: '.lora_A.weight', b: '.lora_B.weight', scaling: '.lora_scaling' } as const

/**
 * The names of an adapter's tensors on a module.
 *
 * @example
 * loraNames('mlp.up_proj').b // 'mlp.up_proj.lora_B.weight'
 */
export const loraNames = (module: string): LoraNames => ({
  a: module + SUFFIXES.a,
  b: module + SUFFIXES.b,
  scaling: module + SUFFIXES.scaling,
})

/** The module that a name of an adapter's tensor belongs to; undefined for another name. */
export const moduleOfLora = (name: string): string | undefined => {
  const suffix = Object.values(SUFFIXES).find((ending) => name.endsWith(ending))
  return suffix === undefined ? undefined : name.slice(0, -suffix.length)
}

/**
 * `y + scaling * (x A^T) B^T` where `params` has an adapter for the module, and `y` itself where it has none.
 *
 * Shapes   x `[N, I]`, y `[N, O]`; result like y.
 * Errors   throws, naming it, where one of the three tensors is there and another is missing.
 * Cost     `N R (I + O)` multiplications: the matrix `B A` is never made.
 * Source   Hu et al. 2021, arXiv:2106.09685, equation 3; PEFT's `lora.Linear` without dropout.
 */
export const addLora = (
  params: Params,
  module: string,
  { x, y }: { readonly x: tf.Tensor; readonly y: tf.Tensor },
): tf.Tensor => {
  const names = loraNames(module)
  const [a, b, scaling] = [params[names.a], params[names.b], params[names.scaling]]
  if (a === undefined && b === undefined && scaling === undefined) return y
  const missing = Object.values(names).find((name) => params[name] === undefined)
  if (a === undefined || b === undefined || scaling === undefined) {
    throw new Error(`addLora: parameter '${missing}' is missing`)
  }
  const inner = tf.mul(tf.matMul(x, a, false, true), scaling)
  return tf.add(y, tf.matMul(inner, b, false, true))
}

/** The part of an adapter in the decoder's arithmetic, and the names of its tensors. */
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
 * Returns the names of an adapter's tensors for a module.
 *
 * @example
 * loraNames('mlp.up_proj').b // 'mlp.up_proj.lora_B.weight'
 */
export const loraNames = (module: string): LoraNames => ({
  a: module + SUFFIXES.a,
  b: module + SUFFIXES.b,
  scaling: module + SUFFIXES.scaling,
})

/** Returns the module of an adapter's tensor name, or `undefined` for other names. */
export const moduleOfLora = (name: string): string | undefined => {
  const suffix = Object.values(SUFFIXES).find((ending) => name.endsWith(ending))
  return suffix === undefined ? undefined : name.slice(0, -suffix.length)
}

/**
 * Computes `y + scaling * (x A^T) B^T` if `params` has an adapter for the module, and returns `y`
 * otherwise.
 *
 * Shapes   x `[N, I]`, y `[N, O]`; result like y.
 * Errors   throws if only some of the three tensors are present, and names the missing one.
 * Cost     `N R (I + O)` multiplications: the matrix `B A` is never computed.
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

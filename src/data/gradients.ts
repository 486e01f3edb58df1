/** Gradients with respect to the float leaves of a TensorDict. */
import { flatten, type Tree, unflatten } from '@tandem-rl/base'
import { valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { OrderedMap } from 'immutable'
import { leafEntries, mapLeaves } from './tensorDict/leaves.js'
import { type Entry, type Flat, isTensorDict, nodeOf, type TensorDict } from './tensorDict/tensorDict.js'

/** The schema of gradients: the tensors of the parameters, in their nodes. */
export type GradSchema<S> = Flat<{
  readonly [K in keyof S as S[K] extends tf.Tensor | TensorDict ? K : never]: S[K] extends TensorDict<infer C>
    ? TensorDict<GradSchema<C>>
    : S[K]
}>

/** The value of a loss, its gradients, and its auxiliary results. */
export interface GradientsOf<S, X> {
  readonly value: tf.Tensor
  /**
   * Like the parameters, with only the float tensors. The gradient is zero for a leaf that the
   * value does not depend on.
   */
  readonly grads: TensorDict<GradSchema<S>>
  readonly aux: X
}

const isFloat = (entry: unknown): entry is tf.Tensor => entry instanceof tf.Tensor && entry.dtype === 'float32'

/** Builds the nodes of `td` with only its float leaves, replaced by the given tensors, in order. */
const floatTree = (td: TensorDict, tensors: Iterator<tf.Tensor>): TensorDict =>
  nodeOf(
    OrderedMap(
      td.entries
        .toArray()
        .filter(([, entry]) => isTensorDict(entry) || isFloat(entry))
        .map(([key, entry]): [string, Entry] => [
          key,
          isTensorDict(entry) ? floatTree(entry, tensors) : tensors.next().value,
        ]),
    ),
    td.batchShape,
  )

/** The type of `aux`. Its tensors survive, and so do all entries of its TensorDicts. */
export type Auxiliary = tf.Tensor | TensorDict | readonly Auxiliary[] | { readonly [key: string]: Auxiliary }

const isAuxLeaf = (value: unknown): value is tf.Tensor | TensorDict => value instanceof tf.Tensor || isTensorDict(value)

/** Returns the tensors of `aux`, and a function that replaces them. */
const tensorsOfAux = (
  aux: Auxiliary,
): { readonly tensors: readonly tf.Tensor[]; readonly rebuild: (tensors: readonly tf.Tensor[]) => Auxiliary } => {
  const { shape, leaves } = flatten<tf.Tensor | TensorDict>(aux as Tree<tf.Tensor | TensorDict>, isAuxLeaf)
  const tensors = leaves.flatMap((leaf) =>
    isTensorDict(leaf) ? leafEntries(leaf).flatMap(([, each]) => (each instanceof tf.Tensor ? [each] : [])) : [leaf],
  )
  const rebuild = (given: readonly tf.Tensor[]): Auxiliary => {
    const next = given.values()
    const take = (): tf.Tensor => next.next().value! // one for each of `tensors`
    const filled = leaves.map((leaf) =>
      isTensorDict(leaf) ? mapLeaves(leaf, (each) => (each instanceof tf.Tensor ? take() : each)) : take(),
    )
    return unflatten(shape, filled) as Auxiliary // of the shape of an Auxiliary
  }
  return { tensors, rebuild }
}

/**
 * Differentiates a scalar function of the float leaves of a TensorDict.
 *
 * If a tensor is at several paths of `params`, `loss` gets distinct handles on the same values, so
 * that each path has a gradient of its own. `loss` returns the scalar `value` and `aux`: tensors
 * and TensorDicts in records and lists, which are passed through without a gradient.
 *
 * Shapes   `value` is a scalar; `grads` has the nodes of `params` and the paths and shapes of its
 *          float32 leaves. Integer and boolean tensors, ragged rows, data and meta have no gradient
 *          and no key there.
 * Errors   throws what `loss` throws.
 * Effects  creates tensors that belong to the enclosing scope, including those of `aux`. If `loss`
 *          throws, no tensor remains.
 * Cost     one pass forward and one backward; a copy of each tensor that is at several paths.
 * Source   laws 80 to 82.
 *
 * @example
 * const { grads } = gradientsOf(TensorDict({ x: tf.scalar(3) }, []), (td) => ({ value: tf.square(get(td, 'x')), aux: {} }))
 * get(grads, 'x').dataSync() // [6]
 */
export const gradientsOf = <S, X extends Auxiliary>(
  params: TensorDict<S>,
  loss: (params: TensorDict<S>) => { readonly value: tf.Tensor; readonly aux: X },
): GradientsOf<S, X> =>
  scope(() => {
    const seen = new Set<tf.Tensor>()
    const distinct = mapLeaves(params, (leaf) => {
      if (!isFloat(leaf)) return leaf
      if (seen.has(leaf)) return tf.clone(leaf)
      seen.add(leaf)
      return leaf
    })
    const floats = leafEntries(distinct).flatMap(([, leaf]) => (isFloat(leaf) ? [leaf] : []))
    if (floats.length === 0) return { ...loss(distinct), grads: floatTree(distinct, floats.values()) as never } // no leaves, any schema
    let rebuild: ((tensors: readonly tf.Tensor[]) => Auxiliary) | undefined
    const named = Object.fromEntries(floats.map((tensor, i) => [`${i}`, tensor] as const))
    const { value, grads, aux } = valueAndGrad(named, () => {
      const computed = loss(distinct)
      const parts = tensorsOfAux(computed.aux)
      rebuild = parts.rebuild
      return { value: computed.value, aux: parts.tensors }
    })
    const tree = floatTree(distinct, floats.map((_, i) => grads[`${i}`]!).values())
    return {
      value,
      grads: tree as TensorDict<GradSchema<S>>, // tensors in the nodes of `params`
      aux: rebuild!(aux) as X, // the same structure, with the tensors that survived
    }
  })

import { flatten, type Tree, unflatten } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import { isTensor } from './compiledEntry.js'

type Named = Readonly<Record<string, tf.Tensor>>

/** The value of a function, its gradients by name, and its auxiliary results. */
export interface ValueAndGrad<X> {
  readonly value: tf.Tensor
  /** Like the parameters: zeros for one that the value does not depend on. */
  readonly grads: Named
  readonly aux: X
}

/**
 * The tape of tfjs's engine while it records a gradient, which would leak if the function throws.
 */
interface Tape {
  readonly state: { readonly activeTape: { readonly saved?: readonly tf.Tensor[] }[] | null }
}

const freeTape = (): void => {
  // Cast: `state` is public in tfjs's engine and missing in its declarations.
  for (const node of (tf.engine() as unknown as Tape).state.activeTape ?? []) {
    for (const tensor of node.saved ?? []) tensor.dispose()
  }
}

/**
 * Differentiates a scalar function of named tensors.
 *
 * `f` returns the scalar `value` and `aux`, a tree of tensors that is passed through without a
 * gradient, such as metrics of the same pass.
 *
 * Effects  creates tensors that belong to the enclosing scope. If `f` throws, no tensor remains.
 * Cost     one pass forward and one backward.
 *
 * @example
 * valueAndGrad({ x: tf.scalar(3) }, ({ x }) => ({ value: tf.square(x), aux: {} })).grads.x.dataSync() // [6]
 */
export const valueAndGrad = <P extends Named, X>(
  params: P,
  f: (params: P) => { readonly value: tf.Tensor; readonly aux: X },
): ValueAndGrad<X> => {
  const names = Object.keys(params)
  let kept: ReturnType<typeof flatten<tf.Tensor>> | undefined
  const run = (): tf.Scalar => {
    const { value, aux } = f(params)
    const tree = flatten(aux as Tree<tf.Tensor>, isTensor) // a tree by contract
    kept = { shape: tree.shape, leaves: tree.leaves.map((leaf) => tf.keep(tf.clone(leaf))) }
    return tf.reshape(value, [])
  }
  let result: { readonly value: tf.Tensor; readonly grads: readonly tf.Tensor[] }
  try {
    result = tf.engine().gradients(
      run,
      names.map((name) => params[name]!),
      null as unknown as tf.Scalar, // tfjs takes null for ones
      true,
    )
  } catch (error) {
    freeTape()
    for (const leaf of kept?.leaves ?? []) leaf.dispose()
    throw error
  }
  const { shape, leaves } = kept!
  const aux = unflatten(
    shape,
    leaves.map((leaf) => tf.clone(leaf)), // a handle that belongs to the enclosing scope
  ) as X
  for (const leaf of leaves) leaf.dispose()
  const grads = names.map((name, i) => [name, result.grads[i] ?? tf.zerosLike(params[name]!)] as const)
  return { value: result.value, grads: Object.fromEntries(grads), aux }
}

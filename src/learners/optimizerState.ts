/** The state of any optimizer as named arrays, for files. */
import type { HostArray } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import type { NamedTensors } from '../data/weights.js'
import { hostArrays } from '../modules/pretrained/pretrained.js'
import type { Optimizer } from '../objectives/updates/optimizer.js'

/** An optimizer whose state is opaque: records of tensors, or records of such records. */
export type AnyStateOptimizer = Optimizer<object>

/** Returns each tensor by its path, such as `mean.lm_head.weight`. */
const leaves = (state: object, prefix = ''): readonly (readonly [path: string, tensor: tf.Tensor])[] =>
  Object.entries(state).flatMap(([name, value]: [string, tf.Tensor | object]) =>
    value instanceof tf.Tensor ? [[prefix + name, value] as const] : leaves(value, `${prefix}${name}.`),
  )

const withLeaves = (state: object, at: (path: string) => tf.Tensor, prefix = ''): object =>
  Object.fromEntries(
    Object.entries(state).map(([name, value]: [string, tf.Tensor | object]) => [
      name,
      value instanceof tf.Tensor ? at(prefix + name) : withLeaves(value, at, `${prefix}${name}.`),
    ]),
  )

/** Returns all arrays of a state by path. */
export const stateArrays = (state: object): ReadonlyMap<string, HostArray> =>
  hostArrays(Object.fromEntries(leaves(state)))

/**
 * Returns the shapes of an optimizer's state for the given parameters, by path. Handles one
 * parameter at a time, so that the complete state is never in memory.
 */
export const stateShapes = (
  optimizer: AnyStateOptimizer,
  trained: ReadonlyMap<string, Pick<HostArray, 'shape'>>,
): ReadonlyMap<string, readonly number[]> => {
  const of = ([name, { shape }]: readonly [string, Pick<HostArray, 'shape'>]) =>
    scope(() =>
      leaves(optimizer.init({ [name]: tf.zeros([...shape]) })).map(([path, tensor]) => [path, tensor.shape] as const),
    )
  return new Map([...trained].flatMap(of))
}

/**
 * Returns an optimizer's state for the given parameters, with stored values. The tensors belong to
 * the enclosing scope.
 *
 * Errors   throws RangeError for a tensor without a stored value.
 */
export const restoredState = (
  optimizer: AnyStateOptimizer,
  params: NamedTensors,
  arrays: ReadonlyMap<string, HostArray>,
): object =>
  scope(() =>
    withLeaves(optimizer.init(params), (path) => {
      const found = arrays.get(path)
      if (found === undefined) throw new RangeError(`restoredState: '${path}' is missing`)
      return tf.tensor(found.data, [...found.shape], 'float32')
    }),
  )

/** Conversions between tensors and plain values. */
import { flatten, type Tree, unflatten } from '@tandem-rl/base'
import { isTensor } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import type { NamedTensors } from '../../data/weights.js'
import type { PlainTensor, PlainTree } from './messages.js'

const DTYPES: readonly string[] = ['float32', 'int32', 'bool'] satisfies readonly PlainTensor['dtype'][]

const isPlainDtype = (dtype: string): dtype is PlainTensor['dtype'] => DTYPES.includes(dtype)

/**
 * Returns the data of a tensor, without a copy where possible. Throws TypeError for strings and
 * complex numbers.
 */
export const plainTensor = (tensor: tf.Tensor): PlainTensor => {
  const { dtype, shape } = tensor
  if (!isPlainDtype(dtype)) throw new TypeError(`a tensor of dtype ${dtype} cannot be sent to a thread`)
  return { data: tensor.dataSync() as PlainTensor['data'], shape, dtype } // the arrays of these dtypes
}

/** Makes a tensor that belongs to the enclosing scope. */
const tensorOf = ({ data, shape, dtype }: PlainTensor): tf.Tensor => tf.tensor(data, [...shape], dtype)

export const plainTensors = (tensors: NamedTensors): Readonly<Record<string, PlainTensor>> =>
  Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [name, plainTensor(tensor)]))

export const tensorsOfPlain = (plain: Readonly<Record<string, PlainTensor>>): NamedTensors =>
  Object.fromEntries(Object.entries(plain).map(([name, tensor]) => [name, tensorOf(tensor)]))

/** Converts tensors in nested records and lists to plain values. */
export const plainTree = (tree: unknown): PlainTree => {
  const { shape, leaves } = flatten(tree as Tree<tf.Tensor>, isTensor) // throws for any other leaf
  return { shape, leaves: leaves.map(plainTensor) }
}

/** Converts the result of `plainTree` back. The tensors belong to the enclosing scope. */
export const treeOf = ({ shape, leaves }: PlainTree): Tree<tf.Tensor> => unflatten(shape, leaves.map(tensorOf))

/** Stacking of TensorDicts whose rows have different lengths, as ragged rows or padded tensors. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { none, some } from 'fp-ts/lib/Option.js'
import { firstOf, stack } from './joining.js'
import type { Path } from './keys.js'
import { isValueOf, type Leaf, type Ragged, type RaggedType, ragged, toPadded } from './leaf.js'
import { filterMapLeaves, leafEntries, mapLeaves } from './leaves.js'
import {
  batchSize,
  find,
  isTensorDict,
  type TensorDict,
  TensorDictError,
  type TensorDictProblem,
} from './tensorDict.js'

/** A schema in which tensors may have become ragged rows. */
export type Nested<S> = {
  readonly [K in keyof S]: S[K] extends TensorDict<infer N>
    ? TensorDict<Nested<N>>
    : S[K] extends tf.Tensor
      ? tf.Tensor | Ragged
      : S[K]
}

/** A schema in which ragged rows have become tensors. */
export type Padded<S> = {
  readonly [K in keyof S]: S[K] extends TensorDict<infer N>
    ? TensorDict<Padded<N>>
    : S[K] extends Ragged
      ? tf.Tensor
      : S[K]
}

/** Options for padding rows. */
export interface AsPaddedTensorOptions {
  /** Default: left, as for prompts. */
  readonly side?: 'left' | 'right'
  /** Default 0. It must be a value of the type of all rows. */
  readonly value?: number
}

/** Padded rows with their masks. */
export interface PaddedTensors<S> {
  readonly td: TensorDict<Padded<S>>
  /** A bool mask `[N, .., T]` under the key of each padded leaf: true for elements of a row. */
  readonly masks: TensorDict
}

/** Returns the batch shape of the node that contains a leaf. */
const shapeAt = (td: TensorDict, path: Path): readonly number[] => {
  const [, ...rest] = [...path].reverse()
  const node = rest.length === 0 ? td : find(td, rest.reverse())
  return isTensorDict(node) ? node.batchShape : td.batchShape
}

const featureAxes = (td: TensorDict, path: Path, leaf: tf.Tensor): number => leaf.rank - shapeAt(td, path).length

/** Lists every tensor that cannot be converted to rows. */
const rowProblems = (td: TensorDict): readonly TensorDictProblem[] =>
  leafEntries(td).flatMap(([path, leaf]) => {
    if (!(leaf instanceof tf.Tensor) || featureAxes(td, path, leaf) <= 1) return []
    return [{ path, reason: `has the shape [${leaf.shape.join(', ')}]: rows have one axis after those of the batch` }]
  })

const rowsOfTensor = (tensor: tf.Tensor, batchShape: readonly number[]): Ragged => {
  const [rows, width] = [batchSize(batchShape), tensor.shape.at(-1)!]
  const values = tensor.dataSync()
  const row = (i: number): ArrayLike<number> => values.subarray(i * width, (i + 1) * width)
  return ragged(
    tensor.dtype as RaggedType,
    Array.from({ length: rows }, (_, i) => row(i)),
  ) // `toRows` accepts only these
}

/** Converts tensors with a feature axis to ragged rows. Other leaves are unchanged. */
const toRows = (td: TensorDict): TensorDict =>
  mapLeaves(td, (leaf, path): Leaf => {
    if (!(leaf instanceof tf.Tensor) || featureAxes(td, path, leaf) === 0) return leaf
    if (!(['float32', 'int32', 'bool'] as readonly string[]).includes(leaf.dtype)) {
      throw new TensorDictError('asNestedTensor', path, `rows of ${leaf.dtype} cannot be ragged`)
    }
    return rowsOfTensor(leaf, shapeAt(td, path))
  })

/**
 * Stacks TensorDicts. Tensors with a feature axis may have different lengths: they become ragged
 * rows.
 *
 * Shapes   N TensorDicts of one batch shape `[..]` to one of `[N, ..]`. A tensor `[.., T_i]` gives
 *          ragged rows, one of `[..]` a tensor `[N, ..]`.
 * Errors   throws TensorDictError, listing every tensor with more axes than that; every other
 *          difference, as `stack` does; for an empty list.
 * Effects  reads the tensors that become rows, which computes them; creates tensors that belong to
 *          the enclosing scope.
 * Source   TorchRL `as_nested_tensor`, whose rows are jagged nested tensors.
 *
 * @example
 * toNested(asNestedTensor([1, 2].map((n) => TensorDict({ ids: tf.ones([n]) }, [])))) // { ids: [[1], [1, 1]] }
 */
export const asNestedTensor = <S>(parts: readonly TensorDict<S>[]): TensorDict<Nested<S>> => {
  firstOf('asNestedTensor', parts)
  const problems = parts.flatMap((part) => rowProblems(part))
  if (problems.length > 0) throw new TensorDictError('asNestedTensor', problems[0]!.path, { problems })
  return scope(() => stack(parts.map(toRows))) as unknown as TensorDict<Nested<S>> // the same keys, and tensors with an axis of their own are rows
}

/**
 * Stacks TensorDicts. Tensors with a feature axis and ragged rows may have different lengths: short
 * ones are padded.
 *
 * Shapes   N TensorDicts of one batch shape `[..]` to one of `[N, ..]`. Tensors and rows `[..,
 *          T_i]` become a tensor `[N, .., T]`, T the longest of that leaf; the lengths of other
 *          leaves do not matter.
 * Errors   throws TensorDictError as `asNestedTensor` does, and listing every leaf whose type does
 *          not contain the filler.
 * Effects  as `asNestedTensor`.
 * Source   TorchRL `as_padded_tensor`, which fills with 0 on the left and returns no mask. If time
 *          is a batch axis, use `padSequence`.
 *
 * @example
 * toNested(asPaddedTensor([1, 2].map((n) => TensorDict({ ids: tf.ones([n]) }, []))).td) // { ids: [[0, 1], [1, 1]] }
 */
export const asPaddedTensor = <S>(
  parts: readonly TensorDict<S>[],
  options: AsPaddedTensorOptions = {},
): PaddedTensors<S> => {
  const { side = 'left', value = 0 } = options
  return scope(() => {
    const rows = asNestedTensor(parts) as TensorDict
    const isRows = (leaf: Leaf): leaf is Ragged => !(leaf instanceof tf.Tensor) && leaf._tag === 'Ragged'
    const problems = leafEntries(rows).flatMap(([path, leaf]): readonly TensorDictProblem[] =>
      isRows(leaf) && !isValueOf(leaf.type, value) ? [{ path, reason: `${value} is not a value of ${leaf.type}` }] : [],
    )
    if (problems.length > 0) throw new TensorDictError('asPaddedTensor', problems[0]!.path, { problems })
    const filled = (part: 'values' | 'mask', leaf: Ragged, path: Path): tf.Tensor => {
      const tensor = toPadded(leaf, { side, value })[part]
      return tf.reshape(tensor, [...shapeAt(rows, path), tensor.shape[1]])
    }
    const td = mapLeaves(rows, (leaf, path) => (isRows(leaf) ? filled('values', leaf, path) : leaf))
    const masks = filterMapLeaves(rows, (leaf, path) => (isRows(leaf) ? some(filled('mask', leaf, path)) : none))
    return { td: td as unknown as TensorDict<Padded<S>>, masks } // the same keys, and rows are tensors
  })
}

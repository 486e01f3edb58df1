/** Operations on the first batch axis: every leaf moves with it, whatever its kind. */
import * as tf from '@tensorflow/tfjs'
import { scope } from '../../engine/scope.js'
import { data, type Leaf, ragged, raggedRow } from './leaf.js'
import { type Entry, isTensorDict, nodeOf, type TensorDict, TensorDictError } from './tensorDict.js'

/** Rows of a row-per-element leaf that belong to the given indices of the first batch axis. */
const rowsOf = (indices: readonly number[], inner: number): readonly number[] =>
  inner === 1 ? indices : indices.flatMap((i) => Array.from({ length: inner }, (_, j) => i * inner + j))

const takeLeaf = (leaf: Leaf, indices: readonly number[], inner: number): Leaf => {
  if (leaf instanceof tf.Tensor) return tf.gather(leaf, tf.tensor1d(indices as number[], 'int32'))
  switch (leaf._tag) {
    case 'Ragged':
      return ragged(
        leaf.type,
        rowsOf(indices, inner).map((i) => raggedRow(leaf, i)),
      )
    case 'Data':
      return data(rowsOf(indices, inner).map((i) => leaf.items.get(i)))
    case 'Meta':
      return leaf
  }
}

const innerSize = (td: TensorDict): number => td.batchShape.slice(1).reduce((n, m) => n * m, 1)

const requireAxis = (operation: string, td: TensorDict): number => {
  const [size] = td.batchShape
  if (size === undefined) throw new TensorDictError(operation, [], 'the TensorDict has no batch axis')
  return size
}

/**
 * The elements at `indices` of the first batch axis, in that order; an index may occur more than once.
 *
 * Errors   throws TensorDictError if an index is out of range.
 * Effects  makes tensors that belong to the enclosing scope.
 */
export const take = <S>(td: TensorDict<S>, indices: readonly number[]): TensorDict<S> => {
  const size = requireAxis('take', td)
  for (const i of indices) {
    if (!Number.isInteger(i) || i < 0 || i >= size)
      throw new TensorDictError('take', [], `index ${i} is not in 0 .. ${size - 1}`)
  }
  if (indices.length === size && indices.every((index, i) => index === i)) return td
  return scope(() =>
    overNodes(td, [indices.length, ...td.batchShape.slice(1)], (leaf, inner) => takeLeaf(leaf, indices, inner)),
  )
}

/** Maps leaves with the number of batch elements behind the first axis at the leaf's own node. */
const overNodes = <S>(
  td: TensorDict<S>,
  batchShape: readonly number[],
  f: (leaf: Leaf, inner: number) => Leaf,
): TensorDict<S> => {
  const walk = (node: TensorDict): TensorDict =>
    nodeOf(
      node.entries.map((entry): Entry => (isTensorDict(entry) ? walk(entry) : f(entry, innerSize(node)))),
      [...batchShape, ...node.batchShape.slice(td.batchShape.length)],
    )
  return walk(td) as TensorDict<S> // leaves are replaced, keys are kept
}

/** Elements `start .. end - 1` of the first batch axis. Errors: throws TensorDictError if the range is not inside the axis. */
export const slice = <S>(td: TensorDict<S>, start: number, end: number): TensorDict<S> => {
  const size = requireAxis('slice', td)
  if (![start, end].every(Number.isInteger) || start < 0 || end < start || end > size) {
    throw new TensorDictError('slice', [], `${start} .. ${end} is not inside 0 .. ${size}`)
  }
  return take(
    td,
    Array.from({ length: end - start }, (_, i) => start + i),
  )
}

/** Each element `count` times in succession: element `i * count + j` of the result is element i. */
export const repeatInterleave = <S>(td: TensorDict<S>, count: number): TensorDict<S> => {
  const size = requireAxis('repeatInterleave', td)
  if (!Number.isInteger(count) || count < 0) {
    throw new TensorDictError('repeatInterleave', [], `count must be a natural number, got ${count}`)
  }
  return take(
    td,
    Array.from({ length: size * count }, (_, i) => Math.floor(i / count)),
  )
}

const describeKind = (entry: Entry | undefined): string => {
  if (entry === undefined) return 'nothing'
  if (entry instanceof tf.Tensor) return `${entry.dtype} tensor`
  return entry._tag === 'Ragged' ? `ragged ${entry.type}` : entry._tag
}

/** Every way in which nodes cannot be joined, by path. */
const conflicts = (nodes: readonly TensorDict[], path: readonly string[]): readonly string[] => {
  const keys = [...new Set(nodes.flatMap((node) => [...node.entries.keys()]))]
  return keys.flatMap((key) => {
    const place = [...path, key]
    const entries = nodes.map((node) => node.entries.get(key))
    const kinds = [...new Set(entries.map(describeKind))]
    if (kinds.length > 1) return [`${place.join(' > ')}: ${kinds.join(' and ')}`]
    if (entries.every(isTensorDict)) {
      const inner = [...new Set(entries.map((node) => node.batchShape.slice(1).join()))]
      return inner.length > 1
        ? [`${place.join(' > ')}: nodes of batch shapes [${inner.join('] and [')}] behind the first axis`]
        : conflicts(entries, place)
    }
    const [first] = entries
    if (first instanceof tf.Tensor) {
      const features = [...new Set(entries.map((e) => (e instanceof tf.Tensor ? e.shape.slice(1).join() : '')))]
      return features.length > 1
        ? [`${place.join(' > ')}: tensors of feature shapes [${features.join('] and [')}]`]
        : []
    }
    if (!isTensorDict(first) && first?._tag === 'Meta') {
      const equal = entries.every(
        (e) => e !== undefined && '_tag' in e && e._tag === 'Meta' && Object.is(e.value, first.value),
      )
      return equal ? [] : [`${place.join(' > ')}: different meta values`]
    }
    return []
  })
}

const concatLeaves = (leaves: readonly Leaf[]): Leaf => {
  const [first] = leaves
  if (first instanceof tf.Tensor) return tf.concat(leaves as tf.Tensor[], 0) // all of one kind, checked by `conflicts`
  switch (first!._tag) {
    case 'Ragged':
      return ragged(
        first!.type,
        leaves.flatMap((leaf) =>
          !(leaf instanceof tf.Tensor) && leaf._tag === 'Ragged'
            ? Array.from({ length: leaf.offsets.length - 1 }, (_, i) => raggedRow(leaf, i))
            : [],
        ),
      )
    case 'Data':
      return data(
        leaves.flatMap((leaf) => (!(leaf instanceof tf.Tensor) && leaf._tag === 'Data' ? [...leaf.items] : [])),
      )
    case 'Meta':
      return first!
  }
}

/**
 * The elements of all, one after the other, along the first batch axis.
 *
 * Errors   throws TensorDictError, listing every conflict (missing keys, kinds, dtypes, feature shapes, different meta values),
 *          if there is nothing to join or if batch shapes differ behind the first axis.
 * Effects  makes tensors that belong to the enclosing scope.
 */
export const concat = <S>(parts: readonly TensorDict<S>[]): TensorDict<S> => {
  const [first, ...rest] = parts
  if (first === undefined) throw new TensorDictError('concat', [], 'there is nothing to join')
  if (rest.length === 0) return first
  for (const part of parts) requireAxis('concat', part)
  const inner = first.batchShape.slice(1)
  if (parts.some((part) => part.batchShape.slice(1).join() !== inner.join())) {
    throw new TensorDictError('concat', [], 'the batch shapes differ behind the first axis')
  }
  const found = conflicts(parts, [])
  if (found.length > 0) throw new TensorDictError('concat', [], found.join('; '))
  const total = parts.reduce((sum, part) => sum + part.batchShape[0]!, 0)
  const join = (nodes: readonly TensorDict[]): TensorDict =>
    nodeOf(
      nodes[0]!.entries.map((entry, key): Entry => {
        const entries = nodes.map((node) => node.entries.get(key)!) // equal keys, checked by `conflicts`
        return isTensorDict(entry) ? join(entries.filter(isTensorDict)) : concatLeaves(entries as Leaf[])
      }),
      [total, ...nodes[0]!.batchShape.slice(1)],
    )
  return scope(() => join(parts)) as TensorDict<S> // equal schemas, checked above
}

/** Each element of the first batch axis by itself, with a batch axis of size 1. */
export const splitEach = <S>(td: TensorDict<S>): readonly TensorDict<S>[] =>
  Array.from({ length: requireAxis('splitEach', td) }, (_, i) => slice(td, i, i + 1))

/** Changes to the keys of a TensorDict. They copy spines, never leaves: untouched entries keep their identity. */
import { OrderedMap } from 'immutable'
import type { Leaf } from './leaf.js'
import {
  type Entries,
  type Entry,
  type Flat,
  isTensorDict,
  type Merge,
  nodeOf,
  requireFit,
  type SchemaOf,
  TensorDict,
  TensorDictError,
} from './tensorDict.js'

/** The TensorDict with one entry set. Setting what is there already returns the same object. Errors: throws where it does not fit. */
export const set = <S, K extends string, const E extends Entry>(
  td: TensorDict<S>,
  key: K,
  entry: E,
): TensorDict<Merge<S, { readonly [P in K]: E }>> => {
  requireFit(entry, td.batchShape, { operation: 'set', key })
  const entries = td.entries.set(key, entry)
  const result = entries === td.entries ? td : nodeOf(entries, td.batchShape)
  return result as TensorDict<Merge<S, { readonly [P in K]: E }>> // the entry was just set
}

const mergeNodes = (left: TensorDict, right: TensorDict): TensorDict => {
  const entries = right.entries.reduce((merged, entry, key) => {
    const present = merged.get(key)
    return merged.set(key, isTensorDict(present) && isTensorDict(entry) ? mergeNodes(present, entry) : entry)
  }, left.entries)
  return entries === left.entries ? left : nodeOf(entries, left.batchShape)
}

/** The schema of a merge: nodes on both sides are merged, everything else is taken from the right. */
export type DeepMerge<S, X> = Flat<
  Omit<S, keyof X> & {
    readonly [K in keyof X]: K extends keyof S
      ? S[K] extends TensorDict<infer A>
        ? X[K] extends TensorDict<infer B>
          ? TensorDict<DeepMerge<A, B>>
          : X[K]
        : X[K]
      : X[K]
  }
>

/**
 * All entries of both; where both have a leaf, the right one; where both have a node, the merge of the two.
 *
 * Errors   throws TensorDictError unless the batch shapes are equal.
 * Source   laws 20 and 22: associative where no key is a leaf on one side and a node on the other; `TensorDict({}, b)` is neutral;
 *          inputs are untouched.
 */
export const merge = <S, X>(left: TensorDict<S>, right: TensorDict<X>): TensorDict<DeepMerge<S, X>> => {
  if (left.batchShape.join() !== right.batchShape.join()) {
    throw new TensorDictError(
      'merge',
      [],
      `batch shapes [${left.batchShape.join(', ')}] and [${right.batchShape.join(', ')}] differ`,
    )
  }
  return mergeNodes(left, right) as TensorDict<DeepMerge<S, X>> // by the definition of DeepMerge
}

/** `merge` with entries given as a record. */
export const assign = <S, const E extends Entries>(
  td: TensorDict<S>,
  entries: E,
): TensorDict<DeepMerge<S, SchemaOf<E>>> => merge(td, TensorDict(entries, td.batchShape))

/** Only the named entries, in the order they have in `td`. Errors: throws TensorDictError for a name that is not there. */
export const select = <S, K extends keyof S & string>(
  td: TensorDict<S>,
  ...keys: readonly K[]
): TensorDict<Flat<Pick<S, K>>> => {
  for (const key of keys) if (!td.entries.has(key)) throw new TensorDictError('select', [key], 'no such entry')
  const wanted = new Set<string>(keys)
  const kept = td.entries.filter((_, key) => wanted.has(key))
  return kept.size === td.entries.size ? (td as never) : nodeOf(kept, td.batchShape) // all keys kept: the same schema
}

/** All but the named entries. Names that are not there are ignored. */
export const exclude = <S, K extends string>(
  td: TensorDict<S>,
  ...keys: readonly K[]
): TensorDict<Flat<Omit<S, K>>> => {
  const entries = td.entries.deleteAll(keys)
  return entries === td.entries ? (td as never) : nodeOf(entries, td.batchShape) // nothing excluded: the same schema
}

/**
 * One entry under another name, in its old place.
 *
 * Errors   throws TensorDictError if there is no such entry, or if the new name is taken.
 */
export const rename = <S, A extends keyof S & string, B extends string>(
  td: TensorDict<S>,
  from: A,
  to: B,
): TensorDict<Merge<Omit<S, A>, { readonly [K in B]: S[A] }>> => {
  if (!td.entries.has(from)) throw new TensorDictError('rename', [from], 'no such entry')
  if (td.entries.has(to)) throw new TensorDictError('rename', [to], 'the name is taken')
  return nodeOf(
    OrderedMap(td.entries.entrySeq().map(([key, entry]): [string, Entry] => [key === from ? to : key, entry])),
    td.batchShape,
  )
}

/** Every leaf with its path, parents before children, in order. */
export const leafEntries = (td: TensorDict): readonly (readonly [readonly string[], Leaf])[] =>
  td.entries
    .entrySeq()
    .toArray()
    .flatMap(([key, entry]): readonly (readonly [readonly string[], Leaf])[] =>
      isTensorDict(entry)
        ? leafEntries(entry).map(([path, leaf]) => [[key, ...path], leaf] as const)
        : [[[key], entry]],
    )

/**
 * Applies `f` to every leaf.
 *
 * Errors   throws TensorDictError, naming the path, if a result does not fit `batchShape` (by default the node's own).
 */
export const mapLeaves = <S>(
  td: TensorDict<S>,
  f: (leaf: Leaf, path: readonly string[]) => Leaf,
  batchShape: readonly number[] = td.batchShape,
): TensorDict<S> => {
  const extra = td.batchShape.length
  const walk = (node: TensorDict, path: readonly string[]): TensorDict => {
    const shape = [...batchShape, ...node.batchShape.slice(extra)]
    const entries = node.entries.map((entry, key): Entry => {
      const result = isTensorDict(entry) ? walk(entry, [...path, key]) : f(entry, [...path, key])
      requireFit(result, shape, { operation: 'mapLeaves', key: [...path, key].join(' > ') })
      return result
    })
    const unchanged =
      shape.join() === node.batchShape.join() && entries.every((entry, key) => node.entries.get(key) === entry)
    return unchanged ? node : nodeOf(entries, shape)
  }
  return walk(td, []) as TensorDict<S> // leaves are replaced, keys are kept
}

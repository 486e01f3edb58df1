/** Specs: what a TensorDict contains, as a value. Environments state them, transforms map them, tests check them. */
import * as tf from '@tensorflow/tfjs'
import * as E from 'fp-ts/lib/Either.js'
import type { Data, Leaf, Meta, Ragged, RaggedType } from './tensorDict/leaf.js'
import { type Entry, type Flat, isTensorDict, type TensorDict } from './tensorDict/tensorDict.js'

declare const LEAF: unique symbol

/** What one leaf is. `L` exists in the types alone. */
export type LeafSpec<L extends Leaf = Leaf> = { readonly [LEAF]?: L } & (
  | {
      readonly _tag: 'TensorSpec'
      readonly dtype: 'float32' | 'int32' | 'bool'
      /** Axes behind the batch shape. */
      readonly shape: readonly number[]
    }
  | { readonly _tag: 'RaggedSpec'; readonly type: RaggedType }
  | { readonly _tag: 'DataSpec'; readonly of: string }
  | { readonly _tag: 'MetaSpec'; readonly of: string }
)

/** Entries by name; a record is a node. */
export type Spec = { readonly [key: string]: LeafSpec | Spec }

/** The schema that a spec describes. */
export type Infer<P> = Flat<{ [K in keyof P]: P[K] extends LeafSpec<infer L> ? L : TensorDict<Infer<P[K]>> }>

/** What was promised and what is there. */
export interface SpecMismatch {
  readonly _tag: 'SpecMismatch'
  /** The transform or environment that noticed. */
  readonly where: string
  readonly problems: readonly string[]
}

/** Numbers of one dtype with `shape` behind the batch axes. */
export const tensorSpec = (
  dtype: 'float32' | 'int32' | 'bool',
  shape: readonly number[] = [],
): LeafSpec<tf.Tensor> => ({ _tag: 'TensorSpec', dtype, shape })

/** Rows of any length. */
export const raggedSpec = <T extends RaggedType>(type: T): LeafSpec<Ragged<T>> => ({ _tag: 'RaggedSpec', type })

/** One value of a named type for each batch element; the name is for readers, the type parameter for the compiler. */
export const dataSpec = <T>(of: string): LeafSpec<Data<T>> => ({ _tag: 'DataSpec', of })

/** One value of a named type for the node. */
export const metaSpec = <T>(of: string): LeafSpec<Meta<T>> => ({ _tag: 'MetaSpec', of })

const isLeafSpec = (spec: LeafSpec | Spec): spec is LeafSpec => typeof spec._tag === 'string'

const leafProblem = (spec: LeafSpec, entry: Entry, batchShape: readonly number[]): string | undefined => {
  if (spec._tag === 'TensorSpec') {
    if (!(entry instanceof tf.Tensor)) return `expected a ${spec.dtype} tensor`
    const expected = [...batchShape, ...spec.shape]
    return entry.dtype === spec.dtype && entry.shape.join() === expected.join()
      ? undefined
      : `expected ${spec.dtype} [${expected.join(', ')}], got ${entry.dtype} [${entry.shape.join(', ')}]`
  }
  const kind = entry instanceof tf.Tensor ? 'Tensor' : entry._tag
  if (`${kind}Spec` !== spec._tag) return `expected ${spec._tag.replace('Spec', '')}, got ${kind}`
  if (
    spec._tag === 'RaggedSpec' &&
    !(entry instanceof tf.Tensor) &&
    entry._tag === 'Ragged' &&
    entry.type !== spec.type
  ) {
    return `expected ragged ${spec.type}, got ${entry.type}`
  }
  return undefined
}

const problemsOf = (spec: Spec, td: TensorDict, path: string): readonly string[] =>
  Object.entries(spec).flatMap(([key, part]) => {
    const place = path === '' ? key : `${path}.${key}`
    const entry = td.entries.get(key)
    if (entry === undefined) return [`${place}: missing`]
    if (isLeafSpec(part)) {
      const problem = leafProblem(part, entry, td.batchShape)
      return problem === undefined ? [] : [`${place}: ${problem}`]
    }
    return isTensorDict(entry) ? problemsOf(part, entry, place) : [`${place}: expected a node`]
  })

/**
 * Gives a TensorDict the type of a spec, if it contains all that the spec names. More entries are allowed.
 *
 * Errors   `Left(SpecMismatch)` listing every missing entry and every wrong kind, dtype or shape.
 */
export const refine = <P extends Spec>(
  spec: P,
  td: TensorDict,
  where: string,
): E.Either<SpecMismatch, TensorDict<Infer<P>>> => {
  const problems = problemsOf(spec, td, '')
  // The cast is what the check has just shown; what is inside Data and Meta is taken on trust.
  return problems.length > 0 ? E.left({ _tag: 'SpecMismatch', where, problems }) : E.right(td as TensorDict<Infer<P>>)
}

const missing = (needed: Spec, offered: Spec, path: string): readonly string[] =>
  Object.entries(needed).flatMap(([key, part]) => {
    const place = path === '' ? key : `${path}.${key}`
    const other = Object.hasOwn(offered, key) ? offered[key] : undefined
    if (other === undefined) return [`${place}: missing`]
    if (isLeafSpec(part) !== isLeafSpec(other)) return [`${place}: a leaf and a node`]
    if (isLeafSpec(part) || isLeafSpec(other)) {
      return JSON.stringify(part) === JSON.stringify(other)
        ? []
        : [`${place}: ${JSON.stringify(other)} is not ${JSON.stringify(part)}`]
    }
    return missing(part, other, place)
  })

/** `offered`, if it has all that `needed` names. Errors: `Left(SpecMismatch)` listing what it lacks. */
export const requireSpec = (needed: Spec, offered: Spec, where: string): E.Either<SpecMismatch, Spec> => {
  const problems = missing(needed, offered, '')
  return problems.length > 0 ? E.left({ _tag: 'SpecMismatch', where, problems }) : E.right(offered)
}

/** Both specs; nodes on both sides are merged, otherwise `right` wins. */
export const mergeSpecs = (left: Spec, right: Spec): Spec => ({
  ...left,
  ...Object.fromEntries(
    Object.entries(right).map(([key, part]) => {
      const present = Object.hasOwn(left, key) ? left[key] : undefined
      const both = present !== undefined && !isLeafSpec(present) && !isLeafSpec(part)
      return [key, both ? mergeSpecs(present, part) : part]
    }),
  ),
})

/** Specs: what a TensorDict contains, as a value. Environments state them, transforms map them, tests check them. */
import * as tf from '@tensorflow/tfjs-core'
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

/** A node with more batch axes than the one that it is in. */
export interface NodeSpec<out P extends Spec = Spec> {
  readonly _tag: 'NodeSpec'
  /** Batch axes behind those of the node that it is in. */
  readonly axes: readonly number[]
  readonly entries: P
}

/** Entries by name; a record is a node with the batch shape of the node that it is in. */
export type Spec = { readonly [key: string]: LeafSpec | NodeSpec | Spec }

/** The schema that a spec describes. */
export type Infer<P> = Flat<{
  [K in keyof P]: P[K] extends LeafSpec<infer L>
    ? L
    : P[K] extends NodeSpec<infer Q>
      ? TensorDict<Infer<Q>>
      : TensorDict<Infer<P[K]>>
}>

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

/** A node with `axes` more batch axes than the node that it is in. */
export const nodeSpec = <P extends Spec>(axes: readonly number[], entries: P): NodeSpec<P> => ({
  _tag: 'NodeSpec',
  axes,
  entries,
})

/** Whether a part of a spec is a leaf. */
export const isLeafSpec = (spec: LeafSpec | NodeSpec | Spec): spec is LeafSpec =>
  typeof spec._tag === 'string' && spec._tag !== 'NodeSpec'

const isNodeSpec = (spec: LeafSpec | NodeSpec | Spec): spec is NodeSpec => spec._tag === 'NodeSpec'

/** A node of a spec, with no more axes where it is a record. */
export const nodeOfSpec = (spec: NodeSpec | Spec): NodeSpec => (isNodeSpec(spec) ? spec : nodeSpec([], spec))

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
    if (!isTensorDict(entry)) return [`${place}: expected a node`]
    const { axes, entries } = nodeOfSpec(part)
    const expected = [...td.batchShape, ...axes]
    // a record asks for no more than the batch axes of its parent, which every node has
    const wrong = axes.length > 0 && entry.batchShape.join() !== expected.join()
    return wrong
      ? [`${place}: expected a node of batch shape [${expected.join(', ')}], got [${entry.batchShape.join(', ')}]`]
      : problemsOf(entries, entry, place)
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
    const [wanted, had] = [nodeOfSpec(part), nodeOfSpec(other)]
    return wanted.axes.length > 0 && wanted.axes.join() !== had.axes.join()
      ? [`${place}: batch axes [${had.axes.join(', ')}] are not [${wanted.axes.join(', ')}]`]
      : missing(wanted.entries, had.entries, place)
  })

/** `offered`, if it has all that `needed` names. Errors: `Left(SpecMismatch)` listing what it lacks. */
export const requireSpec = (needed: Spec, offered: Spec, where: string): E.Either<SpecMismatch, Spec> => {
  const problems = missing(needed, offered, '')
  return problems.length > 0 ? E.left({ _tag: 'SpecMismatch', where, problems }) : E.right(offered)
}

/** Both specs; nodes with the same batch axes on both sides are merged, otherwise `right` wins. */
export const mergeSpecs = (left: Spec, right: Spec): Spec => ({
  ...left,
  ...Object.fromEntries(
    Object.entries(right).map(([key, part]) => {
      const present = Object.hasOwn(left, key) ? left[key] : undefined
      const both = present !== undefined && !isLeafSpec(present) && !isLeafSpec(part)
      if (!both) return [key, part]
      const [old, { axes, entries }] = [nodeOfSpec(present), nodeOfSpec(part)]
      if (old.axes.join() !== axes.join()) return [key, part]
      const merged = mergeSpecs(old.entries, entries)
      return [key, axes.length > 0 ? nodeSpec(axes, merged) : merged]
    }),
  ),
})

const specOfLeaf = (leaf: Leaf, batchAxes: number): LeafSpec => {
  if (leaf instanceof tf.Tensor) {
    return tensorSpec(
      leaf.dtype as RaggedType /* tensors of text are made by nothing here */,
      leaf.shape.slice(batchAxes),
    )
  }
  switch (leaf._tag) {
    case 'Ragged':
      return raggedSpec(leaf.type)
    case 'Data':
      return dataSpec('unknown')
    case 'Meta':
      return metaSpec('unknown')
  }
}

/**
 * The spec that says all there is to say of a TensorDict: keys, kinds, dtypes, feature shapes, the batch axes that nodes add. What data and
 * meta hold is not looked at: it is 'unknown'.
 *
 * @example
 * specOf(TensorDict({ reward: tf.zeros([2, 3]) }, [2])) // { reward: { _tag: 'TensorSpec', dtype: 'float32', shape: [3] } }
 */
export const specOf = (td: TensorDict): Spec =>
  Object.fromEntries(
    [...td.entries].map(([name, entry]): [string, Spec[string]] => {
      if (!isTensorDict(entry)) return [name, specOfLeaf(entry, td.batchShape.length)]
      const axes = entry.batchShape.slice(td.batchShape.length)
      return [name, axes.length > 0 ? nodeSpec(axes, specOf(entry)) : specOf(entry)]
    }),
  )

const equalParts = (a: Spec[string], b: Spec[string] | undefined): boolean => {
  if (b === undefined || isLeafSpec(a) !== isLeafSpec(b)) return false
  if (isLeafSpec(a) || isLeafSpec(b)) return JSON.stringify(a) === JSON.stringify(b)
  const [left, right] = [nodeOfSpec(a), nodeOfSpec(b)]
  return left.axes.join() === right.axes.join() && equalSpecs(left.entries, right.entries)
}

const equalSpecs = (a: Spec, b: Spec): boolean => {
  const [names, others] = [Object.keys(a), new Set(Object.keys(b))]
  return names.length === others.size && names.every((name) => others.has(name) && equalParts(a[name]!, b[name]))
}

/**
 * Whether two TensorDicts have one spec: the same keys in any order, kinds, dtypes, feature shapes and batch axes of nodes. Batch shapes
 * and values may differ.
 *
 * Source   law 67.
 */
export const sameSpec = (a: TensorDict, b: TensorDict): boolean => equalSpecs(specOf(a), specOf(b))

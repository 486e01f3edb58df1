/**
 * Specs: the contents of a TensorDict, as a value. Environments declare them, transforms map them,
 * tests check them.
 */
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import type { Data, Leaf, Meta, Ragged, RaggedType } from './tensorDict/leaf.js'
import { type Entry, type Flat, isTensorDict, type TensorDict } from './tensorDict/tensorDict.js'

declare const LEAF: unique symbol

/** The spec of one leaf. `L` exists only in the types. */
export type LeafSpec<L extends Leaf = Leaf> = { readonly [LEAF]?: L } & (
  | {
      readonly _tag: 'TensorSpec'
      readonly dtype: 'float32' | 'int32' | 'bool'
      /** The axes after the batch shape. */
      readonly shape: readonly number[]
    }
  | { readonly _tag: 'RaggedSpec'; readonly type: RaggedType }
  | { readonly _tag: 'DataSpec'; readonly of: string }
  | { readonly _tag: 'MetaSpec'; readonly of: string }
)

/** A node with more batch axes than its parent. */
export interface NodeSpec<out P extends Spec = Spec> {
  readonly _tag: 'NodeSpec'
  /** The batch axes after those of its parent. */
  readonly axes: readonly number[]
  readonly entries: P
}

/** Entries by name. A record is a node with the batch shape of its parent. */
export type Spec = { readonly [key: string]: LeafSpec | NodeSpec | Spec }

/** The schema that a spec describes. */
export type Infer<P> = Flat<{
  [K in keyof P]: P[K] extends LeafSpec<infer L>
    ? L
    : P[K] extends NodeSpec<infer Q>
      ? TensorDict<Infer<Q>>
      : TensorDict<Infer<P[K]>>
}>

/** The difference between a spec and a TensorDict. */
export interface SpecMismatch {
  readonly _tag: 'SpecMismatch'
  /** The transform or environment that found it. */
  readonly where: string
  readonly problems: readonly string[]
}

/** Creates the spec of a tensor of one dtype, with `shape` after the batch axes. */
export const tensorSpec = (
  dtype: 'float32' | 'int32' | 'bool',
  shape: readonly number[] = [],
): LeafSpec<tf.Tensor> => ({ _tag: 'TensorSpec', dtype, shape })

/** Creates the spec of ragged rows. */
export const raggedSpec = <T extends RaggedType>(type: T): LeafSpec<Ragged<T>> => ({ _tag: 'RaggedSpec', type })

/**
 * Creates the spec of one value of a named type for each batch element. The name is for readers,
 * the type parameter for the compiler.
 */
export const dataSpec = <T>(of: string): LeafSpec<Data<T>> => ({ _tag: 'DataSpec', of })

/** Creates the spec of one value of a named type for the node. */
export const metaSpec = <T>(of: string): LeafSpec<Meta<T>> => ({ _tag: 'MetaSpec', of })

/** Creates the spec of a node with `axes` more batch axes than its parent. */
export const nodeSpec = <P extends Spec>(axes: readonly number[], entries: P): NodeSpec<P> => ({
  _tag: 'NodeSpec',
  axes,
  entries,
})

/** Returns true if a part of a spec is a leaf. */
export const isLeafSpec = (spec: LeafSpec | NodeSpec | Spec): spec is LeafSpec =>
  typeof spec._tag === 'string' && spec._tag !== 'NodeSpec'

const isNodeSpec = (spec: LeafSpec | NodeSpec | Spec): spec is NodeSpec => spec._tag === 'NodeSpec'

/** Converts a record to a node without further axes. */
export const nodeOfSpec = (spec: NodeSpec | Spec): NodeSpec => (isNodeSpec(spec) ? spec : nodeSpec([], spec))

/**
 * Returns an entry of a spec as a leaf or a node, distinguished by `_tag`: a record becomes a node
 * without further axes. For functions that walk over a spec.
 *
 * @example
 * leafOrNode({ reward: tensorSpec('float32') }) // { _tag: 'NodeSpec', axes: [], entries: { reward: tensorSpec('float32') } }
 */
export const leafOrNode = (entry: LeafSpec | NodeSpec | Spec): LeafSpec | NodeSpec =>
  isLeafSpec(entry) ? entry : nodeOfSpec(entry)

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
    // a record requires only the batch axes of its parent, which every node has
    const wrong = axes.length > 0 && entry.batchShape.join() !== expected.join()
    return wrong
      ? [`${place}: expected a node of batch shape [${expected.join(', ')}], got [${entry.batchShape.join(', ')}]`]
      : problemsOf(entries, entry, place)
  })

/**
 * Narrows a TensorDict to the type of a spec, if it contains every entry of the spec. Other entries
 * are allowed.
 *
 * Errors   `Left(SpecMismatch)` listing every missing entry and every wrong kind, dtype or shape.
 */
export const refine = <P extends Spec>(
  spec: P,
  td: TensorDict,
  where: string,
): E.Either<SpecMismatch, TensorDict<Infer<P>>> => {
  const problems = problemsOf(spec, td, '')
  // The cast is what was checked above; the contents of Data and Meta are not checked.
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

/**
 * Returns `offered`, if it has every entry of `needed`. Errors: `Left(SpecMismatch)` listing the
 * missing ones.
 */
export const requireSpec = (needed: Spec, offered: Spec, where: string): E.Either<SpecMismatch, Spec> => {
  const problems = missing(needed, offered, '')
  return problems.length > 0 ? E.left({ _tag: 'SpecMismatch', where, problems }) : E.right(offered)
}

/**
 * Merges two specs. Nodes with the same batch axes on both sides are merged, otherwise `right`
 * overrides.
 */
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
 * Returns the full spec of a TensorDict: keys, kinds, dtypes, feature shapes, the batch axes that
 * nodes add. The contents of data and meta are not inspected: their type is 'unknown'.
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
 * Returns true if two TensorDicts have the same spec: the same keys in any order, kinds, dtypes,
 * feature shapes and batch axes of nodes. Batch shapes and values may differ.
 *
 * Source   law 67.
 */
export const sameSpec = (a: TensorDict, b: TensorDict): boolean => equalSpecs(specOf(a), specOf(b))

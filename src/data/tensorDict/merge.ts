/** Merging of TensorDicts by their keys. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import type { Leaf } from './leaf.js'
import { forEntries, mergeEntries, valueAt } from './spine.js'
import {
  type Entries,
  isTensorDict,
  misfits,
  nodeOver,
  type SchemaOf,
  TensorDict,
  TensorDictError,
  type TensorDictProblem,
} from './tensorDict.js'

/**
 * The schema of a merge under a key that is a leaf on one side and a node on the other, for which
 * `merge` throws.
 */
interface LeafAgainstNode {
  readonly 'a leaf on one side and a node on the other cannot be merged': never
}

/** The entries of a merge: nodes on both sides are merged, leaves are taken from the right. */
type Merged<S, X> = Omit<S, keyof X> & {
  readonly [K in keyof X]: K extends keyof S
    ? S[K] extends TensorDict<infer A>
      ? X[K] extends TensorDict<infer B>
        ? TensorDict<DeepMerge<A, B>>
        : X[K] extends Leaf
          ? LeafAgainstNode
          : X[K]
      : S[K] extends Leaf
        ? X[K] extends TensorDict
          ? LeafAgainstNode
          : X[K]
        : X[K]
    : X[K]
}

/** The schema of a merge. Messages and editors print it by this name. */
export type DeepMerge<S, X> = { readonly [K in keyof Merged<S, X>]: Merged<S, X>[K] }

const sameSizes = (a: readonly number[], b: readonly number[]): boolean =>
  a === b || (a.length === b.length && a.every((size, i) => size === b[i]))

/** Lists every reason why two nodes cannot be merged. */
const mergeProblems = (left: TensorDict, right: TensorDict, path: readonly string[]): readonly TensorDictProblem[] => {
  if (left === right) return []
  const problems: TensorDictProblem[] = []
  if (!sameSizes(left.batchShape, right.batchShape)) {
    const shapes = [left, right].map((node) => `[${node.batchShape.join(', ')}]`)
    problems.push({ path, reason: `batch shapes ${shapes[0]} and ${shapes[1]} differ` })
  }
  forEntries(right.spine, (entry, name) => {
    const present = valueAt(left.spine, name)
    if (present === undefined) return
    const isNode = isTensorDict(present)
    if (isNode && isTensorDict(entry)) problems.push(...mergeProblems(present, entry, [...path, name]))
    else if (isNode || isTensorDict(entry)) {
      const sides = isNode ? 'a node on the left and a leaf on the right' : 'a leaf on the left and a node on the right'
      problems.push({ path: [...path, name], reason: sides })
    }
  })
  return problems
}

const requireMergeable = (operation: string, left: TensorDict, right: TensorDict): void => {
  const problems = mergeProblems(left, right, [])
  if (problems.length === 0) return
  throw new TensorDictError(operation, problems[0]!.path, {
    problems,
    expected: left.batchShape,
    actual: right.batchShape,
    hint: 'to replace an entry, exclude it on the left first',
  })
}

type Resolve = (left: Leaf, right: Leaf, path: readonly string[]) => Leaf

/** Merges nodes that are known to be mergeable. */
const mergeNodes = (
  nodes: readonly [TensorDict, TensorDict],
  path: readonly string[],
  resolve: Resolve,
): TensorDict => {
  const [left, right] = nodes
  const spine = mergeEntries(left.spine, right.spine, (present, entry, name) => {
    const place = [...path, name]
    return isTensorDict(present) && isTensorDict(entry)
      ? mergeNodes([present, entry], place, resolve)
      : resolve(present as Leaf, entry as Leaf, place) // neither is a node
  })
  return spine === left.spine ? left : nodeOver(spine, left.batchShape)
}

/**
 * Merges two TensorDicts: of two leaves under one key, the right one is taken; two nodes are
 * merged. Entries of `left` come first.
 *
 * Errors   throws TensorDictError naming every place where the batch shapes of two nodes differ, or
 *          where one side has a leaf and the other a node: to replace one by the other, `exclude`
 *          it first.
 * Source   laws 20, 22: associative, `TensorDict({}, b)` is neutral, inputs are untouched.
 *          (TensorDict 0.14 lets a leaf replace a node, with which merging is not associative.)
 *
 * @example
 * get(merge(TensorDict({ a: meta(1), b: meta(1) }, []), TensorDict({ b: meta(2) }, [])), 'b').value // 2
 */
export const merge = <S, X>(left: TensorDict<S>, right: TensorDict<X>): TensorDict<DeepMerge<S, X>> => {
  requireMergeable('merge', left, right)
  return mergeNodes([left, right], [], (_, leaf) => leaf) as TensorDict<DeepMerge<S, X>> // by the definition of DeepMerge
}

/**
 * Merges two TensorDicts, resolving two leaves under one key with `onConflict`. It is called once
 * for each such path, with the left leaf, the right one and the path, and may keep either, join
 * them, or throw.
 *
 * Errors   throws TensorDictError as `merge` does, before any call; and naming every path where a
 *          result does not fit its node.
 * Effects  those of `onConflict`; tensors that it creates belong to the enclosing scope.
 * Source   law 21.
 *
 * @example
 * const counts = (n: number) => TensorDict({ seen: meta(n) }, [])
 * find(mergeWith(counts(1), counts(2), (left) => left), 'seen') // meta(1)
 */
export const mergeWith = <S, X>(
  left: TensorDict<S>,
  right: TensorDict<X>,
  onConflict: (left: Leaf, right: Leaf, path: readonly string[]) => Leaf,
): TensorDict => {
  requireMergeable('mergeWith', left, right)
  return scope(() => {
    const merged = mergeNodes([left, right], [], onConflict)
    const problems = misfits(merged)
    if (problems.length > 0) throw new TensorDictError('mergeWith', problems[0]!.path, { problems })
    return merged
  })
}

/**
 * Merges entries, given as a record, into a TensorDict.
 *
 * Errors   throws TensorDictError for entries that do not fit the batch shape, and as `merge` does.
 *
 * @example
 * leafPaths(assign(TensorDict({ a: meta(1) }, []), { n: { b: meta(2) } })) // [['a'], ['n', 'b']]
 */
export const assign = <S, const E extends Entries>(
  td: TensorDict<S>,
  entries: E,
): TensorDict<DeepMerge<S, SchemaOf<E>>> => merge(td, TensorDict(entries, td.batchShape))

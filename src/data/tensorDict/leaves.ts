/**
 * Functions over all leaves of a TensorDict: paths, map, zip, filter, fold. The order is that of
 * the keys, parents first.
 */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { isNone, type Option } from 'fp-ts/lib/Option.js'
import { OrderedMap } from 'immutable'
import type { Path } from './keys.js'
import type { Leaf } from './leaf.js'
import {
  type Entry,
  isTensorDict,
  misfit,
  nodeOf,
  requireShape,
  type TensorDict,
  TensorDictError,
  type TensorDictProblem,
} from './tensorDict.js'

/** Returns every leaf with its path, in order. */
export const leafEntries = (td: TensorDict): readonly (readonly [path: Path, leaf: Leaf])[] => {
  const walk = (node: TensorDict, above: readonly string[]): readonly (readonly [Path, Leaf])[] =>
    [...node.entries].flatMap(([name, entry]): readonly (readonly [Path, Leaf])[] => {
      const path = [...above, name] as unknown as Path // it has a name
      return isTensorDict(entry) ? walk(entry, path) : [[path, entry]]
    })
  return walk(td, [])
}

/**
 * Returns the paths of all leaves, in order.
 *
 * @example
 * leafPaths(TensorDict({ a: meta(1), n: { b: meta(2) } }, [])) // [['a'], ['n', 'b']]
 */
export const leafPaths = (td: TensorDict): readonly Path[] => leafEntries(td).map(([path]) => path)

/**
 * Returns the paths of all nodes below the root, parents before children.
 *
 * @example
 * nodePaths(TensorDict({ a: { b: { c: meta(1) } } }, [])) // [['a'], ['a', 'b']]
 */
export const nodePaths = (td: TensorDict): readonly Path[] =>
  [...td.entries].flatMap(([name, entry]): readonly Path[] =>
    isTensorDict(entry) ? [[name], ...nodePaths(entry).map((path): Path => [name, ...path])] : [],
  )

/** Folds a function over all leaves from the first to the last, with their paths. */
export const foldLeaves = <T>(td: TensorDict, initial: T, f: (accumulated: T, leaf: Leaf, path: Path) => T): T =>
  leafEntries(td).reduce((accumulated, [path, leaf]) => f(accumulated, leaf, path), initial)

/** Replaces a leaf; undefined removes it. */
type Step = (leaf: Leaf, path: Path) => Leaf | undefined

/**
 * Replaces every leaf, in nodes whose first `td.batchShape.length` axes become `batchShape`.
 * Unchanged nodes are kept. Throws TensorDictError with every path where a result does not fit.
 */
const walkLeaves = (operation: string, td: TensorDict, step: Step, batchShape: readonly number[]): TensorDict => {
  const problems: TensorDictProblem[] = []
  const extra = td.batchShape.length
  const walk = (node: TensorDict, above: readonly string[]): TensorDict => {
    const shape = [...batchShape, ...node.batchShape.slice(extra)]
    const entries = [...node.entries].flatMap(([name, entry]): [string, Entry][] => {
      const path = [...above, name] as unknown as Path // it has a name
      if (isTensorDict(entry)) return [[name, walk(entry, path)]]
      const leaf = step(entry, path)
      if (leaf === undefined) return []
      const reason = misfit(leaf, shape)
      if (reason !== undefined) problems.push({ path, reason })
      return [[name, leaf]]
    })
    const unchanged =
      shape.join() === node.batchShape.join() &&
      entries.length === node.entries.size &&
      entries.every(([name, entry]) => node.entries.get(name) === entry)
    return unchanged ? node : nodeOf(OrderedMap(entries), shape)
  }
  const result = walk(td, [])
  if (problems.length > 0) throw new TensorDictError(operation, problems[0]!.path, { problems, expected: batchShape })
  return result
}

/**
 * Applies `f` to every leaf, in order. If `f` returns every leaf unchanged, the result is the same
 * object.
 *
 * Shapes   leaves of the root begin with `batchShape`, by default that of `td`; a node that has
 *          more batch axes than the root keeps them.
 * Errors   throws TensorDictError, naming every path where a result does not fit.
 * Effects  runs `f` in a scope: of the tensors that it creates, those in the result belong to the
 *          enclosing scope, the others are freed.
 * Source   laws 26 to 29.
 *
 * @example
 * find(mapLeaves(TensorDict({ a: meta(1) }, []), (_, path) => meta(path)), 'a') // meta(['a'])
 */
export const mapLeaves = <S>(
  td: TensorDict<S>,
  f: (leaf: Leaf, path: Path) => Leaf,
  batchShape: readonly number[] = td.batchShape,
): TensorDict<S> => {
  requireShape('mapLeaves', batchShape)
  return scope(() => walkLeaves('mapLeaves', td, f, batchShape)) as TensorDict<S> // leaves are replaced, keys are kept
}

/**
 * Applies `f` to every leaf, and removes those for which it returns `none`. Nodes stay, even if
 * they become empty.
 *
 * Errors   throws TensorDictError, naming every path where a result does not fit.
 * Effects  as `mapLeaves`.
 * Source   law 31.
 *
 * @example
 * leafPaths(filterMapLeaves(TensorDict({ a: meta(1), b: data([2]) }, [1]), (leaf) => ('value' in leaf ? none : some(leaf)))) // [['b']]
 */
export const filterMapLeaves = (td: TensorDict, f: (leaf: Leaf, path: Path) => Option<Leaf>): TensorDict =>
  scope(() => {
    const step: Step = (leaf, path) => {
      const result = f(leaf, path)
      return isNone(result) ? undefined : result.value
    }
    return walkLeaves('filterMapLeaves', td, step, td.batchShape)
  })

/**
 * Returns the same nodes without leaves.
 *
 * @example
 * nodePaths(skeleton(TensorDict({ a: meta(1), n: { b: meta(2) } }, []))) // [['n']]
 */
export const skeleton = (td: TensorDict): TensorDict => walkLeaves('skeleton', td, () => undefined, td.batchShape)

/** Lists every difference in the nodes and the paths of leaves of two trees. */
const zipProblems = (left: TensorDict, right: TensorDict, path: readonly string[]): readonly TensorDictProblem[] => {
  const shapes = [left, right].map((node) => `[${node.batchShape.join(', ')}]`)
  const here = shapes[0] === shapes[1] ? [] : [{ path, reason: `batch shapes ${shapes[0]} and ${shapes[1]} differ` }]
  const names = [...new Set([...left.entries.keys(), ...right.entries.keys()])]
  const inside = names.flatMap((name): readonly TensorDictProblem[] => {
    const [a, b] = [left.entries.get(name), right.entries.get(name)]
    const place = [...path, name]
    if (a === undefined || b === undefined)
      return [{ path: place, reason: `missing on the ${a === undefined ? 'left' : 'right'}` }]
    if (isTensorDict(a) && isTensorDict(b)) return zipProblems(a, b, place)
    if (!isTensorDict(a) && !isTensorDict(b)) return []
    return [{ path: place, reason: 'a leaf on one side and a node on the other' }]
  })
  return [...here, ...inside]
}

/**
 * Applies `f` to the leaves of two TensorDicts with the same keys, path by path, in the order of
 * the left one.
 *
 * Errors   throws TensorDictError, naming every key that one of them lacks, every leaf against a
 *          node, every difference of batch shapes, and every path where a result does not fit.
 * Effects  as `mapLeaves`.
 * Source   law 30.
 *
 * @example
 * const one = (x: number) => TensorDict({ a: meta(x) }, [])
 * find(zipLeaves(one(1), one(2), (_, right) => right), 'a') // meta(2)
 */
export const zipLeaves = <S>(
  left: TensorDict<S>,
  right: TensorDict<NoInfer<S>>,
  f: (left: Leaf, right: Leaf, path: Path) => Leaf,
): TensorDict<S> => zipped('zipLeaves', [left, right], f)

/** Implements `zipLeaves` under the name of an operation. Internal to this folder. */
export const zipped = <S>(
  operation: string,
  [left, right]: readonly [TensorDict<S>, TensorDict],
  f: (left: Leaf, right: Leaf, path: Path) => Leaf,
): TensorDict<S> => {
  const problems = zipProblems(left, right, [])
  if (problems.length > 0) {
    throw new TensorDictError(operation, problems[0]!.path, {
      problems,
      expected: left.batchShape,
      actual: right.batchShape,
    })
  }
  const others = new Map(leafEntries(right).map(([path, leaf]) => [JSON.stringify(path), leaf]))
  const step: Step = (leaf, path) => f(leaf, others.get(JSON.stringify(path))!, path) // equal paths, as just checked
  return scope(() => walkLeaves(operation, left, step, left.batchShape)) as TensorDict<S> // leaves are replaced, keys are kept
}

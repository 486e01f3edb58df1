/**
 * Flattening of nested keys with a separator and back, and removal of nodes without leaves. Leaves
 * are moved, never copied.
 */
import { OrderedMap } from 'immutable'
import { kindOf, type Path } from './keys.js'
import { leafEntries, nodePaths } from './leaves.js'
import {
  type Entry,
  type Flat,
  find,
  isTensorDict,
  nodeOf,
  showPath,
  type TensorDict,
  TensorDictError,
  type TensorDictProblem,
} from './tensorDict.js'

type Both<U> = (U extends unknown ? (x: U) => void : never) extends (x: infer I) => void ? I : never

type FlatParts<S, Separator extends string, Prefix extends string> = {
  [N in keyof S & string]: S[N] extends TensorDict<infer T>
    ? FlatParts<T, Separator, `${Prefix}${N}${Separator}`>
    : { readonly [P in `${Prefix}${N}`]: S[N] }
}[keyof S & string]

/** The schema of `flattenKeys`. */
export type FlatSchema<S, Separator extends string> = unknown extends S
  ? unknown
  : Flat<Both<FlatParts<S, Separator, ''>>>

/** The schema of `unflattenKeys`. */
export type NestedSchema<S, Separator extends string> = unknown extends S
  ? unknown
  : Flat<{
      readonly [N in keyof S as N extends `${infer Head}${Separator}${string}`
        ? Head
        : N]: N extends `${infer Head}${Separator}${string}`
        ? TensorDict<
            NestedSchema<
              { readonly [M in keyof S as M extends `${Head}${Separator}${infer Rest}` ? Rest : never]: S[M] },
              Separator
            >
          >
        : S[N]
    }>

/** A schema without its empty nodes. */
export type WithoutEmptyNodes<S> = unknown extends S
  ? unknown
  : Flat<{
      readonly [N in keyof S as S[N] extends TensorDict<infer T>
        ? keyof WithoutEmptyNodes<T> extends never
          ? never
          : N
        : N]: S[N] extends TensorDict<infer T> ? TensorDict<WithoutEmptyNodes<T>> : S[N]
    }>

const requireSeparator = (operation: string, separator: string): void => {
  if (typeof separator === 'string' && separator.length > 0) return
  throw new TensorDictError(operation, [], {
    reason: separator === '' ? 'the separator is empty' : `the separator must be a string, got ${kindOf(separator)}`,
    expected: 'a string that is not empty',
    actual: separator,
  })
}

const fail = (operation: string, problems: readonly TensorDictProblem[], hint: string): void => {
  if (problems.length > 0) throw new TensorDictError(operation, problems[0]!.path, { problems, hint })
}

/**
 * Flattens all leaves into one node, each under the names of its path joined by a separator. Empty
 * nodes are dropped.
 *
 * Errors   throws TensorDictError, naming every path that could not be split again (a name contains
 *          the separator, or forms one with its neighbor), every two paths that would have the same
 *          name, and every node with leaves that has more batch axes than the root.
 * Cost     no tensor, no copy.
 * Source   laws 23, 24: `unflattenKeys` is the inverse. (TensorDict 0.14 accepts an empty
 *          separator, and loses batch shapes of nodes.)
 *
 * @example
 * leafPaths(flattenKeys(TensorDict({ next: { reward: meta(1) } }, []), '.')) // [['next.reward']]
 */
export const flattenKeys = <S, const Separator extends string>(
  td: TensorDict<S>,
  separator: Separator,
): TensorDict<FlatSchema<S, Separator>> => {
  requireSeparator('flattenKeys', separator)
  const leaves = leafEntries(td)
  const first = new Map<string, Path>()
  const problems = leaves.flatMap(([path]): readonly TensorDictProblem[] => {
    const name = path.join(separator)
    const other = first.get(name)
    if (other === undefined) first.set(name, path)
    const parts = name.split(separator)
    return [
      ...(other === undefined
        ? []
        : [{ path, reason: `would have the name ${JSON.stringify(name)} of ${showPath(other)}` }]),
      ...(parts.length === path.length && parts.every((part, i) => part === path[i])
        ? []
        : [
            {
              path,
              reason: `could not be distinguished from ${showPath(parts)} by the separator ${JSON.stringify(separator)}`,
            },
          ]),
    ]
  })
  const deeper = nodePaths(td).flatMap((path): readonly TensorDictProblem[] => {
    const node = find(td, path) as TensorDict // a path of a node
    return node.batchShape.length === td.batchShape.length || leafEntries(node).length === 0
      ? []
      : [{ path, reason: `batch shape [${node.batchShape.join(', ')}] of a node would be lost` }]
  })
  fail('flattenKeys', [...problems, ...deeper], 'rename colliding entries, or select the entries to flatten')
  const entries = OrderedMap(leaves.map(([path, leaf]): [string, Entry] => [path.join(separator), leaf]))
  return nodeOf(entries, td.batchShape)
}

interface Placed {
  readonly entry: Entry
  readonly from: string
}

type Growing = Map<string, Growing | Placed>

const isGrowing = (part: Growing | Placed | undefined): part is Growing => part instanceof Map

/** Puts an entry at a path into a tree of maps. Returns the entry that is in the way, if any. */
const place = (tree: Growing, parts: readonly string[], item: Placed): Growing | Placed | undefined => {
  const [name, ...rest] = parts as Path // split gives at least one part
  const present = tree.get(name)
  if (rest.length === 0) {
    if (present === undefined) tree.set(name, item)
    return present
  }
  if (present !== undefined && !isGrowing(present)) return present
  const node: Growing = present ?? new Map()
  tree.set(name, node)
  return place(node, rest, item)
}

const grown = (tree: Growing, batchShape: readonly number[]): TensorDict =>
  nodeOf(
    OrderedMap(
      [...tree].map(([name, part]): [string, Entry] => [name, isGrowing(part) ? grown(part, batchShape) : part.entry]),
    ),
    batchShape,
  )

/**
 * Splits names of the root at a separator, each part a key of a node. Nodes are created as needed,
 * with the root's batch shape. Two consecutive separators have the name `''` between them. The
 * contents of existing nodes are not changed.
 *
 * Errors   throws TensorDictError, naming every entry whose place is taken by the leaf or the node
 *          of another name.
 * Cost     no tensor, no copy.
 * Source   law 25: `flattenKeys` is the inverse on a TensorDict without nodes.
 *
 * @example
 * leafPaths(unflattenKeys(TensorDict({ 'next.reward': meta(1) }, []), '.')) // [['next', 'reward']]
 */
export const unflattenKeys = <S, const Separator extends string>(
  td: TensorDict<S>,
  separator: Separator,
): TensorDict<NestedSchema<S, Separator>> => {
  requireSeparator('unflattenKeys', separator)
  const tree: Growing = new Map()
  const problems = [...td.entries].flatMap(([name, entry]): readonly TensorDictProblem[] => {
    const parts = name.split(separator)
    const taken = place(tree, parts, { entry, from: name })
    if (taken === undefined) return []
    const holder = isGrowing(taken) ? `the node ${showPath(parts)}` : JSON.stringify(taken.from)
    return [{ path: [name], reason: `its place is taken by ${holder}` }]
  })
  fail('unflattenKeys', problems, 'rename one of them first')
  const unchanged = [...td.entries.keys()].every((name) => !name.includes(separator))
  return unchanged ? (td as never) : (grown(tree, td.batchShape) as never) // by the definition of NestedSchema
}

/**
 * Removes nodes that hold no leaf at any depth. Without such nodes, returns the same object.
 *
 * @example
 * leafPaths(dropEmptyNodes(TensorDict({ a: { b: {} }, n: { c: meta(1) } }, []))) // [['n', 'c']]
 */
export const dropEmptyNodes = <S>(td: TensorDict<S>): TensorDict<WithoutEmptyNodes<S>> =>
  pruned(td) as TensorDict<WithoutEmptyNodes<S>> // by the definition of WithoutEmptyNodes

const pruned = (td: TensorDict): TensorDict => {
  const entries = [...td.entries].reduce((kept, [name, entry]) => {
    if (!isTensorDict(entry)) return kept
    const inner = pruned(entry)
    return inner.entries.isEmpty() ? kept.delete(name) : kept.set(name, inner)
  }, td.entries)
  return entries === td.entries ? td : nodeOf(entries, td.batchShape)
}

/**
 * Edits of the keys of a TensorDict. They copy spines, never leaves: untouched entries keep their
 * identity.
 */
import { OrderedMap } from 'immutable'
import {
  type At,
  type ExcludeAt,
  type ExistingKey,
  type ExistingKeys,
  type KeyOf,
  type KeyTree,
  keyTree,
  type Path,
  type PlaceKey,
  pathOf,
  type RenameAt,
  type SelectAt,
  type SetAt,
  startsWith,
  type TensorDictKey,
} from './keys.js'
import { filterEntries, spineFrom, valueAt, withValue } from './spine.js'
import {
  absence,
  type Entry,
  find,
  isTensorDict,
  misfit,
  nodeOf,
  nodeOver,
  showPath,
  type TensorDict,
  TensorDictError,
  type TensorDictProblem,
} from './tensorDict.js'

interface Change {
  readonly operation: string
  readonly path: Path
  readonly to: (present: Entry | undefined) => Entry
}

const NO_ENTRIES = spineFrom<Entry>([], [])

const leafOnTheWay = ({ operation, path }: Change, depth: number, present: Entry): TensorDictError => {
  const leaf = showPath(path.slice(0, depth + 1))
  return new TensorDictError(operation, path, {
    reason: `${leaf} is a leaf, not a node`,
    expected: 'a node',
    actual: present,
    hint: `remove ${leaf} first, to put a node in its place`,
  })
}

/**
 * Changes the entry at a path, from its name `depth` on. The nodes along the path are new; missing
 * ones are created.
 */
const change = (td: TensorDict, what: Change, depth = 0): TensorDict => {
  const { operation, path, to } = what
  const name = path[depth]!
  const present = valueAt(td.spine, name)
  if (depth < path.length - 1) {
    if (present !== undefined && !isTensorDict(present)) throw leafOnTheWay(what, depth, present)
    const next = change(present ?? nodeOver(NO_ENTRIES, td.batchShape), what, depth + 1)
    return next === present ? td : nodeOver(withValue(td.spine, name, next), td.batchShape)
  }
  const next = to(present)
  if (next === present && present !== undefined) return td
  const problem = misfit(next, td.batchShape)
  if (problem === undefined) return nodeOver(withValue(td.spine, name, next), td.batchShape)
  throw new TensorDictError(operation, path, { reason: problem, expected: td.batchShape, actual: next })
}

/**
 * Sets an entry under a key. Missing nodes along the path are created, with the batch shape of
 * their parent. A new entry comes last. Setting an entry to its current value returns the same
 * object.
 *
 * Errors   throws TensorDictError if the entry does not fit the batch shape, or if a name along the
 *          path is a leaf.
 * Cost     one new node for each name of the key; everything else is shared.
 * Source   laws 6 to 11, 70, 71.
 *
 * @example
 * has(set(TensorDict({}, []), ['next', 'reward'], meta(1)), 'next', 'reward') // true
 */
export const set = <S, const K extends TensorDictKey, const E extends Entry>(
  td: TensorDict<S>,
  key: PlaceKey<S, K>,
  entry: E,
): TensorDict<SetAt<S, K, E>> => {
  const path = pathOf('set', key)
  return change(td, { operation: 'set', path, to: () => entry }) as TensorDict<SetAt<S, K, E>> // it was just set
}

/**
 * Replaces one entry by a function of it, in its place. A function that returns its argument
 * changes nothing.
 *
 * Errors   throws TensorDictError if the entry does not exist, or if the new one does not fit the
 *          batch shape.
 * Source   law 14.
 *
 * @example
 * get(modify(TensorDict({ step: meta(1) }, []), 'step', ({ value }) => meta(value + 1)), 'step').value // 2
 */
export const modify = <S, const K extends KeyOf<S>, const E extends Entry>(
  td: TensorDict<S>,
  key: ExistingKey<S, K>,
  f: (entry: At<S, K>) => E,
): TensorDict<SetAt<S, K, E>> => {
  const path = pathOf('modify', key)
  const problem = absence(td, path)
  if (problem !== undefined) throw new TensorDictError('modify', path, problem)
  const to = (entry: Entry | undefined): Entry => f(entry as At<S, K>) // it is there, as just checked
  return change(td, { operation: 'modify', path, to }) as TensorDict<SetAt<S, K, E>> // E is the result of `f`
}

/** Returns a node over a changed spine, or the node itself if nothing has changed. */
const over = (td: TensorDict, spine: TensorDict['spine']): TensorDict =>
  spine === td.spine ? td : nodeOver(spine, td.batchShape)

/** Replaces the nodes of a spine that a tree names in part by the result of `f`. */
const inside = (
  spine: TensorDict['spine'],
  tree: Exclude<KeyTree, 'all'>,
  f: (node: TensorDict, part: KeyTree) => TensorDict,
): TensorDict['spine'] =>
  [...tree].reduce((changed, [name, part]) => {
    const entry = part === 'all' ? undefined : valueAt(changed, name)
    return entry !== undefined && isTensorDict(entry) ? withValue(changed, name, f(entry, part)) : changed
  }, spine)

const without = (td: TensorDict, tree: KeyTree): TensorDict => {
  if (tree === 'all') return td
  const spine = filterEntries(td.spine, (_, name) => tree.get(name) !== 'all')
  return over(td, inside(spine, tree, without))
}

/**
 * Removes the entries under some keys. Nodes that become empty stay. Unknown keys are ignored.
 *
 * Source   laws 16, 17: the same object if nothing is removed.
 *
 * @example
 * has(exclude(TensorDict({ a: meta(1), b: meta(2) }, []), 'a'), 'a') // false
 */
export const exclude = <S, const K extends readonly TensorDictKey[]>(
  td: TensorDict<S>,
  ...keys: K
): TensorDict<ExcludeAt<S, K[number]>> => {
  const tree = keyTree(keys.map((key) => pathOf('exclude', key)))
  return without(td, tree) as TensorDict<ExcludeAt<S, K[number]>> // the named entries are gone
}

/**
 * Removes the entry under a key. An unknown key returns the same object. A node that becomes empty
 * stays.
 *
 * Source   law 13.
 *
 * @example
 * has(remove(TensorDict({ next: { done: meta(1) } }, []), ['next', 'done']), 'next') // true
 */
export const remove = <S, const K extends TensorDictKey>(td: TensorDict<S>, key: K): TensorDict<ExcludeAt<S, K>> =>
  without(td, keyTree([pathOf('remove', key)])) as TensorDict<ExcludeAt<S, K>> // the named entry is gone

const only = (td: TensorDict, tree: KeyTree): TensorDict => {
  if (tree === 'all') return td
  const spine = filterEntries(td.spine, (_, name) => tree.has(name))
  return over(td, inside(spine, tree, only))
}

const requireAll = (operation: string, td: TensorDict, paths: readonly Path[]): void => {
  const problems = paths.flatMap((path): readonly TensorDictProblem[] => {
    const reason = absence(td, path)
    return reason === undefined ? [] : [{ path, reason }]
  })
  if (problems.length > 0) throw new TensorDictError(operation, problems[0]!.path, { problems })
}

/**
 * Keeps only the entries under some keys, in their order in `td`, whatever the order of the keys. A
 * key covers everything inside its node.
 *
 * Errors   throws TensorDictError naming every unknown key.
 * Source   laws 15, 16: the same object if everything is kept. (TensorDict 0.14 keeps the order of
 *          the keys, and drops the rest of a node if a key inside of it is named as well.)
 *
 * @example
 * leafPaths(select(TensorDict({ a: meta(1), n: { b: meta(2), c: meta(3) } }, []), ['n', 'c'], 'a')) // [['a'], ['n', 'c']]
 */
export const select = <S, const K extends readonly TensorDictKey[]>(
  td: TensorDict<S>,
  ...keys: ExistingKeys<S, K>
): TensorDict<SelectAt<S, K[number]>> => {
  const paths = (keys as readonly TensorDictKey[]).map((key) => pathOf('select', key)) // ExistingKeys takes K itself, or nothing
  requireAll('select', td, paths)
  return only(td, keyTree(paths)) as TensorDict<SelectAt<S, K[number]>> // the named entries
}

/** The parts of `partitionKeys`: one for each list of keys, and the rest. */
export type Partition<S, K extends readonly (readonly TensorDictKey[])[]> = readonly [
  ...{ readonly [I in keyof K]: TensorDict<SelectAt<S, K[I][number]>> },
  TensorDict<ExcludeAt<S, K[number][number]>>,
]

/** Lists the keys of different lists that overlap. */
const overlaps = (lists: readonly (readonly Path[])[]): readonly TensorDictProblem[] =>
  lists.flatMap((paths, i) =>
    lists
      .slice(i + 1)
      .flatMap((others, j) =>
        paths.flatMap((path) =>
          others
            .filter((other) => startsWith(path, other) || startsWith(other, path))
            .map((other) => ({ path, reason: `in list ${i}, overlaps with ${showPath(other)} in list ${i + 1 + j}` })),
        ),
      ),
  )

/**
 * Splits a TensorDict by keys: `select` of each list, and the rest.
 *
 * Errors   throws TensorDictError naming every unknown key, and every key that two lists share.
 * Source   law 18: merging all parts gives an equal TensorDict.
 *
 * @example
 * partitionKeys(TensorDict({ a: meta(1), b: meta(2), c: meta(3) }, []), ['c'], ['a']).map((part) => leafPaths(part)) // [[['c']], [['a']], [['b']]]
 */
export const partitionKeys = <S, const K extends readonly (readonly KeyOf<S>[])[]>(
  td: TensorDict<S>,
  ...lists: K
): Partition<S, K> => {
  const paths = lists.map((keys) => keys.map((key) => pathOf('partitionKeys', key)))
  requireAll('partitionKeys', td, paths.flat())
  const problems = overlaps(paths)
  if (problems.length > 0) throw new TensorDictError('partitionKeys', problems[0]!.path, { problems })
  const parts = [...paths.map((list) => only(td, keyTree(list))), without(td, keyTree(paths.flat()))]
  return parts as unknown as Partition<S, K> // one part for each list, and the rest
}

const renamedInPlace = (td: TensorDict, from: string, to: string): TensorDict =>
  nodeOf(
    OrderedMap(td.entries.entrySeq().map(([key, entry]): [string, Entry] => [key === from ? to : key, entry])),
    td.batchShape,
  )

const renameProblem = (td: TensorDict, source: Path, target: Path): string | undefined => {
  if (absence(td, source) !== undefined) return absence(td, source)
  if (target.length > source.length && startsWith(target, source))
    return `cannot move into itself, to ${showPath(target)}`
  return find(td, target) === undefined ? undefined : `the name ${showPath(target)} is taken`
}

/**
 * Moves one entry to another key: in its old place if only its last name changes, otherwise last at
 * its destination. Missing nodes along the path are created; a node that becomes empty stays.
 * Renaming an entry to its own key changes nothing.
 *
 * Errors   throws TensorDictError if the entry does not exist, if the new key is taken, leads
 *          through a leaf or into the entry itself, or if the entry does not fit the batch shape at
 *          its destination.
 * Source   law 19. (TensorDict 0.14 overwrites an existing entry, and loses a node that is renamed
 *          into itself.)
 *
 * @example
 * leafPaths(rename(TensorDict({ a: meta(1), b: meta(2) }, []), 'a', ['n', 'c'])) // [['b'], ['n', 'c']]
 */
export const rename = <S, const A extends KeyOf<S>, const B extends TensorDictKey>(
  td: TensorDict<S>,
  from: ExistingKey<S, A>,
  to: PlaceKey<ExcludeAt<S, A>, B>,
): TensorDict<RenameAt<S, A, B>> => {
  const source = pathOf('rename', from)
  const target = pathOf('rename', to)
  if (showPath(source) === showPath(target) && find(td, source) !== undefined) return td as never // the same schema
  const problem = renameProblem(td, source, target)
  if (problem !== undefined) throw new TensorDictError('rename', source, problem)
  const entry = find(td, source)! // it is there, as just checked
  const parent = source.slice(0, -1)
  const stays = parent.length === target.length - 1 && startsWith(target, parent)
  const operation = 'rename'
  const renamed = !stays
    ? change(without(td, keyTree([source])), { operation, path: target, to: () => entry })
    : parent.length === 0
      ? renamedInPlace(td, source[0], target[0])
      : change(td, {
          operation,
          path: parent as unknown as Path, // it is not empty
          to: (node) => renamedInPlace(node as TensorDict, source.at(-1)!, target.at(-1)!), // it has the entry
        })
  return renamed as TensorDict<RenameAt<S, A, B>> // one entry was moved
}

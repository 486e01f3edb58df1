/** The keys that a module reads and writes: paths into a TensorDict, as values and as types. */
import { set } from '../tensorDict/edit.js'
import type { Leaf } from '../tensorDict/leaf.js'
import {
  find,
  isTensorDict,
  type SchemaOf,
  TensorDict,
  TensorDictError,
  type TensorDictProblem,
} from '../tensorDict/tensorDict.js'

/** One key for each level, from the root. */
export type ModPath = readonly [string, ...string[]]

/** A path, or the name of an entry at the root. */
export type ModKey = string | ModPath

/** Every key as a path. */
export type PathsOfKeys<K> = K extends string ? readonly [K] : K

/** The paths of all leaves of a schema; a node whose schema is unknown counts as one. */
export type LeafPaths<S> = {
  readonly [K in keyof S & string]: S[K] extends TensorDict<infer C>
    ? unknown extends C
      ? readonly [K]
      : readonly [K, ...LeafPaths<C>]
    : readonly [K]
}[keyof S & string]

type NamesOf<P> = P extends readonly [infer K] ? P | K : P

/** How the leaves of a schema may be named. */
export type LeafKeys<S> = NamesOf<LeafPaths<S>>

/** A path as one word, for messages of the compiler. */
type Dotted<P> = P extends readonly [infer K extends string]
  ? K
  : P extends readonly [infer K extends string, ...infer R]
    ? `${K}.${Dotted<R>}`
    : never

/** Nothing to ask for if no path is left over; else a property that no value has, whose name says what is wrong. */
export type NoneLeft<Paths, Problem extends string> = [Paths] extends [never]
  ? unknown
  : { readonly [K in Problem]: Dotted<Paths> }

/** One leaf of a schema with its path. */
interface Placed {
  readonly path: readonly string[]
  readonly entry: unknown
}

/** Every leaf of a schema with its path. */
export type PlacedLeaves<S> = {
  readonly [K in keyof S & string]: S[K] extends TensorDict<infer C>
    ? unknown extends C
      ? { readonly path: readonly [K]; readonly entry: S[K] }
      : Below<K, PlacedLeaves<C>>
    : { readonly path: readonly [K]; readonly entry: S[K] }
}[keyof S & string]

type Below<K extends string, E> = E extends Placed
  ? { readonly path: readonly [K, ...E['path']]; readonly entry: E['entry'] }
  : never

type Heads<E> = E extends { readonly path: readonly [infer K extends string, ...(readonly string[])] } ? K : never

type Tails<K, E> = E extends { readonly path: readonly [K, ...infer R extends ModPath]; readonly entry: infer T }
  ? { readonly path: R; readonly entry: T }
  : never

type Ends<K, E> = E extends { readonly path: readonly [K]; readonly entry: infer T } ? T : never

/** The schema with the given leaves. */
export type SchemaWith<E> = {
  readonly [K in Heads<E>]: [Tails<K, E>] extends [never] ? Ends<K, E> : TensorDict<SchemaWith<Tails<K, E>>>
}

/** The schema of what a module returns: a record of entries, or a TensorDict. */
export type OutSchema<O> = O extends TensorDict<infer S> ? S : SchemaOf<O>

/** A key as a path. Errors: throws TensorDictError for an empty path. */
export const pathOf = (key: ModKey, operation: string): ModPath => {
  if (typeof key === 'string') return [key]
  if (key.length === 0) throw new TensorDictError(operation, [], 'a path has at least one key')
  return key
}

/** One string for each path: equal strings, equal paths. */
export const pathId = (path: readonly string[]): string => JSON.stringify(path)

/** Whether `path` is `prefix` or below it. */
export const isAtOrBelow = (path: readonly string[], prefix: readonly string[]): boolean =>
  prefix.length <= path.length && prefix.every((key, i) => key === path[i])

/** The paths, each once, in order of first occurrence. */
export const distinctPaths = (paths: readonly ModPath[]): readonly ModPath[] => [
  ...new Map(paths.map((path) => [pathId(path), path])).values(),
]

/** A path for people. */
export const formatPath = (path: readonly string[]): string => path.map((key) => JSON.stringify(key)).join(' > ')

/** The node or leaf at a path that is known to be there. */
export const entryAt = (td: TensorDict, path: ModPath): Leaf | TensorDict => {
  const entry = find(td, path)
  if (entry === undefined) throw new TensorDictError('entryAt', path, 'no such entry')
  return entry
}

/** `td` with one entry at a path, or what stands in the way of it: a leaf above it, a node in its place, a wrong shape. */
export const withEntry = (td: TensorDict, path: ModPath, entry: Leaf | TensorDict): TensorDict | TensorDictProblem => {
  const [key, ...rest] = path
  const present = td.entries.get(key)
  const [next, ...below] = rest
  if (next === undefined) {
    if (isTensorDict(present) && !isTensorDict(entry)) return { path, reason: 'there is a node in its place' }
    return setOrProblem(td, path, entry)
  }
  if (present !== undefined && !isTensorDict(present)) {
    return { path, reason: `there is a leaf at ${JSON.stringify(key)}, and nothing goes below a leaf` }
  }
  const child = withEntry(present ?? TensorDict({}, td.batchShape), [next, ...below], entry)
  return isTensorDict(child) ? set(td, key, child) : { path: [key, ...child.path], reason: child.reason }
}

const setOrProblem = (td: TensorDict, path: ModPath, entry: Leaf | TensorDict): TensorDict | TensorDictProblem => {
  try {
    return set(td, path[0], entry)
  } catch (error) {
    if (!(error instanceof TensorDictError)) throw error
    return { path, reason: error.details.reason ?? error.message }
  }
}

/** `td` with another leaf in the place of one. */
export const replaceEntry = (td: TensorDict, path: ModPath, leaf: Leaf): TensorDict => {
  const result = withEntry(td, path, leaf)
  if (!isTensorDict(result)) throw new TensorDictError('replaceEntry', result.path, result.reason)
  return result
}

/** The node with nothing but what is at `paths`. Nodes on the way keep their batch shapes. */
export const restrict = (td: TensorDict, paths: readonly (readonly string[])[]): TensorDict => {
  const kept = td.entries.toArray().flatMap(([key, entry]): readonly (readonly [string, Leaf | TensorDict])[] => {
    const here = paths.filter((path) => path[0] === key)
    if (here.length === 0) return []
    if (!isTensorDict(entry) || here.some((path) => path.length === 1)) return [[key, entry]]
    return [
      [
        key,
        restrict(
          entry,
          here.map((path) => path.slice(1)),
        ),
      ],
    ]
  })
  return kept.reduce<TensorDict>((node, [key, entry]) => set(node, key, entry), TensorDict({}, td.batchShape))
}

/** Modules under other keys. */

import type { TensorDict } from '../tensorDict/tensorDict.js'
import { TensorDictError } from '../tensorDict/tensorDict.js'
import {
  distinctPaths,
  isAtOrBelow,
  type ModKey,
  type ModPath,
  type PathsOfKeys,
  type PlacedLeaves,
  pathId,
  pathOf,
  type SchemaWith,
} from './keys.js'
import { type AnyMod, type Mod, type ModMode, type Move, modOf } from './mod.js'

/** How an entry, leaf or node, of a schema may be named. */
type EntryPaths<S> = {
  readonly [K in keyof S & string]:
    | readonly [K]
    | (S[K] extends TensorDict<infer C> ? (unknown extends C ? never : readonly [K, ...EntryPaths<C>]) : never)
}[keyof S & string]

type EntryKeys<S> = EntryPaths<S> | (keyof S & string)

/** One entry of a module, and where it is to be instead. */
export interface KeyMove<Inner> {
  readonly inner: Inner
  readonly outer: ModKey
}

type Hit<E, M> = M extends { readonly inner: infer A; readonly outer: infer B }
  ? E extends {
      readonly path: readonly [...Extract<PathsOfKeys<A>, readonly string[]>, ...infer R]
      readonly entry: infer T
    }
    ? { readonly path: readonly [...Extract<PathsOfKeys<B>, readonly string[]>, ...R]; readonly entry: T }
    : never
  : never

type MovedLeaf<E, M> = E extends unknown ? ([Hit<E, M>] extends [never] ? E : Hit<E, M>) : never

/** A schema with some entries elsewhere; as it is if the compiler does not know its keys. */
type Moved<S, Moves extends readonly unknown[]> = string extends keyof S
  ? S
  : SchemaWith<MovedLeaf<PlacedLeaves<S>, Moves[number]>>

/** Where each of `paths` is outside. Errors: throws TensorDictError for a move of what is not there, or moved twice. */
const movesOf = (paths: readonly ModPath[], moves: readonly KeyMove<ModKey>[], operation: string): readonly Move[] => {
  const all = moves.map(({ inner, outer }) => ({ inner: pathOf(inner, operation), outer: pathOf(outer, operation) }))
  const problems = all.flatMap(({ inner }, i) => [
    ...(paths.some((path) => isAtOrBelow(path, inner))
      ? []
      : [{ path: inner, reason: 'the module has no such entry' }]),
    ...(all.slice(0, i).some((other) => isAtOrBelow(inner, other.inner) || isAtOrBelow(other.inner, inner))
      ? [{ path: inner, reason: 'moved twice' }]
      : []),
  ])
  if (problems.length > 0) throw new TensorDictError(operation, [], { problems })
  return paths.map((path) => {
    const move = all.find(({ inner }) => isAtOrBelow(path, inner))
    if (move === undefined) return { inner: path, outer: path }
    const [head, ...rest] = move.outer
    return { inner: path, outer: [head, ...rest, ...path.slice(move.inner.length)] }
  })
}

const still = (paths: readonly ModPath[]): readonly Move[] => paths.map((path) => ({ inner: path, outer: path }))

/** A module under other keys, given where every one of them is. For `subgraph`. */
export const remapped = (mod: AnyMod, inPaths: readonly Move[], outPaths: readonly Move[]): AnyMod => {
  const outers = outPaths.map(({ outer }) => outer)
  const problems = outers.flatMap((path, i) =>
    outers.slice(0, i).some((other) => isAtOrBelow(path, other) || isAtOrBelow(other, path))
      ? [{ path, reason: 'two outputs would be here, or one inside of the other' }]
      : [],
  )
  if (problems.length > 0) throw new TensorDictError(`remapOut of ${mod.name}`, [], { problems })
  const outerOf = new Map(inPaths.map(({ inner, outer }) => [pathId(inner), outer]))
  return modOf({
    name: mod.name,
    inKeys: distinctPaths(inPaths.map(({ outer }) => outer)),
    outKeys: outers,
    streams: mod.streams.map(({ path, name }) => ({ name, path: outerOf.get(pathId(path)) ?? path })),
    kind: { _tag: 'Remap', mod, inPaths, outPaths },
  })
}

/**
 * The module with some of its inputs read elsewhere: `inner` is what the module calls an entry, `outer` where the entry is. Moving a
 * node moves all that is in it.
 *
 * Types    `inner` is an entry that the module reads; the result reads the entries at `outer`.
 * Errors   throws TensorDictError, listing all, for an entry that the module does not read or that is moved twice.
 *
 * @example
 * const negate = mod({ name: 'negate', inKeys: ['x'], outKeys: ['y'], run: (td) => right({ y: tf.neg(get(td, 'x')) }) })
 * remapIn(negate, [{ inner: 'x', outer: ['next', 'reward'] }]).inKeys // [['next', 'reward']]
 */
export const remapIn = <In, Out, Mode extends ModMode, const M extends readonly KeyMove<EntryKeys<In>>[]>(
  mod: Mod<In, Out, Mode>,
  moves: M,
): Mod<Moved<In, M>, Out, Mode> =>
  // Cast: by the definition of Moved.
  remapped(
    mod,
    movesOf(mod.inKeys, moves as readonly KeyMove<ModKey>[], `remapIn of ${mod.name}`),
    still(mod.outKeys),
  ) as never

/**
 * The module with some of its outputs written elsewhere: see `remapIn`.
 *
 * Errors   throws TensorDictError, listing all, for an entry that the module does not write or that is moved twice, and if two outputs
 *          would be in one place.
 *
 * @example
 * const negate = mod({ name: 'negate', inKeys: ['x'], outKeys: ['y'], run: (td) => right({ y: tf.neg(get(td, 'x')) }) })
 * remapOut(negate, [{ inner: 'y', outer: ['next', 'cost'] }]).outKeys // [['next', 'cost']]
 */
export const remapOut = <In, Out, Mode extends ModMode, const M extends readonly KeyMove<EntryKeys<Out>>[]>(
  mod: Mod<In, Out, Mode>,
  moves: M,
): Mod<In, Moved<Out, M>, Mode> =>
  // Cast: by the definition of Moved.
  remapped(
    mod,
    still(mod.inKeys),
    movesOf(mod.outKeys, moves as readonly KeyMove<ModKey>[], `remapOut of ${mod.name}`),
  ) as never

/** Modules for a part of their outputs. */
import { TensorDictError } from '../tensorDict/tensorDict.js'
import { branchMod } from './branch.js'
import { parallelOf, seqOf } from './combine.js'
import {
  isAtOrBelow,
  type LeafKeys,
  type ModKey,
  type ModPath,
  type PathsOfKeys,
  type PlacedLeaves,
  pathId,
  pathOf,
  type SchemaWith,
} from './keys.js'
import { type AnyMod, type Mod, type ModMode, modOf } from './mod.js'
import { remapped } from './remap.js'

/** The leaves of a schema at some keys; all of them if the compiler does not know its keys. */
type Picked<S, K> = string extends keyof S ? S : SchemaWith<Extract<PlacedLeaves<S>, { readonly path: PathsOfKeys<K> }>>

const wantedPaths = (mod: AnyMod, keys: readonly ModKey[], operation: string): readonly ModPath[] => {
  const wanted = keys.map((key) => pathOf(key, operation))
  const problems = wanted
    .filter((path) => !mod.outKeys.some((out) => isAtOrBelow(out, path)))
    .map((path) => ({ path, reason: 'the module does not write it' }))
  if (problems.length > 0) throw new TensorDictError(operation, [], { problems })
  return mod.outKeys.filter((out) => wanted.some((path) => isAtOrBelow(out, path)))
}

const picked = (mod: AnyMod, outKeys: readonly ModPath[]): AnyMod =>
  outKeys.length === mod.outKeys.length ? mod : modOf({ ...mod, outKeys, kind: { _tag: 'Pick', mod } })

/**
 * The module with only some of its outputs: all of it runs, what is not named is not written.
 *
 * Errors   throws TensorDictError, listing all, for keys that the module does not write.
 *
 * @example
 * const both = mod({ name: 'both', inKeys: [], outKeys: ['x', 'y'], run: () => right({ x: meta(1), y: meta(2) }) })
 * pick(both, 'y').outKeys // [['y']]
 */
export const pick = <In, Out, Mode extends ModMode, const K extends readonly LeafKeys<Out>[]>(
  mod: Mod<In, Out, Mode>,
  ...keys: K
): Mod<In, Picked<Out, K[number]>, Mode> =>
  picked(mod, wantedPaths(mod, keys as readonly ModKey[], `pick of ${mod.name}`)) as never // by the definition of Picked

/** The paths that are wanted: at, above or below a wanted one. */
const among = (paths: readonly ModPath[], wanted: readonly ModPath[]): readonly ModPath[] =>
  paths.filter((path) => wanted.some((other) => isAtOrBelow(path, other) || isAtOrBelow(other, path)))

/** From the last to the first: a module is kept if a later one, or the caller, needs what it writes. */
const neededOf = (mods: readonly AnyMod[], wanted: readonly ModPath[]): readonly AnyMod[] =>
  mods.reduceRight<{ readonly kept: readonly AnyMod[]; readonly needed: readonly ModPath[] }>(
    ({ kept, needed }, mod) => {
      const outKeys = among(mod.outKeys, needed)
      if (outKeys.length === 0) return { kept, needed }
      const part = subgraphOf(mod, outKeys)
      const open = needed.filter((path) => !outKeys.some((out) => isAtOrBelow(path, out)))
      return { kept: [part, ...kept], needed: [...open, ...part.inKeys] }
    },
    { kept: [], needed: wanted },
  ).kept

/** The module that writes exactly `wanted`, some of its outputs, without the parts that none of them depends on. */
const subgraphOf = (mod: AnyMod, wanted: readonly ModPath[]): AnyMod => {
  const { kind } = mod
  switch (kind._tag) {
    case 'Leaf':
      return picked(mod, wanted)
    case 'Pick':
      return subgraphOf(kind.mod, wanted)
    case 'Seq':
      return picked(seqOf(neededOf(kind.mods, wanted)), wanted)
    case 'Parallel':
      return parallelOf(
        kind.mods.flatMap((each) => {
          const outKeys = among(each.outKeys, wanted)
          return outKeys.length === 0 ? [] : [subgraphOf(each, outKeys)]
        }),
      )
    case 'Branch': {
      const cases = [...kind.cases].map(([name, each]) => [name, subgraphOf(each, wanted)] as const)
      return branchMod({ ...kind, name: mod.name }, new Map(cases))
    }
    case 'Remap': {
      const outPaths = kind.outPaths.filter(({ outer }) => among([outer], wanted).length > 0)
      const part = subgraphOf(
        kind.mod,
        outPaths.map(({ inner }) => inner),
      )
      const read = new Set(part.inKeys.map(pathId))
      return remapped(
        part,
        kind.inPaths.filter(({ inner }) => read.has(pathId(inner))),
        outPaths,
      )
    }
  }
}

/**
 * The module with only some of its outputs, and without the parts that none of them depends on: those never run, and what only
 * they read need not be there.
 *
 * Types    still ask for all that the whole module reads: which parts are left is known when it is built.
 * Errors   throws TensorDictError, listing all, for keys that the module does not write.
 *
 * @example
 * const one = (name) => mod({ name, inKeys: ['in' + name], outKeys: [name], run: () => right({ [name]: meta(1) }) })
 * subgraph(seq(one('x'), one('y')), 'y').inKeys // [['iny']]
 */
export const subgraph = <In, Out, Mode extends ModMode, const K extends readonly LeafKeys<Out>[]>(
  mod: Mod<In, Out, Mode>,
  ...keys: K
): Mod<In, Picked<Out, K[number]>, Mode> =>
  subgraphOf(mod, wantedPaths(mod, keys as readonly ModKey[], `subgraph of ${mod.name}`)) as never // by the definition of Picked

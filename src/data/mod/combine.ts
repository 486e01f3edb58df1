/** Modules one after the other, and modules side by side. */
import { TensorDictError, type TensorDictProblem } from '../tensorDict/tensorDict.js'
import { distinctPaths, formatPath, isAtOrBelow, type ModPath, pathId } from './keys.js'
import { type AnyMod, type Mod, modOf, openInputs, openStreams, requireDistinctStreams } from './mod.js'
import type { Disjoint, Empty, ParallelOf, SeqOf, Wired } from './schemas.js'

const nameOf = (mods: readonly AnyMod[], separator: string): string => mods.map(({ name }) => name).join(separator)

const isStrictlyBelow = (path: ModPath, other: ModPath): boolean =>
  path.length > other.length && isAtOrBelow(path, other)

/** Leaves that one module writes where another writes or reads something below. */
const nestingProblems = (mods: readonly AnyMod[]): readonly TensorDictProblem[] =>
  mods.flatMap((writer, i) =>
    writer.outKeys.flatMap((leaf) =>
      mods.flatMap((other, j) => {
        const uses = [...(i === j ? [] : other.outKeys), ...(j > i ? other.inKeys : [])]
        return uses
          .filter((path) => isStrictlyBelow(path, leaf))
          .map((path) => ({
            path,
            reason: `${JSON.stringify(other.name)} uses an entry below ${formatPath(leaf)}, where ${JSON.stringify(writer.name)} writes a leaf`,
          }))
      }),
    ),
  )

/** `seq` of a list. For the other files of this folder. */
export const seqOf = (mods: readonly AnyMod[]): AnyMod => {
  const flat = mods.flatMap((mod) => (mod.kind._tag === 'Seq' ? mod.kind.mods : [mod]))
  const [only] = flat
  if (only !== undefined && flat.length === 1) return only
  const problems = nestingProblems(flat)
  if (problems.length > 0) throw new TensorDictError('seq', [], { problems })
  requireDistinctStreams(flat, 'seq')
  return modOf({
    name: flat.length === 0 ? 'identity' : nameOf(flat, ' > '),
    inKeys: openInputs(flat),
    outKeys: distinctPaths(flat.flatMap(({ outKeys }) => outKeys)),
    streams: openStreams(flat),
    kind: { _tag: 'Seq', mods: flat },
  })
}

/**
 * Runs modules one after the other: each sees what the earlier ones have written. Reads what they read and no earlier one
 * writes; writes all that they write, where two write the same entry the later one's.
 *
 * Associative, with `identityMod` as neutral element: groupings of the same modules are the same value.
 *
 * Types    a module that reads an entry of another kind than an earlier one writes does not compile.
 * Errors   throws TensorDictError, listing all places, if one module writes a leaf where another uses a node; and if two modules
 *          of one name draw from one random key.
 *
 * @example
 * seq(identityMod, identityMod).inKeys // []
 */
export const seq = <const Mods extends readonly AnyMod[]>(...mods: Mods & Wired<Mods>): SeqOf<Mods> =>
  seqOf(mods) as SeqOf<Mods> // by the definition of SeqOf

/** The module that reads nothing and writes nothing: the TensorDict passes as it is. */
export const identityMod: Mod<unknown, Empty> = seq()

/** `parallel` of a list. For the other files of this folder. */
export const parallelOf = (mods: readonly AnyMod[]): AnyMod => {
  const problems = mods.flatMap(({ outKeys, name }, i) =>
    mods.slice(0, i).flatMap((earlier) =>
      outKeys
        .filter((path) => earlier.outKeys.some((other) => isAtOrBelow(path, other) || isAtOrBelow(other, path)))
        .map((path) => ({
          path,
          reason: `${JSON.stringify(earlier.name)} and ${JSON.stringify(name)} both write it`,
        })),
    ),
  )
  if (problems.length > 0) throw new TensorDictError('parallel', [], { problems })
  requireDistinctStreams(
    mods.map((mod) => ({ ...mod, outKeys: [] })), // none sees what another writes
    'parallel',
  )
  return modOf({
    name: `(${nameOf(mods, ' | ')})`,
    inKeys: distinctPaths(mods.flatMap(({ inKeys }) => inKeys)),
    outKeys: mods.flatMap(({ outKeys }) => outKeys),
    streams: mods.flatMap(({ streams }) => streams),
    kind: { _tag: 'Parallel', mods },
  })
}

/**
 * Runs modules side by side: all see the same TensorDict, and none what another writes. In `runModAsync` they wait at the same time.
 *
 * Types    modules that write the same entry do not compile.
 * Errors   throws TensorDictError, listing all places, if two modules write the same entry, or one of them a leaf where the other
 *          uses a node; and if two modules of one name draw from one random key.
 *
 * @example
 * parallel(identityMod, identityMod).outKeys // []
 */
export const parallel = <const Mods extends readonly AnyMod[]>(...mods: Mods & Disjoint<Mods>): ParallelOf<Mods> =>
  parallelOf(mods) as ParallelOf<Mods> // by the definition of ParallelOf

/** Whether two lists have the same paths, in any order. */
export const samePaths = (a: readonly ModPath[], b: readonly ModPath[]): boolean =>
  [...a].map(pathId).sort().join() === [...b].map(pathId).sort().join()

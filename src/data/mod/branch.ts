/** A choice between modules. */
import type { Meta } from '../tensorDict/leaf.js'
import { type TensorDict, TensorDictError } from '../tensorDict/tensorDict.js'
import { samePaths } from './combine.js'
import {
  distinctPaths,
  entryAt,
  formatPath,
  type LeafKeys,
  type LeafPaths,
  type ModKey,
  type ModPath,
  type NoneLeft,
  type PathsOfKeys,
  pathId,
  pathOf,
  type SchemaWith,
} from './keys.js'
import { type AnyMod, type Mod, type ModeOf, modOf, type OutOf } from './mod.js'
import type { Both, NeededByAll, SameOutputs } from './schemas.js'

type Cases = Readonly<Record<string, AnyMod>>

type BranchOf<C, M extends Cases> = Mod<Both<C, NeededByAll<M>>, OutOf<M[keyof M]>, ModeOf<M[keyof M]>>

/** How a branch chooses. */
export interface Choice {
  readonly name: string
  readonly choiceKeys: readonly ModPath[]
  readonly choose: (inputs: TensorDict) => string
}

/** A branch from its parts. For `subgraph`. */
export const branchMod = ({ name, choiceKeys, choose }: Choice, cases: ReadonlyMap<string, AnyMod>): AnyMod => {
  const entries = [...cases]
  const [first] = entries
  if (first === undefined) throw new TensorDictError(`branch ${name}`, [], 'there are no cases')
  const [firstName, { outKeys }] = first
  const problems = entries
    .filter(([, mod]) => !samePaths(mod.outKeys, outKeys))
    .map(([each, mod]) => ({
      path: [each],
      reason: `writes ${mod.outKeys.map(formatPath).join(', ') || 'nothing'}, but ${JSON.stringify(firstName)} writes ${outKeys.map(formatPath).join(', ') || 'nothing'}`,
    }))
  if (problems.length > 0) {
    throw new TensorDictError(`branch ${name}`, [], { problems, hint: 'pick the entries that all cases write' })
  }
  const streams = new Map(
    entries.flatMap(([, mod]) => mod.streams.map((each) => [`${pathId(each.path)} ${each.name}`, each] as const)),
  )
  return modOf({
    name,
    inKeys: distinctPaths([...choiceKeys, ...entries.flatMap(([, { inKeys }]) => inKeys)]),
    outKeys,
    streams: [...streams.values()], // one case runs, so two of them may share a stream
    kind: { _tag: 'Branch', choiceKeys, choose, cases },
  })
}

/**
 * Runs one of several modules: the case that `choose` names, after a look at the entries at `inKeys`. The entries that any of the
 * cases reads are read by the branch. All cases write the same entries.
 *
 * Types    cases that write different entries do not compile, nor does a name that is no case.
 * Errors   throws TensorDictError if there are no cases, or if they write different entries. When it runs, `Left(ModFailure)` if
 *          `choose` names no case.
 *
 * @example
 * branch({ name: 'either', inKeys: [], choose: () => 'left', cases: { left: identityMod, right: identityMod } }).outKeys // []
 */
export const branch = <C, const I extends readonly LeafKeys<C>[], const M extends Cases>(parts: {
  readonly name: string
  /** Every leaf that `choose` reads. */
  readonly inKeys: I & NoneLeft<Exclude<LeafPaths<C>, PathsOfKeys<I[number]>>, 'choose reads what inKeys lacks'>
  readonly choose: (inputs: TensorDict<C>) => keyof M & string
  readonly cases: M & SameOutputs<M>
}): BranchOf<C, M> => {
  const inKeys: readonly ModKey[] = parts.inKeys as readonly ModKey[] // names and paths, by their type
  return branchMod(
    {
      name: parts.name,
      choiceKeys: inKeys.map((key) => pathOf(key, `branch ${parts.name}`)),
      choose: (inputs) => parts.choose(inputs as TensorDict<C>), // it has the entries at inKeys
    },
    new Map(Object.entries(parts.cases)),
  ) as BranchOf<C, M> // by the definition of BranchOf
}

/**
 * Runs the case that a `Meta` entry names: `branch` without a function.
 *
 * Types    the entry must be `Meta` of the names of the cases.
 * Errors   as `branch`; when it runs, `Left(ModFailure)` if the entry is no meta or names no case.
 *
 * @example
 * branchOn({ name: 'by mode', keyAt: 'mode', cases: { train: identityMod, test: identityMod } }).inKeys // [['mode']]
 */
export const branchOn = <const P extends ModKey, const M extends Cases>(parts: {
  readonly name: string
  readonly keyAt: P
  readonly cases: M & SameOutputs<M>
}): BranchOf<SchemaWith<{ readonly path: PathsOfKeys<P>; readonly entry: Meta<Extract<keyof M, string>> }>, M> => {
  const path = pathOf(parts.keyAt, `branch ${parts.name}`)
  const choose = (inputs: TensorDict): string => {
    const entry = entryAt(inputs, path)
    return '_tag' in entry && entry._tag === 'Meta' ? String(entry.value) : `no meta at ${formatPath(path)}`
  }
  return branchMod({ name: parts.name, choiceKeys: [path], choose }, new Map(Object.entries(parts.cases))) as never // by the definition of BranchOf
}

/**
 * Modules: pure functions from some entries of a TensorDict to others, that say which.
 *
 * A module is a value. `seq`, `parallel`, `branch`, `remapIn`, `remapOut`, `pick` and `subgraph` (`combine.ts`, `branch.ts`,
 * `remap.ts`, `subgraph.ts`) make larger ones; `runMod` and `runModAsync` (`run.ts`) run them. A module sees the entries that it
 * asks for and no others, and gives the entries that it promises and no others.
 */
import type { Either } from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Failure } from '../../core/failure.js'
import { child, type Key } from '../../core/key.js'
import { type Meta, meta } from '../tensorDict/leaf.js'
import { type Entries, type TensorDict, TensorDictError, type TensorDictProblem } from '../tensorDict/tensorDict.js'
import {
  distinctPaths,
  entryAt,
  formatPath,
  isAtOrBelow,
  type LeafKeys,
  type LeafPaths,
  type ModKey,
  type ModPath,
  type NoneLeft,
  type OutSchema,
  type PathsOfKeys,
  pathId,
  pathOf,
  replaceEntry,
} from './keys.js'

declare const IN: unique symbol
declare const OUT: unique symbol
declare const MODE: unique symbol

/** Whether a module gives its outputs at once, or after a wait. */
export type ModMode = 'sync' | 'async'

/** A random stream: which key it comes from, and its name under that key. */
export interface RandomStream {
  readonly path: ModPath
  readonly name: string
}

/** What a module is made of. For the other files of this folder. */
export type ModKind =
  | {
      readonly _tag: 'Leaf'
      readonly call: (inputs: TensorDict) => Either<Failure, Entries> | TaskEither<Failure, Entries>
    }
  | { readonly _tag: 'Seq'; readonly mods: readonly AnyMod[] }
  | { readonly _tag: 'Parallel'; readonly mods: readonly AnyMod[] }
  | { readonly _tag: 'Pick'; readonly mod: AnyMod }
  | {
      readonly _tag: 'Remap'
      readonly mod: AnyMod
      readonly inPaths: readonly Move[]
      readonly outPaths: readonly Move[]
    }
  | {
      readonly _tag: 'Branch'
      readonly choiceKeys: readonly ModPath[]
      readonly choose: (inputs: TensorDict) => string
      readonly cases: ReadonlyMap<string, AnyMod>
    }

/** An entry of the module inside, and where it is outside. */
export interface Move {
  readonly inner: ModPath
  readonly outer: ModPath
}

/** A function from TensorDicts with (at least) the entries `In` to the entries `Out`. */
export interface Mod<in In, out Out, out Mode extends ModMode = 'sync'> {
  readonly _tag: 'Mod'
  readonly name: string
  /** What it reads: leaves, and whole nodes of any content. */
  readonly inKeys: readonly ModPath[]
  /** What it writes: leaves. */
  readonly outKeys: readonly ModPath[]
  /** The random streams that it draws from. */
  readonly streams: readonly RandomStream[]
  readonly kind: ModKind
  /** Present in types only, like the next two. */
  readonly [IN]?: (input: In) => void
  readonly [OUT]?: Out
  readonly [MODE]?: Mode
}

/** A module of any schemas. */
export type AnyMod = Mod<never, unknown, ModMode>

/** What a module reads. */
export type InOf<M> = M extends Mod<infer In, unknown, ModMode> ? In : never

/** What a module writes. */
export type OutOf<M> = M extends Mod<never, infer Out, ModMode> ? Out : never

/** Whether a module waits. */
export type ModeOf<M> = M extends Mod<never, unknown, infer Mode> ? Mode : never

/** A module that did not give its outputs: which, what is wrong at which keys, and what it said itself. */
export interface ModFailure {
  readonly _tag: 'ModFailure'
  readonly module: string
  readonly reason: string
  readonly problems: readonly TensorDictProblem[]
  readonly cause?: Failure
}

/** What every leaf module states. */
interface ModKeys<In, Out, I, O> {
  readonly name: string
  /** Every leaf that `run` reads, each by its name or its path. */
  readonly inKeys: I & NoneLeft<Exclude<LeafPaths<In>, PathsOfKeys<I[keyof I & number]>>, 'run reads what inKeys lacks'>
  /** Every leaf that `run` returns. */
  readonly outKeys: O &
    NoneLeft<Exclude<LeafPaths<Out>, PathsOfKeys<O[keyof O & number]>>, 'run gives what outKeys lacks'>
}

const requirePaths = (keys: readonly ModKey[], module: string): readonly ModPath[] => {
  const paths = keys.map((key) => pathOf(key, `mod ${module}`))
  const problems = paths.flatMap((path, i) =>
    paths.slice(0, i).some((other) => isAtOrBelow(path, other) || isAtOrBelow(other, path))
      ? [{ path, reason: 'named twice, or inside of another key' }]
      : [],
  )
  if (problems.length > 0) throw new TensorDictError(`mod ${module}`, [], { problems })
  return paths
}

/** A module from its parts. For the other files of this folder; the types are what the caller has made sure of. */
export const modOf = <In, Out, Mode extends ModMode>(
  parts: Pick<AnyMod, 'name' | 'inKeys' | 'outKeys' | 'streams' | 'kind'>,
): Mod<In, Out, Mode> => ({
  _tag: 'Mod',
  ...parts,
})

const leafMod = <In, Out, Mode extends ModMode>(
  keys: { readonly name: string; readonly inKeys: readonly ModKey[]; readonly outKeys: readonly ModKey[] },
  call: (inputs: TensorDict) => Either<Failure, unknown> | TaskEither<Failure, unknown>,
  streams: readonly RandomStream[] = [],
): Mod<In, Out, Mode> =>
  modOf({
    name: keys.name,
    inKeys: requirePaths(keys.inKeys, keys.name),
    outKeys: requirePaths(keys.outKeys, keys.name),
    streams,
    // Cast: what `call` gives is looked at, entry by entry, before anything is done with it.
    kind: { _tag: 'Leaf', call: call as (inputs: TensorDict) => Either<Failure, Entries> },
  })

/**
 * A module from a function. `run` gets a TensorDict with the entries at `inKeys` and no others, under the same batch shape, and
 * returns a record of entries (or a TensorDict) with a leaf at each of `outKeys` and nothing else.
 *
 * Both lists are checked against the types of `run`: a key that is missing, or one too many, does not compile.
 *
 * Errors   throws TensorDictError if a list names a key twice, or a key and one inside of it.
 * Effects  those of `run`: it should have none, then equal inputs give equal outputs.
 *
 * @example
 * const double = mod({ name: 'double', inKeys: ['x'], outKeys: ['y'], run: (td) => right({ y: tf.mul(get(td, 'x'), 2) }) })
 * orThrow(runMod(double, TensorDict({ x: tf.scalar(2) }, []))).entries.get('y').dataSync() // [4]
 */
export const mod = <
  In,
  O extends Entries | TensorDict,
  const I extends readonly LeafKeys<In>[],
  const K extends readonly LeafKeys<OutSchema<O>>[],
>(
  parts: ModKeys<In, OutSchema<O>, I, K> & { readonly run: (inputs: TensorDict<In>) => Either<Failure, O> },
): Mod<In, OutSchema<O>> => leafMod(parts as never, (inputs) => parts.run(inputs as TensorDict<In>))

/**
 * A module whose function waits: `runModAsync` runs it, alone or as a part of others.
 *
 * Errors   as `mod`.
 * Effects  the tensors of its outputs are given away: `runModAsync` frees those that are not in the end in its result, unless
 *          somebody owns them.
 */
export const asyncMod = <
  In,
  O extends Entries | TensorDict,
  const I extends readonly LeafKeys<In>[],
  const K extends readonly LeafKeys<OutSchema<O>>[],
>(
  parts: ModKeys<In, OutSchema<O>, I, K> & { readonly run: (inputs: TensorDict<In>) => TaskEither<Failure, O> },
): Mod<In, OutSchema<O>, 'async'> => leafMod(parts as never, (inputs) => parts.run(inputs as TensorDict<In>))

/** The leaves of a schema that are random keys. */
type RandomKeys<S> = LeafKeys<{ readonly [K in keyof S as S[K] extends Meta<Key> | TensorDict ? K : never]: S[K] }>

/**
 * A module that draws random numbers. At `keyAt`, one of its `inKeys`, the TensorDict has a random key, and `run` sees there a key of
 * its own: the child by the module's name. The key in the TensorDict is not changed, so equal TensorDicts give equal outputs; for other
 * numbers, set another key. Streams are told apart by names, not by positions, so that grouping modules and leaving some out changes
 * no stream.
 *
 * Errors   as `mod`. `seq` and `parallel` refuse two modules of one name that draw from one key. When it runs, throws TensorDictError
 *          if the entry is no random key.
 *
 * @example
 * const dice = (name) => randomMod({ name, keyAt: 'rng', inKeys: ['rng'], outKeys: ['x'], run: (td) => right({ x: meta(uniformInteger(get(td, 'rng').value, 6)) }) })
 * const drawn = (name, seed) => get(orThrow(runMod(dice(name), TensorDict({ rng: meta(keyFromSeed(seed)) }, []))), 'x').value
 * drawn('a', 1) === drawn('a', 1) // true
 */
export const randomMod = <
  In,
  O extends Entries | TensorDict,
  const I extends readonly LeafKeys<In>[],
  const K extends readonly LeafKeys<OutSchema<O>>[],
>(
  parts: ModKeys<In, OutSchema<O>, I, K> & {
    readonly keyAt: RandomKeys<In> & I[number]
    readonly run: (inputs: TensorDict<In>) => Either<Failure, O>
  },
): Mod<In, OutSchema<O>> => {
  const { name } = parts
  const path = pathOf(parts.keyAt as ModKey, `mod ${name}`) // a key by its type
  const ownStream = (inputs: TensorDict): TensorDict => {
    const entry = entryAt(inputs, path)
    const value: unknown = '_tag' in entry && entry._tag === 'Meta' ? entry.value : undefined
    if (!isKey(value)) throw new TensorDictError(`mod ${name}`, path, 'expected meta of a random key')
    return replaceEntry(inputs, path, meta(child(value, name)))
  }
  return leafMod(parts as never, (inputs) => parts.run(ownStream(inputs) as TensorDict<In>), [{ path, name }])
}

const isKey = (value: unknown): value is Key =>
  typeof value === 'object' && value !== null && '_tag' in value && value._tag === 'Key'

/** A failure of a module with its problems in one sentence. */
export const modFailure = (module: string, what: string, problems: readonly TensorDictProblem[] = []): ModFailure => ({
  _tag: 'ModFailure',
  module,
  problems,
  reason: `module ${JSON.stringify(module)}: ${what}${problems.map(({ path, reason }, i) => `${i === 0 ? '' : ';'} ${formatPath(path)}${reason === '' ? '' : `: ${reason}`}`).join('')}`,
})

/** Throws if two modules in a row draw the same numbers: one name under one key, which nothing between them changes. */
export const requireDistinctStreams = (mods: readonly AnyMod[], operation: string): void => {
  const open = new Map<string, RandomStream>()
  for (const { streams, outKeys } of mods) {
    for (const stream of streams) {
      const id = `${pathId(stream.path)} ${stream.name}`
      if (open.has(id)) {
        throw new TensorDictError(operation, stream.path, {
          reason: `two modules named ${JSON.stringify(stream.name)} would draw the same random numbers`,
          hint: 'give them different names',
        })
      }
      open.set(id, stream)
    }
    for (const [id, { path }] of open) if (outKeys.some((out) => isAtOrBelow(path, out))) open.delete(id)
  }
}

/** Inputs of modules in a row: what they read and no earlier one has written. */
export const openInputs = (mods: readonly AnyMod[]): readonly ModPath[] => {
  const written: ModPath[] = []
  const open: ModPath[] = []
  for (const { inKeys, outKeys } of mods) {
    open.push(...inKeys.filter((path) => !written.some((out) => isAtOrBelow(path, out))))
    written.push(...outKeys)
  }
  return distinctPaths(open)
}

/** Random streams of modules in a row, without those whose key an earlier one has written. */
export const openStreams = (mods: readonly AnyMod[]): readonly RandomStream[] =>
  mods.flatMap(({ streams }, i) => {
    const written = mods.slice(0, i).flatMap(({ outKeys }) => outKeys)
    return streams.filter(({ path }) => !written.some((out) => isAtOrBelow(path, out)))
  })

/**
 * TensorDict: an immutable tree of named leaves that share leading batch axes.
 *
 * This folder holds `TensorDict`, its leaves and its operations. It does not hold file formats
 * (`../codecs`), specs (`../spec.ts`) or entries with a meaning, such as those of a batch
 * (`../batch.ts`).
 *
 * A node has a batch shape and an ordered map of entries; an entry is a leaf (see `leaf.ts`) or another node whose batch shape
 * begins with this one's. The schema `S` exists in the types alone: `get(td, 'next', 'reward')` has a type, and a misspelt key
 * does not compile. Nothing is ever changed: every function returns a new spine over the same leaves.
 */
import * as tf from '@tensorflow/tfjs-core'
import type { OrderedMap } from 'immutable'
import { TENSORS } from '../../engine/scope.js'
import { isLeaf, type Leaf, raggedLength } from './leaf.js'
import { mapOf, namesOf, type Spine, spineFrom, spineOf, valueAt, valuesOf } from './spine.js'

declare const SCHEMA: unique symbol

export type Entry = Leaf | TensorDict

export interface TensorDict<out S = unknown> {
  readonly _tag: 'TensorDict'
  /** Present in types only. */
  readonly [SCHEMA]?: S
  readonly batchShape: readonly number[]
  /** The entries as they are stored: for the files of this folder. */
  readonly spine: Spine<Entry>
  /** The entries by name. Made when it is first asked for: `get`, `find` and `has` look up without it. */
  readonly entries: OrderedMap<string, Entry>
  readonly [TENSORS]: () => Iterable<unknown>
}

/** What `TensorDict` takes: entries by name; a plain record becomes a node with the same batch shape. */
export type Entries = { readonly [key: string]: Entry | Entries }

/** One readable record type instead of an intersection. */
export type Flat<T> = { readonly [K in keyof T]: T[K] } & {}

/** The schema of a node made from entries. */
export type SchemaOf<E> = Flat<{ [K in keyof E]: E[K] extends Entry ? E[K] : TensorDict<SchemaOf<E[K]>> }>

/** The schema of a child node. */
export type ChildSchema<S, K extends keyof S> = S[K] extends TensorDict<infer T> ? T : Readonly<Record<never, never>>

/** `S` with the entries of `X`, which win. */
export type Merge<S, X> = Flat<Omit<S, keyof X> & X>

/** One thing that is wrong with a call: where, and what was expected instead of what came. */
export interface TensorDictProblem {
  readonly path: readonly string[]
  readonly reason: string
}

/** What a TensorDictError knows beside its text. */
export interface TensorDictErrorDetails {
  /** What is wrong, in one sentence; left out where `problems` say it all. */
  readonly reason?: string
  /** Every problem that was found, in the order of the keys. */
  readonly problems?: readonly TensorDictProblem[]
  readonly axis?: number
  readonly expected?: unknown
  readonly actual?: unknown
  /** What to call instead. */
  readonly hint?: string
}

const place = (path: readonly string[]): string => (path.length > 0 ? `at ${showPath(path)}: ` : '')

/** A wrong call on a TensorDict: which operation, where, what was expected and what came. All mismatches are in one error. */
export class TensorDictError extends Error {
  readonly operation: string
  readonly path: readonly string[]
  readonly details: TensorDictErrorDetails

  constructor(operation: string, path: readonly string[], problem: string | TensorDictErrorDetails) {
    const details = typeof problem === 'string' ? { reason: problem } : problem
    const sentences = [
      ...(details.reason === undefined ? [] : [`${place(path)}${details.reason}`]),
      ...(details.problems ?? []).map((each) => `${place(each.path)}${each.reason}`),
    ]
    super(`${operation}: ${sentences.join('; ')}${details.hint === undefined ? '' : ` (${details.hint})`}`)
    this.name = 'TensorDictError'
    this.operation = operation
    this.path = path
    this.details = details
  }
}

export const isTensorDict = (value: unknown): value is TensorDict =>
  typeof value === 'object' && value !== null && '_tag' in value && value._tag === 'TensorDict'

/** How many batch elements a batch shape has: 1 for the empty shape. */
export const batchSize = (shape: readonly number[]): number => shape.reduce((n, m) => n * m, 1)

const beginsWith = (shape: readonly number[], prefix: readonly number[]): boolean =>
  shape === prefix || (shape.length >= prefix.length && prefix.every((n, i) => shape[i] === n))

const showShape = (shape: readonly number[]): string => `[${shape.join(', ')}]`

/** What is said of a value that is no entry, which only untyped code can give. */
const noEntry = (value: unknown): string =>
  `expected a tensor, ragged rows, data, meta or a TensorDict, got ${value === null ? 'null' : typeof value}`

/** What keeps an entry from being part of a node with this batch shape; undefined if nothing does. For the other files of this folder. */
export const misfit = (entry: Entry, batchShape: readonly number[]): string | undefined => {
  if (typeof entry !== 'object' || entry === null) return noEntry(entry)
  if (!('_tag' in entry)) {
    if (entry instanceof tf.Variable) {
      return 'a tf.Variable would change with its next assignment: put `variable.clone()`, which keeps its value of now'
    }
    if (!(entry instanceof tf.Tensor)) return noEntry(entry)
    return beginsWith(entry.shape, batchShape)
      ? undefined
      : `tensor of shape ${showShape(entry.shape)} does not begin with the batch shape ${showShape(batchShape)}`
  }
  switch (entry._tag) {
    case 'TensorDict':
      return beginsWith(entry.batchShape, batchShape)
        ? undefined
        : `node of batch shape ${showShape(entry.batchShape)} does not begin with the batch shape ${showShape(batchShape)}`
    case 'Ragged':
      return raggedLength(entry) === batchSize(batchShape)
        ? undefined
        : `${raggedLength(entry)} ragged rows for batch shape ${showShape(batchShape)}`
    case 'Data':
      return entry.items.size === batchSize(batchShape)
        ? undefined
        : `${entry.items.size} values for batch shape ${showShape(batchShape)}`
    case 'Meta':
      return undefined
    default:
      return noEntry(entry)
  }
}

/** Every place, at any depth, where a leaf or a node does not fit the node that it is in: law 1 says that there is none. */
export const misfits = (node: TensorDict, path: readonly string[] = []): readonly TensorDictProblem[] =>
  [...node.entries].flatMap(([name, entry]) => {
    const reason = misfit(entry, node.batchShape)
    const here = reason === undefined ? [] : [{ path: [...path, name], reason }]
    return isTensorDict(entry) ? [...here, ...misfits(entry, [...path, name])] : here
  })

/** Throws TensorDictError unless a batch shape is made of natural numbers. For the other files of this folder. */
export const requireShape = (operation: string, batchShape: readonly number[]): void => {
  if (Array.isArray(batchShape) && batchShape.every((n) => Number.isSafeInteger(n) && n >= 0)) return
  throw new TensorDictError(operation, [], {
    reason: `batch shape [${String(batchShape)}] has a size that is no natural number`,
    expected: 'natural numbers',
    actual: batchShape,
  })
}

/** What all nodes have in common. */
const NODE: Pick<TensorDict, 'entries' | typeof TENSORS> & ThisType<TensorDict> = {
  get entries() {
    return mapOf(this.spine)
  },
  [TENSORS]() {
    return valuesOf(this.spine)
  },
}

/** A node over a spine of entries that are known to fit. For the other files of this folder. */
export const nodeOver = <S>(spine: Spine<Entry>, batchShape: readonly number[]): TensorDict<S> => {
  const node = Object.create(NODE) as { -readonly [K in '_tag' | 'batchShape' | 'spine']: TensorDict[K] } // fields follow
  node._tag = 'TensorDict'
  node.batchShape = batchShape
  node.spine = spine
  return node as TensorDict<S> // the other fields are those of NODE
}

/** A node over a map of entries that are known to fit. For the other files of this folder. */
export const nodeOf = <S>(entries: OrderedMap<string, Entry>, batchShape: readonly number[]): TensorDict<S> =>
  nodeOver(spineOf(entries), batchShape)

/**
 * Makes a TensorDict.
 *
 * Errors   throws TensorDictError, listing every entry that does not fit the batch shape and every value that is no entry.
 * Effects  none: tensors are kept by reference and stay whoever's they are. A `tf.Variable` is refused: it would change.
 *
 * @example
 * get(TensorDict({ query: data(['2 + 2?', '1 + 1?']), next: { reward: tf.zeros([2]) } }, [2]), 'query').items.get(0) // '2 + 2?'
 */
export const TensorDict = <const E extends Entries>(
  source: E,
  batchShape: readonly number[],
): TensorDict<SchemaOf<E>> => {
  requireShape('TensorDict', batchShape)
  const shape = [...batchShape]
  const problems = sourceProblems(source, shape)
  if (problems.length > 0) throw new TensorDictError('TensorDict', problems[0]!.path, { problems, expected: shape })
  const build = (part: Entries): TensorDict =>
    nodeOver(
      spineFrom(
        Object.keys(part),
        Object.values(part).map((value) => (isRecord(value) ? build(value) : value)),
      ),
      shape,
    )
  return build(source) as TensorDict<SchemaOf<E>> // built from the entries of E
}

/** Every entry that does not fit a batch shape and every value that is no entry. For the other files of this folder. */
export const sourceProblems = (
  source: Entries,
  batchShape: readonly number[],
  path: readonly string[] = [],
): readonly TensorDictProblem[] =>
  Object.entries(source).flatMap(([name, value]): readonly TensorDictProblem[] => {
    const place = [...path, name]
    if (isRecord(value)) return sourceProblems(value, batchShape, place)
    const reason = entryProblem(value, batchShape)
    return reason === undefined ? [] : [{ path: place, reason }]
  })

/** A plain record: what becomes a node. For the other files of this folder. */
export const isRecord = (value: Entry | Entries): value is Entries => {
  if (isLeaf(value) || isTensorDict(value) || value === null || typeof value !== 'object') return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** Why a value cannot be an entry: types were bypassed, or it does not fit. */
const entryProblem = (value: Entry, batchShape: readonly number[]): string | undefined =>
  isLeaf(value) || isTensorDict(value)
    ? misfit(value, batchShape)
    : `expected a tensor, ragged rows, data, meta or a record, got ${value === null ? 'null' : typeof value}`

/** The node or leaf under a name or a path; undefined if there is none. The empty path is the TensorDict itself. */
export const find = (td: TensorDict, path: string | readonly string[]): Entry | undefined => {
  let entry: Entry | undefined = td
  for (const key of typeof path === 'string' ? [path] : path)
    entry = isTensorDict(entry) ? valueAt(entry.spine, key) : undefined
  return entry
}

/** A path as text for errors. */
export const showPath = (path: readonly string[]): string => path.map((name) => JSON.stringify(name)).join(' > ')

/** The keys of a node for the text of an error, at most twenty. */
const knownKeys = (td: TensorDict): string => {
  const names = [...namesOf(td.spine)]
  const shown = names.slice(0, 20).map((name) => JSON.stringify(name))
  const rest = names.length > shown.length ? ` and ${names.length - shown.length} more` : ''
  return names.length === 0 ? 'there are no keys' : `the keys are ${shown.join(', ')}${rest}`
}

/** Why there is nothing at a path, with the keys that are there instead; undefined if there is something. */
export const absence = (td: TensorDict, path: readonly string[]): string | undefined => {
  let node = td
  for (const [i, name] of path.entries()) {
    const entry = valueAt(node.spine, name)
    if (entry === undefined) {
      const where = i === 0 ? '' : ` in ${showPath(path.slice(0, i))}`
      return `no such entry${where}; ${knownKeys(node)}`
    }
    if (i === path.length - 1) return undefined
    if (!isTensorDict(entry)) return `no such entry; ${showPath(path.slice(0, i + 1))} is a leaf`
    node = entry
  }
  return undefined
}

/**
 * The entry under one to four nested keys, with its type.
 *
 * Errors   throws TensorDictError, listing the keys that exist, if there is none: possible only where the types were bypassed.
 */
export function get<S, A extends keyof S & string>(td: TensorDict<S>, a: A): S[A]
export function get<S, A extends keyof S & string, B extends keyof ChildSchema<S, A> & string>(
  td: TensorDict<S>,
  a: A,
  b: B,
): ChildSchema<S, A>[B]
export function get<
  S,
  A extends keyof S & string,
  B extends keyof ChildSchema<S, A> & string,
  C extends keyof ChildSchema<ChildSchema<S, A>, B> & string,
>(td: TensorDict<S>, a: A, b: B, c: C): ChildSchema<ChildSchema<S, A>, B>[C]
export function get<
  S,
  A extends keyof S & string,
  B extends keyof ChildSchema<S, A> & string,
  C extends keyof ChildSchema<ChildSchema<S, A>, B> & string,
  D extends keyof ChildSchema<ChildSchema<ChildSchema<S, A>, B>, C> & string,
>(td: TensorDict<S>, a: A, b: B, c: C, d: D): ChildSchema<ChildSchema<ChildSchema<S, A>, B>, C>[D]
export function get(td: TensorDict, ...path: readonly string[]): unknown {
  const entry = find(td, path)
  if (entry !== undefined) return entry
  throw new TensorDictError('get', path, absence(td, path)!) // nothing is there
}

/** Whether there is an entry at a path. */
export const has = (td: TensorDict, ...path: readonly string[]): boolean => find(td, path) !== undefined

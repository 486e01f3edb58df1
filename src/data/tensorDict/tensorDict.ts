/**
 * TensorDict: an immutable tree of named leaves that share leading batch axes.
 *
 * A node has a batch shape and an ordered map of entries; an entry is a leaf (see `leaf.ts`) or
 * another node whose batch shape begins with this one's. The schema `S` exists only in the types:
 * `get(td, 'next', 'reward')` has a type, and a misspelled key does not compile. Nothing is ever
 * mutated: every function returns a new spine over the same leaves.
 */
import { TENSORS } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import type { OrderedMap } from 'immutable'
import { type Data, isLeaf, type Leaf, raggedLength } from './leaf.js'
import { mapOf, namesOf, type Spine, spineFrom, spineOf, valueAt, valuesOf } from './spine.js'

declare const SCHEMA: unique symbol

export type Entry = Leaf | TensorDict

export interface TensorDict<out S = unknown> {
  readonly _tag: 'TensorDict'
  /** Present in types only. */
  readonly [SCHEMA]?: S | undefined
  readonly batchShape: readonly number[]
  /** The entries as they are stored. Internal to this folder. */
  readonly spine: Spine<Entry>
  /** The entries by name, created on first use. `get`, `find` and `has` do not need it. */
  readonly entries: OrderedMap<string, Entry>
  readonly [TENSORS]: () => Iterable<unknown>
}

/**
 * The argument of `TensorDict`: entries by name. A plain record becomes a node with the same batch
 * shape.
 */
export type Entries = { readonly [key: string]: Entry | Entries }

/** One readable record type instead of an intersection. */
export type Flat<T> = { readonly [K in keyof T]: T[K] } & {}

/** The schema of a node made from entries. */
export type SchemaOf<E> = Flat<{ [K in keyof E]: E[K] extends Entry ? E[K] : TensorDict<SchemaOf<E[K]>> }>

/** The schema of a child node. */
export type ChildSchema<S, K extends keyof S> = S[K] extends TensorDict<infer T> ? T : Readonly<Record<never, never>>

/** `S` with the entries of `X`, which override. Messages and editors print it by this name. */
export type Merge<S, X> = { readonly [K in keyof (Omit<S, keyof X> & X)]: (Omit<S, keyof X> & X)[K] }

/** One problem of a call, with its path. */
export interface TensorDictProblem {
  readonly path: readonly string[]
  readonly reason: string
}

/** The details of a TensorDictError besides its message. */
export interface TensorDictErrorDetails {
  /** The problem in one sentence; absent if `problems` is enough. */
  readonly reason?: string
  /** Every problem that was found, in the order of the keys. */
  readonly problems?: readonly TensorDictProblem[]
  readonly axis?: number
  readonly expected?: unknown
  readonly actual?: unknown
  /** The function to call instead. */
  readonly hint?: string
}

const place = (path: readonly string[]): string => (path.length > 0 ? `at ${showPath(path)}: ` : '')

/**
 * An invalid call on a TensorDict: the operation, the path, the expected and the actual value. One
 * error lists all mismatches.
 */
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

/** Returns the number of batch elements of a batch shape: 1 for the empty shape. */
export const batchSize = (shape: readonly number[]): number => shape.reduce((n, m) => n * m, 1)

const beginsWith = (shape: readonly number[], prefix: readonly number[]): boolean =>
  shape === prefix || (shape.length >= prefix.length && prefix.every((n, i) => shape[i] === n))

const showShape = (shape: readonly number[]): string => `[${shape.join(', ')}]`

/** Describes a value that is not an entry, which only untyped code can pass. */
const noEntry = (value: unknown): string =>
  `expected a tensor, ragged rows, data, meta or a TensorDict, got ${value === null ? 'null' : typeof value}`

/**
 * Returns the reason why an entry does not fit a node with this batch shape, or undefined. Internal
 * to this folder.
 */
export const misfit = (entry: Entry, batchShape: readonly number[]): string | undefined => {
  if (typeof entry !== 'object' || entry === null) return noEntry(entry)
  if (!('_tag' in entry)) {
    if (entry instanceof tf.Variable) {
      return 'a tf.Variable would change with its next assignment: use `variable.clone()`, which keeps its current value'
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

/**
 * Lists every leaf or node, at any depth, that does not fit its node. By law 1 the list is empty.
 */
export const misfits = (node: TensorDict, path: readonly string[] = []): readonly TensorDictProblem[] =>
  [...node.entries].flatMap(([name, entry]) => {
    const reason = misfit(entry, node.batchShape)
    const here = reason === undefined ? [] : [{ path: [...path, name], reason }]
    return isTensorDict(entry) ? [...here, ...misfits(entry, [...path, name])] : here
  })

/**
 * Throws TensorDictError unless a batch shape consists of natural numbers. Internal to this folder.
 */
export const requireShape = (operation: string, batchShape: readonly number[]): void => {
  if (Array.isArray(batchShape) && batchShape.every((n) => Number.isSafeInteger(n) && n >= 0)) return
  throw new TensorDictError(operation, [], {
    reason: `batch shape [${String(batchShape)}] has a size that is not a natural number`,
    expected: 'natural numbers',
    actual: batchShape,
  })
}

/** The members that all nodes share. */
const NODE: Pick<TensorDict, 'entries' | typeof TENSORS> & ThisType<TensorDict> = {
  get entries() {
    return mapOf(this.spine)
  },
  [TENSORS]() {
    return valuesOf(this.spine)
  },
}

/** Creates a node over a spine of entries that are known to fit. Internal to this folder. */
export const nodeOver = <S>(spine: Spine<Entry>, batchShape: readonly number[]): TensorDict<S> => {
  const node = Object.create(NODE) as { -readonly [K in '_tag' | 'batchShape' | 'spine']: TensorDict[K] } // fields follow
  node._tag = 'TensorDict'
  node.batchShape = batchShape
  node.spine = spine
  return node as TensorDict<S> // the other fields are those of NODE
}

/** Creates a node over a map of entries that are known to fit. Internal to this folder. */
export const nodeOf = <S>(entries: OrderedMap<string, Entry>, batchShape: readonly number[]): TensorDict<S> =>
  nodeOver(spineOf(entries), batchShape)

/**
 * Creates a TensorDict.
 *
 * Errors   throws TensorDictError, listing every entry that does not fit the batch shape and every
 *          value that is not an entry.
 * Effects  none: tensors are kept by reference and their owner does not change. A `tf.Variable` is
 *          refused, because it is mutable.
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

/**
 * Lists every entry that does not fit a batch shape and every value that is not an entry. Internal
 * to this folder.
 */
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

/** Returns true for a plain record, which becomes a node. Internal to this folder. */
export const isRecord = (value: Entry | Entries): value is Entries => {
  if (isLeaf(value) || isTensorDict(value) || value === null || typeof value !== 'object') return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** Returns the reason why a value cannot be an entry: types were bypassed, or it does not fit. */
const entryProblem = (value: Entry, batchShape: readonly number[]): string | undefined =>
  isLeaf(value) || isTensorDict(value)
    ? misfit(value, batchShape)
    : `expected a tensor, ragged rows, data, meta or a record, got ${value === null ? 'null' : typeof value}`

/**
 * Returns the node or leaf under a name or a path, or undefined. The empty path is the TensorDict
 * itself.
 */
export const find = (td: TensorDict, path: string | readonly string[]): Entry | undefined => {
  let entry: Entry | undefined = td
  for (const key of typeof path === 'string' ? [path] : path)
    entry = isTensorDict(entry) ? valueAt(entry.spine, key) : undefined
  return entry
}

/**
 * Returns the items of the data leaf under a name or a path, or undefined. `T` is the type that the
 * leaf has by its schema.
 */
export const findData = <T>(td: TensorDict, path: string | readonly string[]): readonly T[] | undefined => {
  const entry = find(td, path)
  return entry !== undefined && '_tag' in entry && entry._tag === 'Data'
    ? (entry as Data<T>).items.toArray()
    : undefined
}

/** Formats a path for errors. */
export const showPath = (path: readonly string[]): string => path.map((name) => JSON.stringify(name)).join(' > ')

/** Lists the keys of a node for an error message, at most twenty. */
const knownKeys = (td: TensorDict): string => {
  const names = [...namesOf(td.spine)]
  const shown = names.slice(0, 20).map((name) => JSON.stringify(name))
  const rest = names.length > shown.length ? ` and ${names.length - shown.length} more` : ''
  return names.length === 0 ? 'the node has no keys' : `the keys are ${shown.join(', ')}${rest}`
}

/**
 * Returns the reason why a path has no entry, with the existing keys, or undefined if it has one.
 */
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
 * Returns the entry under one to four nested keys, with its type.
 *
 * Errors   throws TensorDictError, listing the existing keys, for an unknown key, which is possible
 *          only if the types were bypassed.
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
  throw new TensorDictError('get', path, absence(td, path)!) // the entry is missing
}

/** Returns true if an entry exists at a path. */
export const has = (td: TensorDict, ...path: readonly string[]): boolean => find(td, path) !== undefined

/**
 * TensorDict: an immutable tree of named leaves that share leading batch axes.
 *
 * A node has a batch shape and an ordered map of entries; an entry is a leaf (see `leaf.ts`) or another node whose batch shape
 * begins with this one's. The schema `S` exists in the types alone: `get(td, 'next', 'reward')` has a type, and a misspelt key
 * does not compile. Nothing is ever changed: every function returns a new spine over the same leaves.
 */
import * as tf from '@tensorflow/tfjs'
import { OrderedMap } from 'immutable'
import { TENSORS } from '../../engine/scope.js'
import { isLeaf, type Leaf, raggedLength } from './leaf.js'

declare const SCHEMA: unique symbol

export type Entry = Leaf | TensorDict

export interface TensorDict<out S = unknown> {
  readonly _tag: 'TensorDict'
  /** Present in types only. */
  readonly [SCHEMA]?: S
  readonly batchShape: readonly number[]
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

const place = (path: readonly string[]): string =>
  path.length > 0 ? `at ${path.map((key) => JSON.stringify(key)).join(' > ')}: ` : ''

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
  shape.length >= prefix.length && prefix.every((n, i) => shape[i] === n)

/** What keeps an entry from being part of a node with this batch shape; undefined if nothing does. */
const misfit = (entry: Entry, batchShape: readonly number[]): string | undefined => {
  const expected = `[${batchShape.join(', ')}]`
  if (entry instanceof tf.Tensor) {
    return beginsWith(entry.shape, batchShape)
      ? undefined
      : `tensor of shape [${entry.shape.join(', ')}] does not begin with the batch shape ${expected}`
  }
  const rows = batchSize(batchShape)
  switch (entry._tag) {
    case 'TensorDict':
      return beginsWith(entry.batchShape, batchShape)
        ? undefined
        : `node of batch shape [${entry.batchShape.join(', ')}] does not begin with the batch shape ${expected}`
    case 'Ragged':
      return raggedLength(entry) === rows ? undefined : `${raggedLength(entry)} ragged rows for batch shape ${expected}`
    case 'Data':
      return entry.items.size === rows ? undefined : `${entry.items.size} values for batch shape ${expected}`
    case 'Meta':
      return undefined
  }
}

/** A node over entries that are known to fit. For the other files of this folder. */
export const nodeOf = <S>(entries: OrderedMap<string, Entry>, batchShape: readonly number[]): TensorDict<S> => ({
  _tag: 'TensorDict',
  batchShape,
  entries,
  [TENSORS]: () => entries.values(),
})

/**
 * Makes a TensorDict.
 *
 * Errors   throws TensorDictError, listing every entry that does not fit the batch shape, or a value that is no entry.
 * Effects  none: tensors are kept by reference and stay whoever's they are.
 *
 * @example
 * get(TensorDict({ query: data(['2 + 2?', '1 + 1?']), next: { reward: tf.zeros([2]) } }, [2]), 'query').items.get(0) // '2 + 2?'
 */
export const TensorDict = <const E extends Entries>(
  source: E,
  batchShape: readonly number[],
): TensorDict<SchemaOf<E>> => {
  if (!batchShape.every((n) => Number.isInteger(n) && n >= 0)) {
    throw new TensorDictError(
      'TensorDict',
      [],
      `batch shape [${batchShape.join(', ')}] has a size that is no natural number`,
    )
  }
  const problems: string[] = []
  const build = (part: Entries, path: readonly string[]): TensorDict => {
    const entries = Object.entries(part).map(([key, value]): [string, Entry] => {
      const place = [...path, key]
      const entry = toEntry(value, place)
      const problem = misfit(entry, batchShape)
      if (problem !== undefined) problems.push(`${place.map((k) => JSON.stringify(k)).join(' > ')}: ${problem}`)
      return [key, entry]
    })
    return nodeOf(OrderedMap(entries), batchShape)
  }
  const toEntry = (value: Entry | Entries, path: readonly string[]): Entry => {
    if (isLeaf(value) || isTensorDict(value)) return value
    const prototype: unknown = value === null || typeof value !== 'object' ? undefined : Object.getPrototypeOf(value)
    if (prototype === Object.prototype || prototype === null) return build(value as Entries, path) // a plain record
    throw new TensorDictError(
      'TensorDict',
      path,
      `expected a tensor, ragged rows, data, meta or a record, got ${typeof value}`,
    )
  }
  const result = build(source, [])
  if (problems.length > 0) throw new TensorDictError('TensorDict', [], problems.join('; '))
  return result as TensorDict<SchemaOf<E>> // built from the entries of E
}

/** The node or leaf at a path; undefined if there is none. */
export const find = (td: TensorDict, path: readonly string[]): Entry | undefined => {
  let entry: Entry | undefined = td
  for (const key of path) entry = isTensorDict(entry) ? entry.entries.get(key) : undefined
  return entry
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
  const known = [...td.entries.keys()].map((key) => JSON.stringify(key)).join(', ')
  throw new TensorDictError('get', path, `no such entry; the keys are ${known || 'none'}`)
}

/** Whether there is an entry at a path. */
export const has = (td: TensorDict, ...path: readonly string[]): boolean => find(td, path) !== undefined

/** Where an entry is to go, for the message of an error. */
export interface EntryPlace {
  readonly operation: string
  readonly key: string
}

/** Checks one entry against a node; throws TensorDictError naming it. */
export const requireFit = (entry: Entry, batchShape: readonly number[], { operation, key }: EntryPlace): void => {
  const problem = misfit(entry, batchShape)
  if (problem !== undefined) throw new TensorDictError(operation, [key], problem)
}

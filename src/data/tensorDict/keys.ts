/**
 * Keys: a name, or a path of names from the root. Every string is a name, including `''`, `'a.b'`
 * and `'__proto__'`: names are data, and no character in them means nesting. The types follow a
 * path through a schema, so an unknown key does not compile; a TensorDict of unknown schema accepts
 * any key and is checked at run time.
 */
import type { Leaf } from './leaf.js'
import { type ChildSchema, type Entry, type Flat, type TensorDict, TensorDictError } from './tensorDict.js'

/** Names from the root inwards. */
export type Path = readonly [string, ...string[]]

/** One name, or a path of at least one. */
export type TensorDictKey = string | Path

/** Shortens a path of one name to that name. */
type Short<K> = K extends readonly [infer A] ? A : K

type CheckedPath<S, P> = unknown extends S
  ? P
  : P extends readonly [infer A, ...infer R]
    ? A extends keyof S
      ? R extends readonly []
        ? readonly [A]
        : readonly [A, ...(S[A] extends Leaf ? readonly ['(a leaf has no keys)'] : CheckedPath<ChildSchema<S, A>, R>)]
      : readonly [keyof S & string, ...string[]]
    : never

/** `K` if the key exists; otherwise the existing keys at the position of the mistake. */
type CheckedKey<S, K> = unknown extends S
  ? K
  : K extends string
    ? K extends keyof S
      ? K
      : keyof S & string
    : CheckedPath<S, K>

/** A key that begins with a name of the schema. */
export type KeyOf<S> = unknown extends S ? TensorDictKey : (keyof S & string) | readonly [keyof S & string, ...string[]]

/**
 * The compiler's message for a path with a mistake after its first name. `K` is the path with the
 * existing names at that position.
 */
export interface NoSuchKey<out K> {
  readonly 'no such key; there is': K
}

/** A parameter that accepts `K` if the key exists. */
export type ExistingKey<S, K> = K & (K extends CheckedKey<S, K> ? unknown : NoSuchKey<CheckedKey<S, K>>)

/** The same for each key of a list, written so that the compiler names the existing keys. */
export type ExistingKeys<S, K extends readonly TensorDictKey[]> = {
  readonly [I in keyof K]: K[I] extends CheckedKey<S, K[I]> ? K[I] : CheckedKey<S, K[I]>
}

/** The compiler's message for a path through a leaf. `K` is the name of the leaf. */
export interface NotANode<out K> {
  readonly 'a leaf has no keys inside; it is under': K
}

type LeafOnTheWay<S, P> = P extends readonly [infer A, ...infer R]
  ? R extends readonly []
    ? never
    : A extends keyof S
      ? S[A] extends Leaf
        ? A
        : LeafOnTheWay<ChildSchema<S, A>, R>
      : never
  : never

/** A parameter that accepts `K` unless it leads through a leaf. */
export type PlaceKey<S, K> = K & ([LeafOnTheWay<S, K>] extends [never] ? unknown : NotANode<LeafOnTheWay<S, K>>)

/** The entry under a key. */
export type At<S, K> = unknown extends S
  ? Entry
  : K extends keyof S
    ? S[K]
    : K extends readonly [infer A extends keyof S, ...infer R]
      ? R extends readonly []
        ? S[A]
        : At<ChildSchema<S, A>, R>
      : Entry

/** True if a key is known only at run time. */
type Wide<K> = K extends readonly string[]
  ? number extends K['length']
    ? true
    : string extends K[number]
      ? true
      : false
  : string extends K
    ? true
    : false

/**
 * The schema after setting an entry under a key, with missing nodes created. `unknown` if the key
 * is only known at run time.
 */
export type SetAt<S, K, E> = true extends Wide<K> ? unknown : SetKnown<S, K, E>

type SetKnown<S, K, E> = K extends string
  ? Flat<Omit<S, K> & { readonly [P in K]: E }>
  : K extends readonly [infer A extends string, ...infer R]
    ? R extends readonly []
      ? SetKnown<S, A, E>
      : SetKnown<
          S,
          A,
          TensorDict<SetKnown<A extends keyof S ? ChildSchema<S, A> : Readonly<Record<never, never>>, R, E>>
        >
    : S

/** The remainder of the keys that begin with a name. */
type Behind<K, N> = K extends readonly [N, ...infer R] ? Short<R> : never

/**
 * A schema without the entries under some keys. `unknown` if the keys are only known at run time.
 */
export type ExcludeAt<S, K> = unknown extends S ? unknown : true extends Wide<K> ? unknown : ExcludeShort<S, Short<K>>

type ExcludeShort<S, K> = Flat<{
  [N in keyof S as N extends K ? never : N]: [Behind<K, N>] extends [never]
    ? S[N]
    : S[N] extends TensorDict<infer T>
      ? TensorDict<ExcludeShort<T, Behind<K, N>>>
      : S[N]
}>

type Heads<K> = K extends readonly [infer A, ...unknown[]] ? A : K

/** A schema with only the entries under some keys. */
export type SelectAt<S, K> = unknown extends S ? unknown : SelectShort<S, Short<K>>

type SelectShort<S, K> = Flat<{
  [N in keyof S as N extends Heads<K> ? N : never]: N extends K
    ? S[N]
    : S[N] extends TensorDict<infer T>
      ? TensorDict<SelectShort<T, Behind<K, N>>>
      : never
}>

/** A schema with one entry under another key. */
export type RenameAt<S, A, B> = unknown extends S ? unknown : SetAt<ExcludeAt<S, A>, B, At<S, A>>

/** Describes the type of a value for error messages. Internal to this folder. */
export const kindOf = (value: unknown): string => {
  if (value === null) return 'null'
  if (!Array.isArray(value)) return typeof value
  return value.length === 0 ? 'an empty list' : `a list of ${[...new Set(value.map(kindOf))].join(' and ')}`
}

/**
 * Returns the path of a key. Errors: throws TensorDictError unless it is a string or a non-empty
 * list of strings.
 */
export const pathOf = (operation: string, key: TensorDictKey): Path => {
  const names: readonly unknown[] = typeof key === 'string' ? [key] : Array.isArray(key) ? key : []
  if (names.length > 0 && names.every((name) => typeof name === 'string')) return names as unknown as Path // just checked
  throw new TensorDictError(operation, [], {
    reason: `a key is a string or a list of at least one string, got ${kindOf(key)}`,
    expected: 'a string or a list of strings',
    actual: key,
  })
}

/** Returns true if `path` begins with `prefix` (or equals it). */
export const startsWith = (path: readonly string[], prefix: readonly string[]): boolean =>
  prefix.length <= path.length && prefix.every((name, i) => path[i] === name)

/** Keys as a tree: `all` at the end of a key, which covers every longer key. */
export type KeyTree = 'all' | ReadonlyMap<string, KeyTree>

/** Builds the tree of some paths. */
export const keyTree = (paths: readonly (readonly string[])[]): KeyTree => {
  if (paths.some((path) => path.length === 0)) return 'all'
  const names = [...new Set(paths.map(([name]) => name!))] // no path is empty
  return new Map(
    names.map((name) => [name, keyTree(paths.filter(([first]) => first === name).map((path) => path.slice(1)))]),
  )
}

/**
 * Keys: a name, or a path of names from the root. Every string is a name, `''`, `'a.b'` and `'__proto__'` too: names are data, and nothing
 * in them means nesting. The types follow a path through a schema, so that a key that is not there does not compile; a TensorDict whose
 * schema is not known takes any key and is checked when it runs.
 */
import type { Leaf } from './leaf.js'
import { type ChildSchema, type Entry, type Flat, type TensorDict, TensorDictError } from './tensorDict.js'

/** Names from the root inwards. */
export type Path = readonly [string, ...string[]]

/** One name, or a path of at least one. */
export type TensorDictKey = string | Path

/** A path of one name is that name. */
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

/** `K` if there is such a key; otherwise the keys that there are at the place where it goes wrong. */
type CheckedKey<S, K> = unknown extends S
  ? K
  : K extends string
    ? K extends keyof S
      ? K
      : keyof S & string
    : CheckedPath<S, K>

/** What a key can be that begins with a name of the schema. */
export type KeyOf<S> = unknown extends S ? TensorDictKey : (keyof S & string) | readonly [keyof S & string, ...string[]]

/** The compiler's text for a path that goes wrong behind its first name; `K` is the path with the names that there are instead. */
export interface NoSuchKey<out K> {
  readonly 'no such key; there is': K
}

/** A parameter that takes `K` if there is such a key. */
export type ExistingKey<S, K> = K & (K extends CheckedKey<S, K> ? unknown : NoSuchKey<CheckedKey<S, K>>)

/** The same for each of a list. Written so that the compiler names the keys that there are. */
export type ExistingKeys<S, K extends readonly TensorDictKey[]> = {
  readonly [I in keyof K]: K[I] extends CheckedKey<S, K[I]> ? K[I] : CheckedKey<S, K[I]>
}

/** The compiler's text for a path through a leaf; `K` is the name of the leaf. */
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

/** A parameter that takes `K` unless it leads through a leaf. */
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

/** Whether a key is known only when the program runs. */
type Wide<K> = K extends readonly string[]
  ? number extends K['length']
    ? true
    : string extends K[number]
      ? true
      : false
  : string extends K
    ? true
    : false

/** A schema with an entry under a key, in nodes that are made where there are none; not known if the key is not. */
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

/** What is left of those keys that begin with a name. */
type Behind<K, N> = K extends readonly [N, ...infer R] ? Short<R> : never

/** A schema without the entries under some keys; not known if they are not. */
export type ExcludeAt<S, K> = unknown extends S ? unknown : true extends Wide<K> ? unknown : ExcludeShort<S, Short<K>>

type ExcludeShort<S, K> = Flat<{
  [N in keyof S as N extends K ? never : N]: [Behind<K, N>] extends [never]
    ? S[N]
    : S[N] extends TensorDict<infer T>
      ? TensorDict<ExcludeShort<T, Behind<K, N>>>
      : S[N]
}>

type Heads<K> = K extends readonly [infer A, ...unknown[]] ? A : K

/** A schema with the entries under some keys alone. */
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

/** What a value is, for the text of an error. For the other files of this folder. */
export const kindOf = (value: unknown): string => {
  if (value === null) return 'null'
  if (!Array.isArray(value)) return typeof value
  return value.length === 0 ? 'an empty list' : `a list of ${[...new Set(value.map(kindOf))].join(' and ')}`
}

/** The path of a key. Errors: throws TensorDictError for what is neither a string nor a non-empty list of strings. */
export const pathOf = (operation: string, key: TensorDictKey): Path => {
  const names: readonly unknown[] = typeof key === 'string' ? [key] : Array.isArray(key) ? key : []
  if (names.length > 0 && names.every((name) => typeof name === 'string')) return names as unknown as Path // just checked
  throw new TensorDictError(operation, [], {
    reason: `a key is a string or a list of at least one string, got ${kindOf(key)}`,
    expected: 'a string or a list of strings',
    actual: key,
  })
}

/** Whether `path` begins with `prefix` (or is it). */
export const startsWith = (path: readonly string[], prefix: readonly string[]): boolean =>
  prefix.length <= path.length && prefix.every((name, i) => path[i] === name)

/** Keys as a tree: `all` where a key ends, which covers every key that goes on from there. */
export type KeyTree = 'all' | ReadonlyMap<string, KeyTree>

/** The tree of some paths. */
export const keyTree = (paths: readonly (readonly string[])[]): KeyTree => {
  if (paths.some((path) => path.length === 0)) return 'all'
  const names = [...new Set(paths.map(([name]) => name!))] // no path is empty
  return new Map(
    names.map((name) => [name, keyTree(paths.filter(([first]) => first === name).map((path) => path.slice(1)))]),
  )
}

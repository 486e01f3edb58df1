/** Links each call of a session to the call that it continues, by comparing tokens, never text. */
import { joinInts } from '@tandem-rl/base'
import type { CapturedCall, CapturedCompletion } from './session.js'

/** A completion in the tree of a session. */
export interface LinkedCall {
  readonly call: CapturedCall
  readonly completion: number
  readonly sampled: CapturedCompletion
  /** The prompt followed by the sampled tokens. */
  readonly full: Int32Array
  readonly parent: LinkedCall | null
}

/** The calls of a session as a forest. */
export interface CallForest {
  /** The completions that are `ok`, in the order of calls. */
  readonly nodes: readonly LinkedCall[]
  /**
   * The completion that each call continues, by the call's index; null for a call that starts a
   * conversation.
   */
  readonly parents: ReadonlyMap<number, LinkedCall | null>
}

const START = 0x811c9dc5

/** Adds a token to a hash. */
const mix = (hash: number, id: number): number => Math.imul(hash ^ id, 0x01000193)

const hashOf = (ids: Int32Array): number => ids.reduce(mix, START)

const place = (length: number, hash: number): string => `${length}:${hash}`

/** Returns true if `ids` begin with `start`. */
const beginsWith = (ids: Int32Array, start: Int32Array): boolean => {
  if (start.length > ids.length) return false
  for (let i = 0; i < start.length; i++) if (ids[i] !== start[i]) return false
  return true
}

/**
 * Returns the length of the common prefix of two lists of tokens.
 *
 * @example
 * commonStart(Int32Array.of(1, 2, 3), Int32Array.of(1, 2, 4)) // 2
 */
export const commonStart = (a: Int32Array, b: Int32Array): number => {
  const most = Math.min(a.length, b.length)
  let i = 0
  while (i < most && a[i] === b[i]) i++
  return i
}

type Seed = Omit<LinkedCall, 'parent'>

/**
 * Returns the completions whose tokens may be a prefix of a prompt, from the longest to the
 * shortest. Among equals, later completions come first.
 */
const candidates = (prompt: Int32Array, known: ReadonlyMap<string, readonly Seed[]>, lengths: ReadonlySet<number>) => {
  const found: Seed[] = []
  let hash = START
  for (let i = 0; i < prompt.length; i++) {
    hash = mix(hash, prompt[i]!)
    if (lengths.has(i + 1)) found.push(...(known.get(place(i + 1, hash)) ?? []))
  }
  return found.reverse()
}

/** Adds a seed to the list of a key. */
const addTo = <K>(lists: Map<K, Seed[]>, key: K, seed: Seed): void => {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [seed])
  else list.push(seed)
}

/**
 * Links the calls of a session. Call B continues completion A if B's prompt begins with A's prompt
 * and all of A's tokens. Of several candidates the longest wins, and of equal ones the last without
 * a continuation so far. Only completions of earlier calls that are `ok` can be continued.
 *
 * Laws     the order of `calls` does not matter; every node begins with its parent's tokens.
 * Cost     linear in the tokens of all calls, if few prompts are equal.
 */
export const linkCalls = (calls: readonly CapturedCall[]): CallForest => {
  const ordered = calls.toSorted((a, b) => a.index - b.index)
  const seeds = ordered.flatMap((call) =>
    call.completions.flatMap((sampled, completion): readonly Seed[] =>
      sampled.status === 'ok' ? [{ call, completion, sampled, full: joinInts([call.prompt, sampled.ids]) }] : [],
    ),
  )
  const seedsOf = new Map<CapturedCall, Seed[]>()
  const known = new Map<string, Seed[]>()
  for (const seed of seeds) {
    addTo(seedsOf, seed.call, seed)
    addTo(known, place(seed.full.length, hashOf(seed.full)), seed)
  }
  const lengths = new Set(seeds.map(({ full }) => full.length))
  const nodeOf = new Map<Seed, LinkedCall>()
  const continued = new Set<LinkedCall>()
  const parents = new Map<number, LinkedCall | null>()
  for (const call of ordered) {
    const fits = (seed: Seed): boolean => seed.call.index < call.index && beginsWith(call.prompt, seed.full)
    const found = candidates(call.prompt, known, lengths)
    const longest = found.find(fits)?.full.length
    const equal = found.filter((seed) => seed.full.length === longest && fits(seed)).map((seed) => nodeOf.get(seed)!)
    const parent = equal.find((node) => !continued.has(node)) ?? equal[0] ?? null
    parents.set(call.index, parent)
    const mine = seedsOf.get(call) ?? []
    for (const seed of mine) nodeOf.set(seed, { ...seed, parent })
    if (parent !== null && mine.length > 0) continued.add(parent)
  }
  return { nodes: seeds.map((seed) => nodeOf.get(seed)!), parents }
}

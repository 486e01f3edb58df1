/** Chooses a replica for a request, as a pure function of earlier choices. */
import { type RecentMap, recall, recentMap, remember } from '@tandem-rl/base'

/** The record of earlier choices. */
export interface Routing {
  /** Replicas by conversation. */
  readonly conversations: RecentMap<number>
  /** Replicas by prefix of prompts. */
  readonly prefixes: RecentMap<number>
}

/** The current state of a replica. Its index in the list identifies it. */
export interface Replica {
  /** Number of requests, waiting or running. */
  readonly load: number
  /** `no` if it accepts no requests. */
  readonly takes: 'yes' | 'no'
}

export interface RouteRequest {
  readonly conversation?: string
  /** Token ids. The replica of the longest known prefix probably has it cached. */
  readonly prompt?: ArrayLike<number>
}

export interface Route {
  readonly replica: number
  readonly because: 'conversation' | 'prefix' | 'load'
  readonly routing: Routing
}

/** Number of tokens in a block. Prefixes are remembered in whole blocks. */
const BLOCK = 32

/**
 * A replica with more than this multiple of the mean load, plus this many requests, gets no
 * requests because of prefixes.
 */
const MOST_LOAD = 1.25
const SLACK = 4

/**
 * Returns an empty record. It remembers the last `conversations` and `blocks`, and at most twice as
 * many.
 *
 * @example
 * route(startRouting(), [{ load: 3, takes: 'yes' }, { load: 1, takes: 'yes' }], {})?.replica // 1
 */
export const startRouting = ({ conversations = 65_536, blocks = 262_144 } = {}): Routing => ({
  conversations: recentMap(conversations),
  prefixes: recentMap(blocks),
})

/**
 * Hashes numbers to 53 bits with two running sums. The multipliers are those of FNV-1a and
 * MurmurHash2.
 */
const stir = (): { readonly add: (value: number) => void; readonly value: () => number } => {
  let a = 0x811c9dc5
  let b = 0x9747b28c
  return {
    add: (value) => {
      a = Math.imul(a ^ value, 0x01000193)
      a ^= a >>> 15
      b = Math.imul((b ^ value) + 0x7f4a7c15, 0x5bd1e995)
      b ^= b >>> 13
    },
    value: () => (a >>> 0) * 2 ** 21 + (b >>> 11),
  }
}

const hashText = (text: string): number => {
  const hash = stir()
  for (let i = 0; i < text.length; i++) hash.add(text.charCodeAt(i))
  return hash.value()
}

/** Hashes each prefix of whole blocks, shortest first. */
const hashBlocks = (prompt: ArrayLike<number>): readonly number[] => {
  const hash = stir()
  const hashes: number[] = []
  for (let i = 0; i < prompt.length; i++) {
    hash.add(prompt[i]!)
    if ((i + 1) % BLOCK === 0) hashes.push(hash.value())
  }
  return hashes
}

const leastLoaded = (replicas: readonly Replica[], candidates: readonly number[]): number =>
  candidates.reduce((best, i) => (replicas[i]!.load < replicas[best]!.load ? i : best))

/** Returns the replica of the longest remembered prefix among the candidates. */
const longestPrefix = (
  routing: Routing,
  hashes: readonly number[],
  candidates: readonly number[],
): number | undefined => {
  for (const hash of [...hashes].reverse()) {
    const replica = recall(routing.prefixes, hash)
    if (replica !== undefined && candidates.includes(replica)) return replica
  }
  return undefined
}

/**
 * Returns the replica for a request: that of its conversation; otherwise the one with the longest
 * known prefix of the prompt, unless it is much busier than the others; otherwise the least loaded
 * one, the first of them in a tie. Replicas that accept no requests are left out. A conversation
 * whose replica accepts no requests moves to another one permanently. Returns `undefined` if no
 * replica accepts requests.
 *
 * Cost     O(P / 32 log n) for a prompt of P tokens, and O(P) to read it.
 */
export const route = (routing: Routing, replicas: readonly Replica[], request: RouteRequest): Route | undefined => {
  const { conversation, prompt = [] } = request
  const candidates = replicas.flatMap(({ takes }, i) => (takes === 'yes' ? [i] : []))
  if (candidates.length === 0) return undefined

  const talk = conversation === undefined ? undefined : hashText(conversation)
  const home = talk === undefined ? undefined : recall(routing.conversations, talk)
  const hashes = hashBlocks(prompt)
  const cached = longestPrefix(routing, hashes, candidates)
  const total = candidates.reduce((sum, i) => sum + replicas[i]!.load, 0)
  const isBusy = (i: number): boolean => replicas[i]!.load > (MOST_LOAD * total) / candidates.length + SLACK

  const chosen = ((): Pick<Route, 'replica' | 'because'> => {
    if (home !== undefined && candidates.includes(home)) return { replica: home, because: 'conversation' }
    if (cached !== undefined && !isBusy(cached)) return { replica: cached, because: 'prefix' }
    return { replica: leastLoaded(replicas, candidates), because: 'load' }
  })()
  return {
    ...chosen,
    routing: {
      conversations:
        talk === undefined || (home !== undefined && candidates.includes(home))
          ? routing.conversations
          : remember(routing.conversations, talk, chosen.replica),
      prefixes: hashes.reduce((prefixes, hash) => remember(prefixes, hash, chosen.replica), routing.prefixes),
    },
  }
}

/** Chooses a replica for a request: a pure function of the earlier choices. */
import { type RecentMap, recall, recentMap, remember } from '../../core/recentMap.js'

/** What was routed where. */
export interface Routing {
  /** Replicas by conversation. */
  readonly conversations: RecentMap<number>
  /** Replicas by what prompts begin with. */
  readonly prefixes: RecentMap<number>
}

/** A replica as it is now. Its place in the list is its name. */
export interface Replica {
  /** Requests there, waiting or underway. */
  readonly load: number
  /** `no`: nothing is to be sent there. */
  readonly takes: 'yes' | 'no'
}

export interface RouteRequest {
  readonly conversation?: string
  /** Token ids. Their cache is where the longest beginning of them went before. */
  readonly prompt?: ArrayLike<number>
}

export interface Route {
  readonly replica: number
  readonly because: 'conversation' | 'prefix' | 'load'
  readonly routing: Routing
}

/** Tokens of a block: beginnings are remembered in whole blocks. */
const BLOCK = 32

/** A replica with that many times the mean load, and that many requests more, gets no others for the sake of their beginnings. */
const MOST_LOAD = 1.25
const SLACK = 4

/**
 * Nothing was routed yet. The last `conversations` and `blocks` are remembered, and at most twice as many.
 *
 * @example
 * route(startRouting(), [{ load: 3, takes: 'yes' }, { load: 1, takes: 'yes' }], {})?.replica // 1
 */
export const startRouting = ({ conversations = 65_536, blocks = 262_144 } = {}): Routing => ({
  conversations: recentMap(conversations),
  prefixes: recentMap(blocks),
})

/** Two sums that each number goes into, as one of 53 bits. Multipliers are those of FNV-1a and of MurmurHash2. */
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

/** Of each beginning of whole blocks, shortest first. */
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

/** The replica of the longest beginning that a candidate remembers. */
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
 * The replica of a request: that of its conversation; else the one that had the longest beginning of the prompt, unless that has much more
 * to do than the others; else the one with the least to do, the first of them if there are several. Replicas that take nothing are left
 * out. A conversation whose replica takes nothing moves to another one, for good. Undefined if no replica takes anything.
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

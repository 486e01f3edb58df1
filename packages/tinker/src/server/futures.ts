/** Results that clients fetch later, by the number of their request. */
import type { Timers } from '@tandem-rl/base'

/** The result of a request, in the forms that the wire may carry, and about how large it is. */
export type FutureResult =
  | {
      readonly _tag: 'Done'
      readonly json: () => object
      readonly protobuf: (() => Uint8Array) | null
      readonly bytes: number
    }
  | { readonly _tag: 'Failed'; readonly reason: string; readonly category: 'user' | 'server' }

/** A future as it is now. `gone`: it was settled long ago and its result is no longer held. */
type FutureNow = FutureResult | { readonly _tag: 'Pending' } | { readonly _tag: 'Gone' } | undefined

/** A request that a future is made for. */
interface Opening {
  readonly id: string
  readonly digest: string
  /** The client that may fetch the result; null for every client. */
  readonly owner: string | null
  /** Bytes of its body, which are held until it is settled. */
  readonly bytes: number
}

/** A mutable value: the futures of all clients. */
export interface Futures {
  /** The digest of the body with which a future was made; undefined for an unknown one. */
  readonly digestOf: (id: string) => string | undefined
  /** Errors: returns `full` if too many futures, or too many bytes, are pending. */
  readonly open: (opening: Opening) => 'opened' | 'full'
  readonly settle: (id: string, result: FutureResult) => void
  /** Takes back a pending future that no client knows. */
  readonly discard: (id: string) => void
  /** Waits until a future of a client is settled, at most `ms`. */
  readonly wait: (id: string, owner: string | null, ms: number) => Promise<FutureNow>
  readonly size: () => number
}

interface Entry extends Omit<Opening, 'id'> {
  result: FutureResult | 'pending' | 'gone'
  waiting: readonly (() => void)[]
}

interface FutureLimits {
  /** Futures that are not settled, and bytes of their bodies together. */
  readonly pending: number
  readonly pendingBytes: number
  /** FutureResult futures whose results are held. Of older ones only the digest is held. */
  readonly results: number
  readonly resultBytes: number
  /** Futures that are known at all. */
  readonly known: number
}

/** Makes a store of futures. The oldest settled results are forgotten first. */
export const makeFutures = (timers: Timers, limits: FutureLimits): Futures => {
  const entries = new Map<string, Entry>()
  let [pending, pendingBytes, heldBytes] = [0, 0, 0]
  const held = new Map<string, number>() // bytes of results, in order

  const end = ({ bytes }: Entry): void => {
    pending--
    pendingBytes -= bytes
  }
  const forget = (): void => {
    for (const [id, bytes] of held) {
      if (held.size <= limits.results && (heldBytes <= limits.resultBytes || held.size === 1)) break
      held.delete(id)
      heldBytes -= bytes
      const entry = entries.get(id)
      if (entry !== undefined) entry.result = 'gone'
    }
    for (const [id, { result }] of entries) {
      if (entries.size <= limits.known) return
      if (result === 'gone') entries.delete(id)
    }
  }
  const now = (id: string, owner: string | null): FutureNow => {
    const entry = entries.get(id)
    const result = entry?.owner === owner ? entry.result : undefined
    if (result === 'pending') return { _tag: 'Pending' }
    return result === 'gone' ? { _tag: 'Gone' } : result
  }

  return {
    digestOf: (id) => entries.get(id)?.digest,
    open: ({ id, ...opening }) => {
      if (pending >= limits.pending) return 'full'
      if (pending > 0 && pendingBytes + opening.bytes > limits.pendingBytes) return 'full'
      pending++
      pendingBytes += opening.bytes
      entries.set(id, { ...opening, result: 'pending', waiting: [] })
      return 'opened'
    },
    settle: (id, result) => {
      const entry = entries.get(id)
      if (entry?.result !== 'pending') return
      entry.result = result
      end(entry)
      const bytes = result._tag === 'Done' ? result.bytes : 0
      held.set(id, bytes)
      heldBytes += bytes
      const { waiting } = entry
      entry.waiting = []
      for (const go of waiting) go()
      forget()
    },
    discard: (id) => {
      const entry = entries.get(id)
      if (entry?.result !== 'pending') return
      entries.delete(id)
      end(entry)
    },
    wait: async (id, owner, ms) => {
      const entry = entries.get(id)
      if (entry?.result !== 'pending' || entry.owner !== owner || ms <= 0) return now(id, owner)
      await new Promise<void>((resolve) => {
        const cancel = timers.after(ms, () => {
          entry.waiting = entry.waiting.filter((each) => each !== go)
          resolve()
        })
        const go = (): void => {
          cancel()
          resolve()
        }
        entry.waiting = [...entry.waiting, go]
      })
      return now(id, owner)
    },
    size: () => entries.size,
  }
}

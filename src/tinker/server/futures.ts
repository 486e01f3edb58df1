/** Results that clients fetch later, by the number of their request. */
import type { Timers } from '../../core/capabilities.js'

/** The result of a request, in the forms that the wire may carry. */
export type FutureResult =
  | { readonly _tag: 'Done'; readonly json: () => object; readonly protobuf: (() => Uint8Array) | null }
  | { readonly _tag: 'Failed'; readonly reason: string; readonly category: 'user' | 'server' }

/** A future as it is now. `gone`: it was settled long ago and its result is no longer held. */
type FutureNow = FutureResult | { readonly _tag: 'Pending' } | { readonly _tag: 'Gone' } | undefined

/** A mutable value: the futures of all clients. */
export interface Futures {
  /** The digest of the body with which a future was made; undefined for an unknown one. */
  readonly digestOf: (id: string) => string | undefined
  /** Errors: returns `full` if too many futures are pending. */
  readonly open: (id: string, digest: string) => 'opened' | 'full'
  readonly settle: (id: string, result: FutureResult) => void
  /** Takes back a pending future that no client knows. */
  readonly discard: (id: string) => void
  readonly now: (id: string) => FutureNow
  /** Waits until a future is settled, at most `ms`. */
  readonly wait: (id: string, ms: number) => Promise<FutureNow>
  readonly size: () => number
}

interface Entry {
  readonly digest: string
  result: FutureResult | 'pending' | 'gone'
  waiting: readonly (() => void)[]
}

interface FutureLimits {
  /** Futures that are not settled. */
  readonly pending: number
  /** FutureResult futures whose results are held. Of older ones only the digest is held. */
  readonly results: number
  /** Futures that are known at all. */
  readonly known: number
}

/** Makes a store of futures. The oldest settled results are forgotten first. */
export const makeFutures = (timers: Timers, limits: FutureLimits): Futures => {
  const entries = new Map<string, Entry>()
  let pending = 0
  const held: string[] = []

  const forget = (): void => {
    while (held.length > limits.results) {
      const entry = entries.get(held.shift()!)
      if (entry !== undefined) entry.result = 'gone'
    }
    for (const [id, { result }] of entries) {
      if (entries.size <= limits.known) return
      if (result === 'gone') entries.delete(id)
    }
  }
  const now = (id: string): FutureNow => {
    const result = entries.get(id)?.result
    if (result === 'pending') return { _tag: 'Pending' }
    return result === 'gone' ? { _tag: 'Gone' } : result
  }

  return {
    digestOf: (id) => entries.get(id)?.digest,
    open: (id, digest) => {
      if (pending >= limits.pending) return 'full'
      pending++
      entries.set(id, { digest, result: 'pending', waiting: [] })
      return 'opened'
    },
    settle: (id, result) => {
      const entry = entries.get(id)
      if (entry?.result !== 'pending') return
      entry.result = result
      pending--
      held.push(id)
      const { waiting } = entry
      entry.waiting = []
      for (const go of waiting) go()
      forget()
    },
    discard: (id) => {
      if (entries.get(id)?.result !== 'pending') return
      entries.delete(id)
      pending--
    },
    now,
    wait: async (id, ms) => {
      const entry = entries.get(id)
      if (entry?.result !== 'pending' || ms <= 0) return now(id)
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
      return now(id)
    },
    size: () => entries.size,
  }
}

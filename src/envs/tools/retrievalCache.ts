/**
 * A cache of answers behind the interface of Keyv: in memory, SQLite, Redis, or what else has a
 * store for it. A cache that is dead or holds nonsense costs time, never an answer.
 */

import { isRight } from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { ABORTED, cancellation, unlessAborted } from '../../core/cancellation.js'
import { errorMessage } from '../../core/failure.js'
import { parseJson } from '../../core/json.js'

/** What is used of a Keyv: `new Keyv()` and `new Keyv({ store })` have it. */
export interface RetrievalStore {
  readonly get: (key: string) => Promise<unknown>
  /** False if it was not stored. */
  readonly set: (key: string, value: string, ttlMs?: number) => Promise<unknown>
  readonly on?: (event: 'error', listener: (error: unknown) => void) => unknown
}

export interface RetrievalCacheOptions {
  readonly store: RetrievalStore
  /** How long an answer is good. Default: for ever. */
  readonly ttlMs?: number
  /** How long the store is waited for. Default 2,000. */
  readonly waitMs?: number
}

/** A piece of text that was found. */
export interface Passage {
  readonly text: string
  readonly title?: string
  readonly url?: string
  readonly score?: number
}

const passageSchema = z.strictObject({
  text: z.string(),
  title: z.string().optional(),
  url: z.string().optional(),
  score: z.number().optional(),
})

/** With the key that it was stored under: an entry that got under another one is none. */
const entrySchema = z.strictObject({ key: z.string(), passages: z.array(passageSchema) })

export interface RetrievalCache {
  /** Undefined if there is nothing of use. */
  readonly get: (key: string) => Promise<readonly Passage[] | undefined>
  readonly set: (key: string, passages: readonly Passage[]) => Promise<void>
}

/** zod leaves optional fields as `undefined`, which are left out here. */
const passageOf = ({ text, title, url, score }: z.output<typeof passageSchema>): Passage => ({
  text,
  ...(title !== undefined && { title }),
  ...(url !== undefined && { url }),
  ...(score !== undefined && { score }),
})

/**
 * A cache on a store.
 *
 * Effects  those of the store. `onNote` is told when the store fails, once until it works again,
 *          and of every entry that is nonsense.
 */
export const retrievalCache = (
  { store, ttlMs, waitMs = 2000 }: RetrievalCacheOptions,
  onNote: (note: string) => void,
): RetrievalCache => {
  let health: 'well' | 'ill' = 'well'
  const fail = (reason: string): void => {
    if (health === 'well') onNote(`the cache does not work, and is done without: ${reason}`)
    health = 'ill'
  }
  // Keyv tells errors of its store as events, and throws for an event that nobody listens to.
  store.on?.('error', (error) => fail(errorMessage(error)))
  /** What the store says in time; undefined if it fails. */
  const ask = async (work: () => Promise<unknown>): Promise<unknown> => {
    const life = cancellation({ deadlineMs: waitMs })
    try {
      const value = await unlessAborted(work(), life.signal)
      if (value !== ABORTED) return value
      fail(`no answer within ${waitMs} ms`)
    } catch (error) {
      fail(errorMessage(error))
    } finally {
      life.release()
    }
    return undefined
  }
  return {
    get: async (key) => {
      const found = await ask(() => store.get(key))
      if (found === undefined || found === null) return undefined
      health = 'well'
      const json = typeof found === 'string' ? parseJson(found) : undefined
      const entry = json !== undefined && isRight(json) ? entrySchema.safeParse(json.right) : undefined
      if (entry?.success === true && entry.data.key === key) return entry.data.passages.map(passageOf)
      onNote(`the cache holds nonsense under ${key}, which is replaced`)
      return undefined
    },
    set: async (key, passages) => {
      const stored = await ask(() => store.set(key, JSON.stringify({ key, passages }), ttlMs))
      if (stored === false) fail('it did not store an entry')
      else if (stored !== undefined) health = 'well'
    },
  }
}

/**
 * A cache of search results with Keyv's interface: in memory, SQLite, Redis or any other store of
 * Keyv. A cache that fails or has invalid entries costs time, but never a result.
 */
import { ABORTED, cancellation, errorMessage, parseJson, unlessAborted } from '@tandem-rl/base'
import { isRight } from 'fp-ts/lib/Either.js'
import { z } from 'zod'

/** The part of Keyv that is used: `new Keyv()` and `new Keyv({ store })` have it. */
export interface RetrievalStore {
  readonly get: (key: string) => Promise<unknown>
  /** Resolves with false if the entry was not stored. */
  readonly set: (key: string, value: string, ttlMs?: number) => Promise<unknown>
  readonly on?: (event: 'error', listener: (error: unknown) => void) => unknown
}

export interface RetrievalCacheOptions {
  readonly store: RetrievalStore
  /** Milliseconds after which an entry expires. Default: never. */
  readonly ttlMs?: number
  /** Time limit of the store in milliseconds. Default 2,000. */
  readonly waitMs?: number
}

/** A passage of text that was found. */
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

/** Entries contain their key, so that one stored under a different key is detected as invalid. */
const entrySchema = z.strictObject({ key: z.string(), passages: z.array(passageSchema) })

export interface RetrievalCache {
  /** Resolves with undefined if there is no valid entry. */
  readonly get: (key: string) => Promise<readonly Passage[] | undefined>
  readonly set: (key: string, passages: readonly Passage[]) => Promise<void>
}

/** Drops optional fields that zod sets to `undefined`. */
const passageOf = ({ text, title, url, score }: z.output<typeof passageSchema>): Passage => ({
  text,
  ...(title !== undefined && { title }),
  ...(url !== undefined && { url }),
  ...(score !== undefined && { score }),
})

/**
 * Makes a cache on a store.
 *
 * Effects  those of the store. Calls `onNote` once when the store starts to fail, and for every
 *          invalid entry.
 */
export const retrievalCache = (
  { store, ttlMs, waitMs = 2000 }: RetrievalCacheOptions,
  onNote: (note: string) => void,
): RetrievalCache => {
  let health: 'well' | 'ill' = 'well'
  const fail = (reason: string): void => {
    if (health === 'well') onNote(`the cache failed and is bypassed: ${reason}`)
    health = 'ill'
  }
  // Keyv reports errors of its store as events, and throws if an event has no listener.
  store.on?.('error', (error) => fail(errorMessage(error)))
  /** Resolves with the store's value; undefined if it fails or takes too long. */
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
      onNote(`the cache entry ${key} is invalid and is replaced`)
      return undefined
    },
    set: async (key, passages) => {
      const stored = await ask(() => store.set(key, JSON.stringify({ key, passages }), ttlMs))
      if (stored === false) fail('an entry was not stored')
      else if (stored !== undefined) health = 'well'
    },
  }
}

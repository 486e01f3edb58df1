/** The scheduler's decisions as pure functions of sizes. */

/** Largest length of the smallest class in tokens. */
const SMALLEST = 64

/** Ratio of the largest lengths of neighboring classes. */
const FACTOR = 4

/**
 * Returns the length class of a row: 0 up to 64 tokens, 1 up to 256, 2 up to 1,024, and so on.
 *
 * Rows of one class are decoded together. Each row of a lane costs as much as the longest one, so a
 * row costs at most four times its own length.
 *
 * Errors   throws RangeError unless `length` is a positive integer.
 *
 * @example
 * [1, 64, 65, 256, 257].map(lengthClass) // [0, 0, 1, 1, 2]
 */
export const lengthClass = (length: number): number => {
  if (!Number.isInteger(length) || length < 1)
    throw new RangeError(`lengthClass: length must be positive, got ${length}`)
  let reached = SMALLEST
  for (let index = 0; ; index++) {
    if (length <= reached) return index
    reached *= FACTOR
  }
}

/** A prompt that is being computed. */
export interface Computing {
  /** Number of tokens left to compute; at least 1. */
  readonly remaining: number
  /** Maximum number of tokens per call: the scores of all their positions are held in memory. */
  readonly limit: number
}

/**
 * Distributes the next call over prompts: the number of tokens of each, in order, at most `budget`
 * in total. Prompts that must wait get 0.
 *
 * Laws     the sum is at most `max(1, budget)`; the first prompt gets at least one token; a prompt
 *          gets tokens only if each one before it got its maximum.
 *
 * @example
 * planChunks([{ remaining: 3, limit: 100 }, { remaining: 9, limit: 100 }], 8) // [3, 5]
 */
export const planChunks = (prompts: readonly Computing[], budget: number): readonly number[] => {
  const chunks: number[] = []
  let left = Math.max(1, budget)
  for (const { remaining, limit } of prompts) {
    const chunk = Math.min(remaining, Math.max(1, limit), left)
    chunks.push(chunk)
    left -= chunk
  }
  return chunks
}

/** A position in the queue: requests by arrival, completions of one request by index. */
export interface Age {
  readonly arrival: number
  readonly index: number
}

/** Compares two ages: negative if `a` is older. */
export const byAge = (a: Age, b: Age): number => a.arrival - b.arrival || a.index - b.index

/** The demand of a waiting request. */
export interface Asking {
  /** Number of rows in which it is decoded. */
  readonly rows: number
  /** Number of tokens to compute before that; 0 if an earlier request computes them. */
  readonly tokens: number
}

/** The available capacity. */
export interface Room {
  /** Number of rows that can still be decoded. */
  readonly rows: number
  /**
   * Prompt tokens that this step may still start. Requests that could not start yet wait, because
   * they may find more in the cache later.
   */
  readonly tokens: number
  /**
   * True if nothing is being computed. The first request is then admitted regardless of memory,
   * because it was checked to fit alone.
   */
  readonly isIdle: boolean
  /**
   * Returns true if memory suffices for the first `count` waiting requests in addition to current
   * work.
   */
  readonly fits: (count: number) => boolean
}

/**
 * Returns the number of requests to admit from the head of the queue. Requests never overtake each
 * other, so no request starves.
 *
 * Laws     admitted requests have rows and memory. If nothing is being computed, at least one
 *          request with enough rows is admitted.
 *
 * @example
 * const room = { rows: 4, tokens: 9, isIdle: true, fits: () => true }
 * planAdmission([{ rows: 2, tokens: 5 }, { rows: 3, tokens: 5 }], room) // 1
 */
export const planAdmission = (line: readonly Asking[], room: Room): number => {
  let [rows, tokens] = [0, 0]
  for (const [count, asking] of line.entries()) {
    const isFirst = room.isIdle && count === 0
    rows += asking.rows
    if (rows > room.rows) return count
    if (tokens >= room.tokens && asking.tokens > 0 && !isFirst) return count
    if (!isFirst && !room.fits(count + 1)) return count
    tokens += asking.tokens
  }
  return line.length
}

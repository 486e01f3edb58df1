/** The decisions of the scheduler, as functions of sizes. */

/** Tokens that rows of the smallest class reach. */
const SMALLEST = 64

/** By how much the longest rows of neighboring classes differ. */
const FACTOR = 4

/**
 * The length class of a row: 0 up to 64 tokens, 1 up to 256, 2 up to 1,024, and so on.
 *
 * Rows of one class are decoded together. All rows of a lane pay for the longest one, so that a row pays for at most four times its own
 * places, however long others are.
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
  /** Tokens still to compute, at least one. */
  readonly remaining: number
  /** Tokens of one call, at most: the scores of all their places are wanted, which take memory. */
  readonly limit: number
}

/**
 * How many tokens of each prompt the next call computes, in order, at most `budget` together. Prompts of which nothing is computed get 0.
 *
 * Laws     the sum is at most `max(1, budget)`; the first prompt gets something; a prompt gets something only if each one before it got all
 *          that it may.
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

/** Where something stands in the line: requests by arrival, completions of one by number. */
export interface Age {
  readonly arrival: number
  readonly index: number
}

/** The older first: negative if `a` is older. */
export const byAge = (a: Age, b: Age): number => a.arrival - b.arrival || a.index - b.index

/** What a request in the line asks for. */
export interface Asking {
  /** Rows that it is decoded in. */
  readonly rows: number
  /** Tokens to compute before that; 0 if an earlier request has them computed. */
  readonly tokens: number
}

/** What may be given out. */
export interface Room {
  /** Rows that may still be decoded. */
  readonly rows: number
  /** Prompt tokens that this step may still begin with: requests that could not begin wait, so that they find more in the cache. */
  readonly tokens: number
  /** Whether nothing is being computed: then the first one is taken whatever the memory says, since it was checked to fit alone. */
  readonly isIdle: boolean
  /** Whether the memory holds the first `count` of the line, besides all that is there. */
  readonly fits: (count: number) => boolean
}

/**
 * How many of the line are taken now, from its head: nobody overtakes, so that nobody starves.
 *
 * Laws     those taken have rows and memory; if nothing is computed, at least one is taken that has the rows.
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

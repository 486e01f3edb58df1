/** Decides whether and when a request is sent again, as pure functions. */
import { type HttpFailureKind, type Key, type Repeat, uniform } from '@tandem-rl/base'

/** The failure of one attempt. */
export interface Trouble {
  readonly kind: HttpFailureKind
  readonly reason: string
  /** `perhaps` if the server may have acted on the request. */
  readonly acted: 'no' | 'perhaps'
  /**
   * `nothing`: no byte of the request was sent. `stale`: a reused connection broke before the
   * answer started, as when a server closes idle ones.
   */
  readonly wire?: 'nothing' | 'stale'
  /** `no`: the server would give the same answer again. */
  readonly passing?: 'no'
  readonly status?: number
  readonly body?: string
  /** The wait that the server requested, or the time for which it gets no requests. */
  readonly waitMs?: number
}

/** The settings of retries. */
export interface RetryOptions {
  /** Maximum number of attempts of one request, including the first. */
  readonly attempts: number
  /** Longest pause before the second attempt in milliseconds. It doubles with every attempt. */
  readonly baseMs: number
  /** Upper limit of pauses in milliseconds. The server may request a longer wait. */
  readonly capMs: number
  /** Retries that each request adds to the budget. */
  readonly share: number
  /** Retries that each minute adds to the budget, which is also its initial value. */
  readonly floor: number
}

/**
 * The remaining retries. The budget prevents retries from multiplying the load of a failing server.
 */
interface RetryBudget {
  readonly left: number
  readonly atMs: number
}

/** Returns the initial budget. */
export const startBudget = (options: RetryOptions, nowMs: number): RetryBudget => ({ left: options.floor, atMs: nowMs })

/**
 * Largest budget as a multiple of `floor`, so that retries saved up in quiet times cannot all be
 * used at once.
 */
const MOST_FLOORS = 10

const refill = (budget: RetryBudget, { floor }: RetryOptions, nowMs: number): number =>
  Math.min(budget.left + (floor * Math.max(0, nowMs - budget.atMs)) / 60_000, Math.max(floor * MOST_FLOORS, 1))

/** Returns the budget after a new request. */
export const budgetRequest = (budget: RetryBudget, options: RetryOptions, nowMs: number): RetryBudget => ({
  left: refill(budget, options, nowMs) + options.share,
  atMs: nowMs,
})

/** Returns the budget after a retry, or `undefined` if no retry is left. */
export const budgetRetry = (budget: RetryBudget, options: RetryOptions, nowMs: number): RetryBudget | undefined => {
  const left = refill(budget, options, nowMs)
  return left >= 1 ? { left: left - 1, atMs: nowMs } : undefined
}

/** Statuses of temporary failures. */
const PASSING = new Set([408, 425, 429, 500, 502, 503, 504])

const isPassing = ({ kind, status, passing }: Trouble): boolean => {
  if (passing === 'no') return false
  switch (kind) {
    case 'unreachable':
    case 'reset':
    case 'malformed':
    case 'timeout':
    case 'open-circuit':
      return true
    case 'status':
      return status !== undefined && PASSING.has(status)
    case 'cancelled':
    case 'too-large':
    case 'overloaded':
    case 'closed':
      return false
  }
}

/**
 * Returns the pause after failed attempt `attempt`: uniform between 0 and `baseMs` doubled for each
 * earlier attempt, at most `capMs` ("full jitter"). It is added to the wait that the server
 * requested.
 */
export const pauseMs = (attempt: number, options: RetryOptions, key: Key): number =>
  uniform(key, attempt) * Math.min(options.capMs, options.baseMs * 2 ** (attempt - 1))

/** The state of a request after a failed attempt. */
export interface RetryCase {
  readonly repeat: Repeat
  readonly trouble: Trouble
  /** 1 for the first attempt. */
  readonly attempt: number
  /** Number of immediate retries after stale connections so far. */
  readonly atOnce: number
  /** Milliseconds until the deadline. */
  readonly leftMs: number
}

/** The decision after a failed attempt. `toll`: `budget` if the retry is taken from the budget. */
export type RetryPlan =
  | { readonly _tag: 'Again'; readonly afterMs: number; readonly toll: 'budget' | 'free'; readonly atOnce: 0 | 1 }
  | { readonly _tag: 'Enough'; readonly because: string }

const enough = (because: string): RetryPlan => ({ _tag: 'Enough', because })

/**
 * Decides whether to send a request again, and when.
 *
 * A request with `repeat: 'never'` is sent again only if no byte of it was sent. If the server
 * closed a connection while it was idle, the next attempt follows at once, but only one time,
 * because that is not a failure of the server. The wait that a server requests (`Retry-After`) is
 * observed, and not taken from the budget, if it ends before the deadline; otherwise the request
 * fails at once.
 */
export const planRetry = (found: RetryCase, options: RetryOptions, key: Key): RetryPlan => {
  const { repeat, trouble, attempt, atOnce, leftMs } = found
  if (!isPassing(trouble)) return enough('')
  if (repeat === 'never' && trouble.wire !== 'nothing') return enough('')
  if (trouble.wire === 'stale' && atOnce === 0) return { _tag: 'Again', afterMs: 0, toll: 'free', atOnce: 1 }
  if (attempt >= options.attempts) return enough(options.attempts > 1 ? `after ${attempt} attempts` : '')
  const { waitMs } = trouble
  const afterMs = (waitMs ?? 0) + pauseMs(attempt, options, key)
  if (waitMs !== undefined && waitMs >= leftMs)
    return enough(
      `the server requested a wait of ${Math.ceil(waitMs)} ms, and ${Math.max(0, Math.floor(leftMs))} ms are left`,
    )
  if (afterMs >= leftMs) return enough('no time is left for another attempt')
  const toll = waitMs === undefined ? 'budget' : 'free'
  return { _tag: 'Again', afterMs, toll, atOnce: 0 }
}

/**
 * Parses a `Retry-After` header, seconds or an HTTP date, to milliseconds. Returns `undefined` if
 * it is neither.
 *
 * @example
 * retryAfterMs('2', 0) // 2000
 */
export const retryAfterMs = (header: string | undefined, wallMs: number): number | undefined => {
  const text = header?.trim() ?? ''
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1000
  if (!/^[A-Z][a-z]{2,8},? .*\d\d:\d\d:\d\d/.test(text)) return undefined
  const date = Date.parse(text)
  return Number.isNaN(date) ? undefined : Math.max(0, date - wallMs)
}

/** Whether, and when, a request is sent again: pure decisions. */
import type { HttpFailureKind, Repeat } from '../../core/http.js'
import { type Key, uniform } from '../../core/key.js'

/** Why one attempt brought no answer of use. */
export interface Trouble {
  readonly kind: HttpFailureKind
  readonly reason: string
  /** Whether the server may have acted on it. */
  readonly acted: 'no' | 'perhaps'
  /** `nothing`: no byte of the request left. `stale`: a kept connection broke before the answer began, as when a server closes idle ones. */
  readonly wire?: 'nothing' | 'stale'
  readonly status?: number
  readonly body?: string
  /** What the server asked to wait, or how long it will be left alone. */
  readonly waitMs?: number
}

/** How often and how soon requests are sent again. */
export interface RetryOptions {
  /** Attempts of one request, the first included. */
  readonly attempts: number
  /** The longest pause before the second attempt; it doubles with every attempt. */
  readonly baseMs: number
  /** The longest pause of all. What a server asks for may be longer. */
  readonly capMs: number
  /** Retries that each request adds to the budget. */
  readonly share: number
  /** Retries that each minute adds to it, and what it holds at the start. */
  readonly floor: number
}

/** Retries that may still be made: so many that troubles do not multiply the load of a server in trouble. */
interface RetryBudget {
  readonly left: number
  readonly atMs: number
}

/** A budget as it is at the start. */
export const startBudget = (options: RetryOptions, nowMs: number): RetryBudget => ({ left: options.floor, atMs: nowMs })

/** The most that a budget holds, in floors: what was saved up in a quiet hour is not spent in a bad minute. */
const MOST_FLOORS = 10

const refill = (budget: RetryBudget, { floor }: RetryOptions, nowMs: number): number =>
  Math.min(budget.left + (floor * Math.max(0, nowMs - budget.atMs)) / 60_000, Math.max(floor * MOST_FLOORS, 1))

/** The budget after a new request. */
export const budgetRequest = (budget: RetryBudget, options: RetryOptions, nowMs: number): RetryBudget => ({
  left: refill(budget, options, nowMs) + options.share,
  atMs: nowMs,
})

/** The budget after a retry, or undefined if it does not allow one. */
export const budgetRetry = (budget: RetryBudget, options: RetryOptions, nowMs: number): RetryBudget | undefined => {
  const left = refill(budget, options, nowMs)
  return left >= 1 ? { left: left - 1, atMs: nowMs } : undefined
}

/** What the server may do better next time. */
const PASSING = new Set([408, 425, 429, 500, 502, 503, 504])

const isPassing = ({ kind, status }: Trouble): boolean => {
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
 * The pause before an attempt after `attempt` that failed: uniform between 0 and `baseMs` doubled for each one before, at most `capMs`
 * ("full jitter"), on top of what the server asked for.
 */
export const pauseMs = (attempt: number, options: RetryOptions, key: Key): number =>
  uniform(key, attempt) * Math.min(options.capMs, options.baseMs * 2 ** (attempt - 1))

/** What is known when an attempt has failed. */
export interface RetryCase {
  readonly repeat: Repeat
  readonly trouble: Trouble
  /** 1 for the first. */
  readonly attempt: number
  /** Retries at once after a stale connection so far. */
  readonly atOnce: number
  /** Until the deadline. */
  readonly leftMs: number
}

/** What to do after an attempt that failed. `toll`: whether the retry is taken from the budget. */
export type RetryPlan =
  | { readonly _tag: 'Again'; readonly afterMs: number; readonly toll: 'budget' | 'free'; readonly atOnce: 0 | 1 }
  | { readonly _tag: 'Enough'; readonly because: string }

const enough = (because: string): RetryPlan => ({ _tag: 'Enough', because })

/**
 * Whether to send a request again, and when.
 *
 * What is `never` to be repeated is sent again only if no byte of it left. A connection that the server closed while it was idle says
 * nothing about the server: the next attempt is made at once, but once. What the server asked for (`Retry-After`) is waited for, and is not
 * taken from the budget, if it fits into the deadline; otherwise there is no use in waiting.
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
      `it is to be tried again in ${Math.ceil(waitMs)} ms, and ${Math.max(0, Math.floor(leftMs))} ms are left`,
    )
  if (afterMs >= leftMs) return enough('no time is left for another attempt')
  const toll = waitMs === undefined ? 'budget' : 'free'
  return { _tag: 'Again', afterMs, toll, atOnce: 0 }
}

/**
 * Milliseconds of a `Retry-After` header: seconds or an HTTP date. Undefined if it is neither.
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

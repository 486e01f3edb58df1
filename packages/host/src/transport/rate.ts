/** A limit of requests and tokens in any minute, as a pure state machine. */

export interface RequestRateOptions {
  readonly requestsPerMinute?: number
  readonly tokensPerMinute?: number
}

const SLOT_MS = 1000
/** Maximum number of slots that a window of one minute touches. */
const SLOTS = 61

interface Slot {
  /** Index of the second. */
  readonly at: number
  readonly requests: number
  readonly tokens: number
}

/** The requests of the last minute, by second, oldest first. */
export type Rate = readonly Slot[]

/** The initial rate. */
export const NO_RATE: Rate = []

const recent = (rate: Rate, at: number): Rate => rate.filter((slot) => slot.at > at - SLOTS)

const fits = (rate: Rate, options: RequestRateOptions, tokens: number): boolean => {
  const { requestsPerMinute = Infinity, tokensPerMinute = Infinity } = options
  const sent = rate.reduce((sum, slot) => sum + slot.requests, 0)
  const cost = rate.reduce((sum, slot) => sum + slot.tokens, 0)
  return sent + 1 <= requestsPerMinute && cost + tokens <= tokensPerMinute
}

/**
 * Returns the rate after a request that costs `tokens`, or the time to wait before it. The time is
 * Infinity if it costs more than a minute allows.
 *
 * Cost     O(61).
 */
export const takeRate = (
  rate: Rate,
  options: RequestRateOptions,
  { tokens, nowMs }: { readonly tokens: number; readonly nowMs: number },
): { readonly _tag: 'Taken'; readonly rate: Rate } | { readonly _tag: 'Wait'; readonly ms: number } => {
  const at = Math.floor(nowMs / SLOT_MS)
  const kept = recent(rate, at)
  if (fits(kept, options, tokens)) {
    const last = kept.at(-1)
    const now = last?.at === at ? last : { at, requests: 0, tokens: 0 }
    const before = last?.at === at ? kept.slice(0, -1) : kept
    return { _tag: 'Taken', rate: [...before, { at, requests: now.requests + 1, tokens: now.tokens + tokens }] }
  }
  if (!fits([], options, tokens)) return { _tag: 'Wait', ms: Infinity }
  const passed = kept.findIndex((_, i) => fits(kept.slice(i + 1), options, tokens))
  return { _tag: 'Wait', ms: (kept[passed]!.at + SLOTS) * SLOT_MS - nowMs }
}

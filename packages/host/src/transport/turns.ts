/** Queues for a limited number of slots, and for a rate limit. */
import { NO_RATE, type Rate, type RequestRateOptions, takeRate } from './rate.js'
import type { Timing } from './settings.js'

/** A limited number of slots, given out in order of request. */
export interface Places {
  /** Calls `go` when a slot is free, possibly at once. The returned function leaves the queue. */
  readonly take: (go: () => void) => () => void
  readonly giveBack: () => void
  readonly taken: () => number
}

/** Makes `count` slots. */
export const makePlaces = (count: number): Places => {
  const line = new Set<() => void>()
  let taken = 0
  return {
    take: (go) => {
      if (taken < count) {
        taken++
        go()
        return () => undefined
      }
      const mine = (): void => go()
      line.add(mine)
      return () => line.delete(mine)
    },
    giveBack: () => {
      const [next] = line
      if (next === undefined) {
        taken--
        return
      }
      // The slot passes to the next in line, so that no later request can take it.
      line.delete(next)
      next()
    },
    taken: () => taken,
  }
}

/** A queue of requests that wait for the rate limit. */
export interface RateLine {
  /**
   * Calls `go` when the rate allows it, possibly at once. The returned function leaves the queue.
   */
  readonly take: (tokens: number, go: () => void) => () => void
}

/** Returns true if a request can ever be sent. */
export const isWithinRate = (options: RequestRateOptions, tokens: number): boolean =>
  takeRate(NO_RATE, options, { tokens, nowMs: 0 })._tag === 'Taken'

/** Makes a queue. Requests are sent in order, regardless of their number of tokens. */
export const makeRateLine = (options: RequestRateOptions, timing: Timing): RateLine => {
  const line = new Set<{ readonly tokens: number; readonly go: () => void }>()
  let rate: Rate = NO_RATE
  let cancel: (() => void) | undefined

  const advance = (): void => {
    cancel?.()
    cancel = undefined
    for (const first of line) {
      const taken = takeRate(rate, options, { tokens: first.tokens, nowMs: timing.now() })
      if (taken._tag === 'Wait') {
        cancel = timing.after(taken.ms, advance)
        return
      }
      rate = taken.rate
      line.delete(first)
      first.go()
    }
  }
  return {
    take: (tokens, go) => {
      if (options.requestsPerMinute === undefined && options.tokensPerMinute === undefined) {
        go()
        return () => undefined
      }
      const mine = { tokens, go }
      line.add(mine)
      if (line.size === 1) advance()
      return () => {
        const isFirst = line.values().next().value === mine
        line.delete(mine)
        if (isFirst) advance()
      }
    },
  }
}

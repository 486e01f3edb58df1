/** Waiting in line: for one of so many places, and for a rate. */
import { NO_RATE, type Rate, type RequestRateOptions, takeRate } from './rate.js'
import type { Timing } from './settings.js'

/** Places that so many can have at a time; who asks first has one first. */
export interface Places {
  /** Calls `go` when there is a place, perhaps at once. What it gives leaves the line. */
  readonly take: (go: () => void) => () => void
  readonly giveBack: () => void
  readonly taken: () => number
}

/** Makes `count` places. */
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
      // The place passes on, so that nobody who came later gets it.
      line.delete(next)
      next()
    },
    taken: () => taken,
  }
}

/** A line of those who wait until the rate allows them. */
export interface RateLine {
  /** Calls `go` when the rate allows it, perhaps at once. What it gives leaves the line. */
  readonly take: (tokens: number, go: () => void) => () => void
}

/** Whether a request could ever be sent. */
export const isWithinRate = (options: RequestRateOptions, tokens: number): boolean =>
  takeRate(NO_RATE, options, { tokens, nowMs: 0 })._tag === 'Taken'

/** Makes a line. Who came first goes first, however many tokens it costs. */
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

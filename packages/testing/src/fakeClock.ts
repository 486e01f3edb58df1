/** A clock that a test advances. */
import type { Clock } from '@tandem-rl/base'

/** A manual clock. */
export interface FakeClock extends Clock {
  /** Advances time, and resolves the waits for moments up to then. */
  readonly advance: (ms: number) => void
  /** Resolves when the time reaches `ms`. */
  readonly reaches: (ms: number) => Promise<void>
}

interface Waiting {
  readonly ms: number
  readonly go: () => void
}

/**
 * Makes a clock that starts at `startMs` and moves only by `advance`. `breathe` lets pending
 * promises continue, and takes no time.
 *
 * Errors   `advance` throws RangeError for a negative or infinite number of milliseconds.
 *
 * @example
 * fakeClock(5).now() // 5
 */
export const fakeClock = (startMs = 0): FakeClock => {
  let now = startMs
  let waiting: readonly Waiting[] = []
  return {
    now: () => now,
    breathe: () => Promise.resolve(),
    advance: (ms) => {
      if (!(ms >= 0 && Number.isFinite(ms))) throw new RangeError(`advance: ms must be at least 0, got ${ms}`)
      now += ms
      const due = waiting.filter((each) => each.ms <= now)
      waiting = waiting.filter((each) => each.ms > now)
      for (const { go } of [...due].sort((a, b) => a.ms - b.ms)) go()
    },
    reaches: (ms) =>
      ms <= now
        ? Promise.resolve()
        : new Promise((go) => {
            waiting = [...waiting, { ms, go }]
          }),
  }
}

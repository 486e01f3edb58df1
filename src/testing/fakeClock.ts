/** A clock that moves when it is told to. */
import type { Clock } from '../core/capabilities.js'

/** Time that a test moves by hand. */
export interface FakeClock extends Clock {
  /** Moves time on, and lets those go on who waited for a moment up to then. */
  readonly advance: (ms: number) => void
  /** Resolved when time has come to `ms`. */
  readonly reaches: (ms: number) => Promise<void>
}

interface Waiting {
  readonly ms: number
  readonly go: () => void
}

/**
 * A clock that begins at `startMs` and stands still but for `advance`. `breathe` gives way to promises that can go on, and takes no time.
 *
 * Errors   `advance` throws RangeError unless it is told to move by 0 or more milliseconds: clocks never go back.
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

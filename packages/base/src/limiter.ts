/** A limit on concurrent work. */
import { ABORTED, unlessAborted } from './cancellation.js'

/** Grants a bounded number of slots, in the order of the requests. */
export interface Limiter {
  /** Runs `f` when a slot is free, or does not run it if the signal aborts before. */
  readonly run: <T>(f: () => Promise<T>, signal: AbortSignal) => Promise<T | typeof ABORTED>
  /** Returns the number of slots in use. */
  readonly active: () => number
}

/**
 * Creates a limiter.
 *
 * Errors   throws RangeError unless `limit` is an integer of at least 1. `run` rejects as `f` does.
 * Effects  a mutable value: it counts.
 *
 * @example
 * limiter(2).active() // 0
 */
export const limiter = (limit: number): Limiter => {
  if (!Number.isInteger(limit) || limit < 1) {
    throw new RangeError(`limiter: limit must be an integer of at least 1, got ${limit}`)
  }
  let active = 0
  const line = new Set<() => void>()

  const release = (): void => {
    const [next] = line
    if (next === undefined) {
      active--
      return
    }
    line.delete(next)
    next() // hands the slot over
  }

  const enter = async (signal: AbortSignal): Promise<'in' | typeof ABORTED> => {
    if (signal.aborted) return ABORTED
    if (active < limit) {
      active++
      return 'in'
    }
    let mine: (() => void) | undefined
    const turn = new Promise<'in'>((resolve) => {
      mine = () => resolve('in')
      line.add(mine)
    })
    const entered = await unlessAborted(turn, signal)
    // The turn may have come at the moment of the abort. Then the slot goes to the next in line.
    if (entered === ABORTED && !line.delete(mine!)) release()
    return entered
  }

  return {
    run: async (f, signal) => {
      if ((await enter(signal)) === ABORTED) return ABORTED
      try {
        return await f()
      } finally {
        release()
      }
    },
    active: () => active,
  }
}

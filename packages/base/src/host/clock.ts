/** The real clock. */
import type { Calendar, Clock, Timers } from '../capabilities.js'
import { nextTurn } from './host.js'

/** Time from the process's monotonic clock. */
export const liveClock: Clock = {
  now: () => performance.now(),
  breathe: nextTurn,
}

/** The date of this computer. */
export const liveCalendar: Calendar = { today: () => new Date() }

/** Longest delay of Node's timers in milliseconds. */
const LONGEST_MS = 2 ** 31 - 1

/** Timers of this process's event loop, which they keep alive. */
export const liveTimers: Timers = {
  after: (ms, ring) => {
    const timer = setTimeout(ring, Math.min(Math.max(0, ms), LONGEST_MS))
    return () => clearTimeout(timer)
  },
}

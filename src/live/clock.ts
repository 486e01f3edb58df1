/** The real clock. */
import { setImmediate } from 'node:timers/promises'
import type { Calendar, Clock } from '../core/capabilities.js'

/** Time from the process's monotonic clock. */
export const liveClock: Clock = {
  now: () => performance.now(),
  breathe: () => setImmediate(),
}

/** The date of this computer. */
export const liveCalendar: Calendar = { today: () => new Date() }

/** The real clock. */
import { setImmediate } from 'node:timers/promises'
import type { Clock } from '../core/capabilities.js'

/** Time from the process's monotonic clock. */
export const liveClock: Clock = {
  now: () => performance.now(),
  breathe: () => setImmediate(),
}

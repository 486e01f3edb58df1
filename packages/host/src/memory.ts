/** The memory of this machine. */
import { freemem } from 'node:os'
import type { Memory } from '@tandem-rl/base'
import { reserveBytes, untouchedBytes } from './reservations.js'

/**
 * Returns the memory limit of this process in bytes, such as a container's, or a very large number
 * without one.
 */
const limitBytes = (): number => {
  const limit: number | undefined = process.constrainedMemory() // undefined in early versions of Node 20, without a limit
  return limit === undefined || limit === 0 ? Number.MAX_SAFE_INTEGER : limit
}

/**
 * Free memory of the system, or the rest of this process's limit if that is smaller, without what
 * is reserved.
 */
export const liveMemory: Memory = {
  free: () => Math.max(0, Math.min(freemem(), limitBytes() - process.memoryUsage.rss()) - untouchedBytes()),
  reserve: reserveBytes,
}

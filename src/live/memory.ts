/** The memory of this machine. */
import { freemem } from 'node:os'
import type { Memory } from '../core/capabilities.js'

/** The bytes of a limit on this process, such as a container's; no limit is a number larger than any machine has. */
const limitBytes = (): number => {
  const limit: number | undefined = process.constrainedMemory() // undefined in early versions of Node 20, without a limit
  return limit === undefined || limit === 0 ? Number.MAX_SAFE_INTEGER : limit
}

/** What the system has free, or what a limit on this process leaves, if that is less. */
export const liveMemory: Memory = {
  free: () => Math.max(0, Math.min(freemem(), limitBytes() - process.memoryUsage.rss())),
}

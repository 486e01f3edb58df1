/** The real machine. */
import { availableParallelism, cpus, totalmem } from 'node:os'
import type { Machine, Usage } from '../core/capabilities.js'

/** The memory of the machine, or of the container that the process is in, whichever is less. */
export const liveMachine: Machine = {
  memoryBytes: () => {
    const limit = process.constrainedMemory() // 0 or more than there is where nothing limits it
    return limit > 0 ? Math.min(limit, totalmem()) : totalmem()
  },
}

/** The kind of processor, as it names itself. */
export const processorName = (): string => cpus()[0]?.model ?? 'unknown'

/** Bytes of this process that are in main memory. */
export const residentBytes = (): number => process.memoryUsage.rss()

/** Describes this machine, for results of benchmarks. */
export const host = (): { readonly cpu: string; readonly cores: number; readonly node: string } => ({
  cpu: processorName(),
  cores: availableParallelism(),
  node: process.version,
})

/** The resources of the real process. */
export const liveUsage: Usage = {
  cpuMs: () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1000
  },
  residentBytes,
  heapBytes: () => {
    globalThis.gc?.()
    return process.memoryUsage().heapUsed
  },
}

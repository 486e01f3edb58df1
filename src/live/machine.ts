/** The real machine. */
import { availableParallelism, cpus, totalmem } from 'node:os'
import { basename } from 'node:path'
import type { Machine, Usage } from '../core/capabilities.js'

/** The memory of the machine or of the process's container, whichever is smaller. */
export const liveMachine: Machine = {
  memoryBytes: () => {
    const limit = process.constrainedMemory() // 0, or more than the machine has, without a limit
    return limit > 0 ? Math.min(limit, totalmem()) : totalmem()
  },
}

/** Returns the operating system and the kind of the processor. */
export const platform = (): string => `${process.platform} ${process.arch}`

/** Returns the version of the program that runs JavaScript. */
export const runtimeVersion = (): string => process.version

/** Returns the model name of the processor. */
export const processorName = (): string => cpus()[0]?.model ?? 'unknown'

/** Returns the resident memory of this process in bytes. */
export const residentBytes = (): number => process.memoryUsage.rss()

/** Returns an argument as a shell would need it. */
const quoted = (argument: string): string =>
  /^[\w./:=,@%+-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`

/** Returns the name of this program with its arguments. */
export const commandLine = (): string => {
  const [, program = '', ...rest] = process.argv
  return [basename(program), ...rest].map(quoted).join(' ')
}

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

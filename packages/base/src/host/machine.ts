/** The real machine. */
import { availableParallelism, cpus, totalmem } from 'node:os'
import { basename } from 'node:path'
import type { Machine, Usage } from '../capabilities.js'
import { redact } from '../secrets.js'

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

/** A flag whose value, the next word or after `=`, is a secret. */
const SECRET_FLAG = /^(--[\w-]*(?:key|token|secret|password))($|=.*)/is

/** Returns the name of a program, by default this one, with its arguments and without secrets. */
export const commandLine = ([program = '', ...rest]: readonly string[] = process.argv.slice(1)): string => {
  const shown = rest.map((word, i) => {
    const isValue = SECRET_FLAG.exec(rest[i - 1] ?? '')?.[2] === ''
    return isValue
      ? '***'
      : word.replace(SECRET_FLAG, (_, flag: string, value: string) => (value === '' ? flag : `${flag}=***`))
  })
  return redact([basename(program), ...shown].map(quoted).join(' '))
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

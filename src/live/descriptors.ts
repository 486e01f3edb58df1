/** Child processes that inherit no descriptor but those that they are given. */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'

/** The flag of a descriptor that the kernel closes when a program is started. */
const CLOSE_ON_EXEC = 0o2000000

const isInherited = (descriptor: number): boolean => {
  try {
    const flags = /^flags:\s+(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8'))?.[1]
    return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0
  } catch {
    return false // it was the one that read the folder
  }
}

/**
 * Descriptors from `first` on that a child process would inherit: what this process inherited itself. Node marks its own, and at its start
 * those up to 16, as closed for children. Empty where there is no /proc: macOS closes all of them.
 */
const inheritedFrom = (first: number): readonly number[] => {
  try {
    return readdirSync('/proc/self/fd')
      .map(Number)
      .filter((descriptor) => descriptor >= first && isInherited(descriptor))
  } catch {
    return []
  }
}

/** How a child process is started: its descriptors are a list. */
export interface ClosedSpawnOptions extends SpawnOptions {
  readonly stdio: ('pipe' | 'ignore')[]
}

/**
 * Starts a child process that has the descriptors of `stdio` and no others: in place of each one that it would inherit it finds `/dev/null`.
 *
 * Errors   throws, and emits `error`, as `spawn` of `node:child_process` does.
 * Effects  a process.
 * Cost     a small read for each open descriptor of this process.
 */
export const spawnClosed = (command: string, args: readonly string[], options: ClosedSpawnOptions): ChildProcess => {
  const inherited = inheritedFrom(options.stdio.length)
  if (inherited.length === 0) return spawn(command, args, options)
  const empty = openSync('/dev/null', 'r+')
  try {
    const stdio: ('pipe' | 'ignore' | number)[] = [...options.stdio]
    for (let i = stdio.length; i <= Math.max(...inherited); i++) stdio.push('ignore') // leaves that descriptor alone
    for (const descriptor of inherited) stdio[descriptor] = empty
    return spawn(command, args, { ...options, stdio })
  } finally {
    closeSync(empty)
  }
}

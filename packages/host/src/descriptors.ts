/** Starts child processes that inherit only the given file descriptors. */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'

/** The flag of descriptors that the kernel closes on exec. */
const CLOSE_ON_EXEC = 0o2000000

const isInherited = (descriptor: number): boolean => {
  try {
    const flags = /^flags:\s+(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8'))?.[1]
    return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0
  } catch {
    return false // closed by now: it was open only for reading the folder
  }
}

/**
 * Lists the descriptors from `first` on that a child process would inherit, because this process
 * inherited them. Node marks its own, and at startup those up to 16, as close-on-exec. Returns an
 * empty list on systems without /proc; macOS closes all of them.
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

/** The options of `spawnClosed`. `stdio` lists the child's descriptors. */
export interface ClosedSpawnOptions extends SpawnOptions {
  readonly stdio: ('pipe' | 'ignore')[]
}

/**
 * Starts a child process with only the descriptors of `stdio`. Each descriptor that it would
 * inherit is replaced by `/dev/null`.
 *
 * Errors   throws, and emits `error`, as `spawn` of `node:child_process` does.
 * Effects  starts a process.
 * Cost     a small read for each open descriptor of this process.
 */
export const spawnClosed = (command: string, args: readonly string[], options: ClosedSpawnOptions): ChildProcess => {
  const inherited = inheritedFrom(options.stdio.length)
  if (inherited.length === 0) return spawn(command, args, options)
  const empty = openSync('/dev/null', 'r+')
  try {
    const stdio: ('pipe' | 'ignore' | number)[] = [...options.stdio]
    for (let i = stdio.length; i <= Math.max(...inherited); i++) stdio.push('ignore') // does not affect that descriptor
    for (const descriptor of inherited) stdio[descriptor] = empty
    return spawn(command, args, { ...options, stdio })
  } finally {
    closeSync(empty)
  }
}

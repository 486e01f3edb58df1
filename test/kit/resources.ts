/** Resources of this process: children, open files and sockets. */
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'

/**
 * Ids of the processes whose parent is this one, without those that have ended and wait to be asked
 * how.
 */
export const childrenOf = (): readonly number[] =>
  readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      const [, state, parent] = /\) (\S) (\d+)/.exec(readFileSync(`/proc/${name}/stat`, 'utf8')) ?? []
      return Number(parent) === process.pid && state !== 'Z' ? [Number(name)] : []
    } catch {
      return [] // it has ended meanwhile
    }
  })

/** Waits until this process has no children but these. */
export const noMoreThan = async (before: ReadonlySet<number>): Promise<void> => {
  while (childrenOf().some((id) => !before.has(id))) await new Promise((go) => setTimeout(go, 5))
}

/** Returns true while a process runs. One that has ended may keep its id until it is waited for. */
export const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    const status = `/proc/${pid}/stat`
    return !existsSync(status) || !/\) [ZX]/.test(readFileSync(status, 'utf8'))
  } catch {
    return false
  }
}

/**
 * Waits until a process that was killed is gone. A process closes its files before it ends, so one
 * whose output has ended may still be on its way out.
 */
export const gone = async (pid: number): Promise<void> => {
  while (isAlive(pid)) await new Promise((go) => setTimeout(go, 10))
}

/** The number of open sockets of this process. */
export const openSockets = (): number =>
  readdirSync('/proc/self/fd').filter((name) => {
    try {
      return readlinkSync(`/proc/self/fd/${name}`).startsWith('socket:')
    } catch {
      return false // closed meanwhile
    }
  }).length

/** Resources of this process: children, open files and sockets. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

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

/** The number of open sockets of this process. */
export const openSockets = (): number =>
  readdirSync('/proc/self/fd').filter((name) => {
    try {
      return readlinkSync(`/proc/self/fd/${name}`).startsWith('socket:')
    } catch {
      return false // closed meanwhile
    }
  }).length

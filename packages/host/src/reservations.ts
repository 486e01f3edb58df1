/**
 * Memory that processes of this machine have reserved. Each reservation is an empty file, whose
 * name has the process and the bytes: nothing is read from files that other programs may have
 * written. Without a writable folder for temporary files nothing is registered.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { threadId } from 'node:worker_threads'

const folder = (): string => join(tmpdir(), `tandem-reserved-${userInfo().uid}`)

/** A name: process, its start, thread, number, bytes, and resident bytes at the reservation. */
const NAME = /^(\d{1,10})-(\d{1,20})-(\d{1,10})-(\d{1,10})-(\d{1,16})-(\d{1,16})$/

/** Returns the text of a file of /proc, or an empty text without one. */
const kernelText = (path: string): string => {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

/** Returns the start of a process: field 22 of /proc/PID/stat, or 0 without /proc. */
const startOf = (pid: number): string => {
  const stat = kernelText(`/proc/${pid}/stat`)
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '0'
}

/** Returns the resident bytes of a process, or `undefined` without /proc. */
const residentOf = (pid: number): number | undefined => {
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(kernelText(`/proc/${pid}/status`)) ?? []
  return kilobytes === undefined ? undefined : 1024 * Number(kilobytes)
}

const isRunning = (pid: number, start: string): boolean => {
  try {
    process.kill(pid, 0)
    return startOf(pid) === start
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

interface Reserved {
  readonly bytes: number
  /** Resident bytes of the process before its first reservation. */
  readonly resident: number
}

const reservedByProcess = (names: readonly string[]): ReadonlyMap<number, Reserved> => {
  const all = new Map<number, Reserved>()
  for (const name of names) {
    const [, pidText, start, , , bytes, resident] = NAME.exec(name) ?? []
    const pid = Number(pidText)
    if (start === undefined) continue
    if (!isRunning(pid, start)) {
      rmSync(join(folder(), name), { force: true })
      continue
    }
    const before = all.get(pid)
    all.set(pid, {
      bytes: (before?.bytes ?? 0) + Number(bytes),
      resident: Math.min(before?.resident ?? Number.POSITIVE_INFINITY, Number(resident)),
    })
  }
  return all
}

/**
 * Returns the bytes that running processes have reserved and do not use yet: their reservations
 * without the growth of their resident memory since the first one.
 */
export const untouchedBytes = (): number => {
  try {
    const all = reservedByProcess(readdirSync(folder()))
    return [...all].reduce((sum, [pid, { bytes, resident }]) => {
      const grown = (residentOf(pid) ?? resident) - resident
      return sum + Math.max(0, bytes - Math.max(0, grown))
    }, 0)
  } catch {
    return 0 // nothing was reserved, or not where this process can see it
  }
}

let count = 0

/** Registers memory that this process will use. The result ends the reservation. */
export const reserveBytes = (bytes: number): (() => void) => {
  const { pid } = process
  const name = [pid, startOf(pid), threadId, count++, Math.ceil(bytes), process.memoryUsage.rss()].join('-')
  const path = join(folder(), name)
  try {
    mkdirSync(folder(), { recursive: true, mode: 0o700 })
    writeFileSync(path, '', { flag: 'wx' })
  } catch {
    return () => undefined // see above: other processes do not see this reservation
  }
  return () => rmSync(path, { force: true })
}

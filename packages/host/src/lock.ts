/**
 * Lock files: at most one process holds a path.
 *
 * A lock file names its holder by process id, start time, boot and host. The lock of a killed
 * process is therefore recognized as stale, even if another process has reused its id. Age is not
 * considered.
 */
import * as fs from 'node:fs/promises'
import { hostname } from 'node:os'
import { setTimeout } from 'node:timers/promises'
import { errorMessage, type LockFailure, type Locks } from '@tandem-rl/base'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { readRegularText, temporaryName } from './files.js'

interface Holder {
  readonly pid: number
  /** Clock ticks from boot to the start of the process, or `null` without /proc. */
  readonly started: string | null
  /** Id of the boot, or `null` without /proc. */
  readonly boot: string | null
  /** Namespace of the process id, or `null` without /proc. */
  readonly namespace: string | null
  readonly host: string
  readonly since: string
}

const textOf = (path: string): Promise<string | null> =>
  readRegularText(path, 'refused').then(
    (text) => text.trim(),
    () => null,
  )

/** Reads a file of /proc, which has no size. */
const kernelText = (path: string): Promise<string | null> =>
  fs.readFile(path, 'utf8').then(
    (text) => text.trim(),
    () => null,
  )

/**
 * Reads field 22 of /proc/PID/stat. The program name, in parentheses, may contain any character.
 */
const startOf = async (pid: number): Promise<string | null> => {
  const stat = await kernelText(`/proc/${pid}/stat`)
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? null
}

const thisProcess = async (): Promise<Holder> => ({
  pid: process.pid,
  started: await startOf(process.pid),
  boot: await kernelText('/proc/sys/kernel/random/boot_id'),
  namespace: await fs.readlink('/proc/self/ns/pid').catch(() => null),
  host: hostname(),
  since: new Date().toISOString(),
})

const isRunning = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

/** Returns `true` if the holder has ended. Holders on other machines count as running. */
const hasEnded = async (holder: Holder, here: Holder): Promise<boolean> => {
  if (holder.host !== here.host) return false
  if (holder.boot !== here.boot) return true
  if (holder.namespace !== here.namespace) return false
  if (!isRunning(holder.pid)) return true
  return holder.started !== null && holder.started !== (await startOf(holder.pid))
}

const isWord = (value: unknown): boolean => value === null || typeof value === 'string'

const isHolder = (value: unknown): value is Holder => {
  if (typeof value !== 'object' || value === null) return false
  const { pid, started, boot, namespace, host, since } = value as Readonly<Record<string, unknown>> // of any object, each checked below
  return (
    Number.isSafeInteger(pid) &&
    [started, boot, namespace].every(isWord) &&
    [host, since].every((x) => typeof x === 'string')
  )
}

const readHolder = (text: string | null): Holder | null => {
  try {
    const value: unknown = JSON.parse(text ?? 'null')
    return isHolder(value) ? value : null
  } catch {
    return null
  }
}

const codeOf = (error: unknown): unknown => (error instanceof Error && 'code' in error ? error.code : undefined)

/** Creates a hard link, unless the name is taken. */
const linked = async (from: string, to: string): Promise<'linked' | 'taken'> => {
  try {
    await fs.link(from, to)
    return 'linked'
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return 'taken'
    throw error
  }
}

/**
 * Removes a stale lock. A second lock file ensures that only one process does so at a time, so none
 * removes a lock that was taken after the stale one was gone. Other processes retry later.
 */
const removeStale = async (path: string, { text, own, here }: StaleLock): Promise<void> => {
  const removing = `${path}.removing`
  if ((await linked(own, removing)) === 'taken') {
    const other = readHolder(await textOf(removing))
    if (other !== null && (await hasEnded(other, here))) await fs.rm(removing, { force: true })
    await setTimeout(WAIT_MS)
    return
  }
  try {
    if ((await textOf(path)) === text) await fs.rm(path, { force: true })
  } finally {
    await fs.rm(removing, { force: true })
  }
}

interface StaleLock {
  /** Contents of the lock file. */
  readonly text: string
  /** A file that names this process. */
  readonly own: string
  readonly here: Holder
}

const refusal = (path: string, holder: Holder | null): LockFailure => {
  const who = holder === null ? 'an unknown process' : `process ${holder.pid} on ${holder.host} since ${holder.since}`
  return {
    _tag: 'LockFailure',
    where: path,
    reason: `in use by ${who}. Wait until it ends or stop it; if it no longer exists, remove ${path}`,
  }
}

/**
 * Maximum number of attempts after stale locks were found, and the pause while another process
 * removes one.
 */
const ATTEMPTS = 50
const WAIT_MS = 20

const take = async (path: string): Promise<{ readonly release: () => Promise<void> }> => {
  const here = await thisProcess()
  const text = JSON.stringify(here)
  const own = temporaryName(path)
  await fs.rm(own, { force: true })
  await fs.writeFile(own, text, { flag: 'wx' })
  try {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      if ((await linked(own, path)) === 'linked') {
        const release = async (): Promise<void> => {
          if ((await textOf(path)) === text) await fs.rm(path, { force: true })
        }
        return { release }
      }
      const found = await textOf(path)
      const holder = readHolder(found)
      if (found === null) continue // released just now
      if (holder === null || !(await hasEnded(holder, here))) throw refusal(path, holder)
      await removeStale(path, { text: found, own, here })
    }
    throw refusal(path, readHolder(await textOf(path)))
  } finally {
    await fs.rm(own, { force: true })
  }
}

/** The state of a lock. `stale`: its holder was killed. `free`: there is no lock file. */
export type LockState = 'held' | 'stale' | 'free'

/** Returns the state of a lock without taking it. */
export const lockState = async (path: string): Promise<LockState> => {
  const found = await textOf(path)
  if (found === null) return 'free'
  const holder = readHolder(found)
  return holder !== null && (await hasEnded(holder, await thisProcess())) ? 'stale' : 'held'
}

const isRefusal = (error: unknown): error is LockFailure =>
  typeof error === 'object' && error !== null && '_tag' in error && error._tag === 'LockFailure'

/** Locks on the real file system. */
export const liveLocks: Locks = {
  take: (path) =>
    TE.tryCatch(
      () => take(path),
      (error): LockFailure =>
        isRefusal(error)
          ? error
          : {
              _tag: 'LockFailure',
              where: path,
              reason: `cannot be locked: ${errorMessage(error)}`,
            },
    ),
}

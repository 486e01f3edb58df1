/**
 * Locks that are files: one process at a time holds a path.
 *
 * A lock file names its holder by process id, start time, boot and host, so that a lock whose process was killed is recognized as stale,
 * also where another process has the same id since. Age plays no part.
 */
import * as fs from 'node:fs/promises'
import { hostname } from 'node:os'
import { setTimeout } from 'node:timers/promises'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import type { Locks } from '../core/capabilities.js'
import type { LockFailure } from '../core/failure.js'
import { temporaryName } from './files.js'

const holderSchema = z.object({
  pid: z.number(),
  /** Clock ticks from the start of the machine to that of the process; null where the system has no /proc. */
  started: z.string().nullable(),
  /** Of the start of the machine; null likewise. */
  boot: z.string().nullable(),
  /** In which the process id counts; null likewise. */
  namespace: z.string().nullable(),
  host: z.string(),
  since: z.string(),
})

type Holder = Readonly<z.infer<typeof holderSchema>>

const textOf = (path: string): Promise<string | null> =>
  fs.readFile(path, 'utf8').then(
    (text) => text.trim(),
    () => null,
  )

/** Field 22 of /proc/PID/stat. The name of the program, in parentheses, may hold anything. */
const startOf = async (pid: number): Promise<string | null> => {
  const stat = await textOf(`/proc/${pid}/stat`)
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? null
}

const thisProcess = async (): Promise<Holder> => ({
  pid: process.pid,
  started: await startOf(process.pid),
  boot: await textOf('/proc/sys/kernel/random/boot_id'),
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

/** Whether the holder of a lock has ended. What cannot be known from here, as for another machine, counts as running. */
const hasEnded = async (holder: Holder, here: Holder): Promise<boolean> => {
  if (holder.host !== here.host) return false
  if (holder.boot !== here.boot) return true
  if (holder.namespace !== here.namespace) return false
  if (!isRunning(holder.pid)) return true
  return holder.started !== null && holder.started !== (await startOf(holder.pid))
}

const readHolder = (text: string | null): Holder | null => {
  if (text === null) return null
  try {
    const parsed = holderSchema.safeParse(JSON.parse(text))
    return parsed.success ? parsed.data : null
  } catch {
    return null
  }
}

const codeOf = (error: unknown): unknown => (error instanceof Error && 'code' in error ? error.code : undefined)

/** Gives a file a second name, unless that is taken. */
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
 * Removes a stale lock. Only one process at a time does that, so that none removes a lock that another one took after the stale one was
 * gone: the others find a second lock file, and look again later.
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
  /** Of the lock file. */
  readonly text: string
  /** A file that names this process. */
  readonly own: string
  readonly here: Holder
}

const refusal = (path: string, holder: Holder | null): LockFailure => {
  const who =
    holder === null
      ? 'a process that the lock file does not name'
      : `process ${holder.pid} on ${holder.host} since ${holder.since}`
  return {
    _tag: 'LockFailure',
    path,
    reason: `in use by ${who}. Wait until it ends or stop it; if it no longer exists, remove ${path}`,
  }
}

/** How often a lock is tried for again after a stale one was found, and the pause where another process is removing that. */
const ATTEMPTS = 50
const WAIT_MS = 20

const take = async (path: string): Promise<{ readonly release: () => Promise<void> }> => {
  const here = await thisProcess()
  const text = JSON.stringify(here)
  const own = temporaryName(path)
  await fs.writeFile(own, text)
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
              path,
              reason: `cannot be locked: ${error instanceof Error ? error.message : String(error)}`,
            },
    ),
}

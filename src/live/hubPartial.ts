/**
 * Downloads that are not whole yet. One that is being written belongs to one call of one process, whose name it bears; what a call leaves
 * behind is nobody's, and the next call takes it by renaming it, which only one can do.
 */
import type { Stats } from 'node:fs'
import * as fs from 'node:fs/promises'
import { hostname } from 'node:os'
import { basename, dirname, join } from 'node:path'

/** Not the name that huggingface_hub (Python) has for its own: it locks them, and does not see who else writes. */
const SUFFIX = '.tandem.incomplete'

const HOST = hostname()
  .replaceAll(/[^\w-]/g, '_')
  .slice(0, 30)

let claims = 0

const isAlive = (id: number): boolean => {
  try {
    process.kill(id, 0)
    return true
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'ESRCH')
  }
}

/** After so long without a byte, also a download of another machine, which cannot be asked, is nobody's. */
const ABANDONED_MS = 24 * 3600 * 1000

/** Whether nobody writes to a partial download that bears this name behind that of its blob. */
const isNobodys = (owner: string, { mtimeMs }: Stats): boolean => {
  if (owner === '') return true
  const [, id, host] = /^\.(\d+)-\d+-([\w-]+)$/.exec(owner) ?? []
  if (id === undefined) return false // another blob, whose name begins so
  return (host === HOST && !isAlive(Number(id))) || Date.now() - mtimeMs > ABANDONED_MS
}

/** Partial downloads of a blob that nobody writes to, the longest first. */
const leftOvers = async (blob: string): Promise<readonly string[]> => {
  const start = basename(blob)
  const found: { readonly path: string; readonly size: number }[] = []
  for (const name of await fs.readdir(dirname(blob))) {
    if (!name.startsWith(start) || !name.endsWith(SUFFIX)) continue
    const path = join(dirname(blob), name)
    const stat = await fs.stat(path).catch(() => undefined) // somebody else took it
    if (stat !== undefined && isNobodys(name.slice(start.length, -SUFFIX.length), stat))
      found.push({ path, size: stat.size })
  }
  return found.sort((a, b) => b.size - a.size).map(({ path }) => path)
}

/** A place for the partial download of a blob that is this call's alone, with what an earlier call left of it, if anything. */
export const claimPartial = async (blob: string): Promise<string> => {
  const own = `${blob}.${process.pid}-${claims++}-${HOST}${SUFFIX}`
  for (const path of await leftOvers(blob)) {
    const isOurs = await fs.rename(path, own).then(
      () => true,
      () => false, // somebody else was faster
    )
    if (isOurs) return own
  }
  return own
}

/** Leaves what there is of a partial download to the next call. */
export const leavePartial = async (blob: string, own: string): Promise<void> => {
  await fs.rename(own, `${blob}${SUFFIX}`).catch((error: unknown) => {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error // nothing has come
  })
}

/** Removes what others have left of a blob that is whole now. */
export const dropPartials = async (blob: string): Promise<void> => {
  for (const path of await leftOvers(blob)) await fs.rm(path, { force: true })
}

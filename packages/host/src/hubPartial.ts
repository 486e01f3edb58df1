/**
 * Partial downloads. While one is being written, it belongs to a single call of a process and has
 * that call's name. A later call claims an abandoned one by renaming it; only one call succeeds.
 */
import type { Stats } from 'node:fs'
import * as fs from 'node:fs/promises'
import { hostname } from 'node:os'
import { basename, dirname, join } from 'node:path'

/**
 * The suffix of partial downloads. It differs from that of huggingface_hub (Python), whose locks do
 * not exclude other writers.
 */
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

/**
 * Time without new data after which a download counts as abandoned, even if its process on another
 * machine cannot be checked.
 */
const ABANDONED_MS = 24 * 3600 * 1000

/**
 * Returns true if no call is writing the partial download with this suffix after the name of its
 * blob.
 */
const isNobodys = (owner: string, { mtimeMs }: Stats): boolean => {
  if (owner === '') return true
  const [, id, host] = /^\.(\d+)-\d+-([\w-]+)$/.exec(owner) ?? []
  if (id === undefined) return false // a blob whose name starts with this one's
  return (host === HOST && !isAlive(Number(id))) || Date.now() - mtimeMs > ABANDONED_MS
}

/** Lists the abandoned partial downloads of a blob, the longest first. */
const leftOvers = async (blob: string): Promise<readonly string[]> => {
  const start = basename(blob)
  const found: { readonly path: string; readonly size: number }[] = []
  for (const name of await fs.readdir(dirname(blob))) {
    if (!name.startsWith(start) || !name.endsWith(SUFFIX)) continue
    const path = join(dirname(blob), name)
    const stat = await fs.stat(path).catch(() => undefined) // another call claimed it
    if (stat !== undefined && isNobodys(name.slice(start.length, -SUFFIX.length), stat))
      found.push({ path, size: stat.size })
  }
  return found.sort((a, b) => b.size - a.size).map(({ path }) => path)
}

/**
 * Returns the path of a new partial download of a blob, which contains the data of an abandoned one
 * if there was any.
 */
export const claimPartial = async (blob: string): Promise<string> => {
  const own = `${blob}.${process.pid}-${claims++}-${HOST}${SUFFIX}`
  for (const path of await leftOvers(blob)) {
    const isOurs = await fs.rename(path, own).then(
      () => true,
      () => false, // another call was faster
    )
    if (isOurs) return own
  }
  return own
}

/** Abandons a partial download, so that the next call can resume it. */
export const leavePartial = async (blob: string, own: string): Promise<void> => {
  await fs.rename(own, `${blob}${SUFFIX}`).catch((error: unknown) => {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error // no data had arrived
  })
}

/** Removes abandoned partial downloads of a complete blob. */
export const dropPartials = async (blob: string): Promise<void> => {
  for (const path of await leftOvers(blob)) await fs.rm(path, { force: true })
}

/**
 * The cache of the Hugging Face hub on disk, in the layout that Python and JavaScript share: blobs,
 * snapshots, refs.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import * as fs from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import type { HubFile, HubRepo } from '../core/hub.js'
import { readRegular, temporaryName, writeWhole } from './files.js'

const COMMIT = /^[0-9a-f]{40}$/

/**
 * Returns the folder of the cache: HF_HUB_CACHE, otherwise `hub` in HF_HOME, otherwise in the
 * user's cache.
 */
export const defaultCacheFolder = (env: Readonly<Record<string, string | undefined>>): string => {
  const home = env.HF_HOME || join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'huggingface') // empty counts as missing
  return env.HF_HUB_CACHE || env.HUGGINGFACE_HUB_CACHE || join(home, 'hub')
}

/** Returns the folder of a repository in a cache. */
export const repoFolder = (cache: string, { kind, name }: HubRepo): string =>
  join(cache, `${kind}s--${name.replaceAll('/', '--')}`)

/** Returns true if a path of a repository stays inside its folder. */
export const isInside = (path: string): boolean =>
  path !== '' &&
  !path.includes('\\') &&
  !path.includes('\0') &&
  path.split('/').every((part) => !['', '.', '..'].includes(part))

const readRef = async (folder: string, revision: string): Promise<string | undefined> => {
  if (COMMIT.test(revision)) return revision
  const ref = await readRegular(join(folder, 'refs', revision), 'text').catch(() => undefined)
  const text = ref?.toString('utf8').trim()
  return text !== undefined && COMMIT.test(text) ? text : undefined
}

/** Returns the last known commit of a revision, or `undefined`. */
export const cachedCommit = (cache: string, repo: HubRepo): Promise<string | undefined> =>
  readRef(repoFolder(cache, repo), repo.revision)

/** Records the commit of a revision. */
export const writeRef = async (cache: string, repo: HubRepo, commit: string): Promise<void> => {
  if (COMMIT.test(repo.revision)) return
  const path = join(repoFolder(cache, repo), 'refs', repo.revision)
  await fs.mkdir(dirname(path), { recursive: true })
  await writeWhole(path, commit) // other processes may be reading it
}

/** Lists the cached files of a commit. */
export const cachedFiles = async (cache: string, repo: HubRepo, commit: string): Promise<readonly HubFile[]> => {
  const snapshot = join(repoFolder(cache, repo), 'snapshots', commit)
  const names = await fs.readdir(snapshot, { recursive: true }).catch(() => [])
  const found: HubFile[] = []
  for (const path of names.sort()) {
    const stat = await fs.stat(join(snapshot, path)).catch(() => undefined) // a link to a blob that was removed
    if (stat?.isFile() === true) found.push({ path: path.replaceAll('\\', '/'), size: stat.size })
  }
  return found
}

/** Returns the path of a file of a commit, if it is cached. */
export const cachedFile = async (
  cache: string,
  repo: HubRepo,
  { commit, path }: { readonly commit: string; readonly path: string },
): Promise<string | undefined> => {
  const file = join(repoFolder(cache, repo), 'snapshots', commit, path)
  return (await fs.stat(file).catch(() => undefined))?.isFile() === true ? file : undefined
}

/**
 * Computes the checksum that an etag contains: SHA-256 for large files, git's SHA-1 for small ones.
 * Returns `undefined` for other etags.
 */
export const checksum = async (file: string, etag: string): Promise<string | undefined> => {
  const kind = /^[0-9a-f]{64}$/.test(etag) ? 'sha256' : COMMIT.test(etag) ? 'sha1' : undefined
  if (kind === undefined) return undefined
  const hash = createHash(kind)
  if (kind === 'sha1') hash.update(`blob ${(await fs.stat(file)).size}\0`)
  for await (const part of createReadStream(file)) hash.update(part as Uint8Array) // bytes: no encoding is set
  return hash.digest('hex')
}

/**
 * Publishes a complete blob under its name in a commit, as a link, or as a copy if links are not
 * supported.
 */
export const publish = async (
  cache: string,
  repo: HubRepo,
  file: { readonly commit: string; readonly path: string; readonly etag: string },
): Promise<string> => {
  const folder = repoFolder(cache, repo)
  const [blob, link] = [join(folder, 'blobs', file.etag), join(folder, 'snapshots', file.commit, file.path)]
  const temporary = temporaryName(blob)
  await fs.mkdir(dirname(link), { recursive: true })
  try {
    await fs.symlink(relative(dirname(link), blob), temporary)
  } catch {
    await fs.copyFile(blob, temporary) // links are not supported; other errors of the disk recur here
  }
  try {
    await fs.rename(temporary, link)
  } catch (error) {
    await fs.rm(temporary, { force: true })
    throw error
  }
  return link
}

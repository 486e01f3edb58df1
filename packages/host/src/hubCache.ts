/**
 * The cache of the Hugging Face hub on disk, in the layout that Python and JavaScript share: blobs,
 * snapshots, refs.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import * as fs from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import type { HubFile, HubRepo } from '@tandem-rl/base'
import { readRegularText, temporaryName, writeWhole } from './files.js'

const COMMIT = /^[0-9a-f]{40}$/

/**
 * Returns the folder of the cache: HF_HUB_CACHE, otherwise `hub` in HF_HOME, otherwise in the
 * user's cache.
 */
export const defaultCacheFolder = (env: Readonly<Record<string, string | undefined>>): string => {
  const home = env.HF_HOME || join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'huggingface') // empty counts as missing
  return env.HF_HUB_CACHE || env.HUGGINGFACE_HUB_CACHE || join(home, 'hub')
}

/** Models that were renamed, with the names under which caches of Python may have them. */
const FORMER_NAMES: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ['gpt2', 'gpt2-medium', 'gpt2-large', 'gpt2-xl'].map((name) => [`openai-community/${name}`, name]),
  ),
  'distilbert/distilgpt2': 'distilgpt2',
  'EleutherAI/gpt-neo-125m': 'EleutherAI/gpt-neo-125M',
}

const folderOf = (cache: string, kind: HubRepo['kind'], name: string): string =>
  join(cache, `${kind}s--${name.replaceAll('/', '--')}`)

/**
 * Returns the folder of a repository in a cache: that of its former name if only this one has
 * files.
 */
export const repoFolder = async (cache: string, { kind, name }: HubRepo): Promise<string> => {
  const own = folderOf(cache, kind, name)
  const former = kind === 'model' && Object.hasOwn(FORMER_NAMES, name) ? FORMER_NAMES[name] : undefined
  if (former === undefined) return own
  const hasFiles = async (folder: string): Promise<boolean> =>
    (await fs.stat(join(folder, 'snapshots')).catch(() => undefined)) !== undefined
  const other = folderOf(cache, kind, former)
  return !(await hasFiles(own)) && (await hasFiles(other)) ? other : own
}

/** Returns true if a path of a repository stays inside its folder. */
export const isInside = (path: string): boolean =>
  path !== '' &&
  !path.includes('\\') &&
  !path.includes('\0') &&
  path.split('/').every((part) => !['', '.', '..'].includes(part))

/** Returns the last known commit of a revision in the folder of a repository, or `undefined`. */
export const cachedCommit = async (folder: string, revision: string): Promise<string | undefined> => {
  if (COMMIT.test(revision)) return revision
  const text = (await readRegularText(join(folder, 'refs', revision)).catch(() => undefined))?.trim()
  return text !== undefined && COMMIT.test(text) ? text : undefined
}

/** Records the commit of a revision in the folder of a repository. */
export const writeRef = async (folder: string, revision: string, commit: string): Promise<void> => {
  if (COMMIT.test(revision)) return
  const path = join(folder, 'refs', revision)
  await fs.mkdir(dirname(path), { recursive: true })
  await writeWhole(path, commit) // other processes may be reading it
}

/** Lists the cached files of a commit. */
export const cachedFiles = async (folder: string, commit: string): Promise<readonly HubFile[]> => {
  const snapshot = join(folder, 'snapshots', commit)
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
  folder: string,
  { commit, path }: { readonly commit: string; readonly path: string },
): Promise<string | undefined> => {
  const file = join(folder, 'snapshots', commit, path)
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
  folder: string,
  file: { readonly commit: string; readonly path: string; readonly etag: string },
): Promise<string> => {
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

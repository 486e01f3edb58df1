/**
 * The Hugging Face hub over HTTP, with its cache on disk.
 *
 * Source   the hub's API as huggingface_hub (Python) and @huggingface/hub use it. Neither package
 *          is needed: the JavaScript one does not resume, checks no checksum, writes no refs and
 *          has no time limits. The cache is the same, and is shared with both.
 */
import * as fs from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Hub, HubFailure, HubFile, HubListing, HubProgress, HubRepo, Timers } from '@tandem-rl/base'
import { harmless, liveTimers } from '@tandem-rl/base/host'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { flush } from './flush.js'
import {
  cachedCommit,
  cachedFile,
  cachedFiles,
  checksum,
  defaultCacheFolder,
  isInside,
  publish,
  repoFolder,
  writeRef,
} from './hubCache.js'
import {
  ask,
  askJson,
  caughtFailure,
  type HubConnection,
  isFailure,
  partsOf,
  refuseFile,
  startWatch,
  webAddress,
} from './hubHttp.js'
import { claimPartial, dropPartials, leavePartial } from './hubPartial.js'
import { proxiedFetch } from './transport/proxies.js'

export interface LiveHubOptions {
  /** Default: HF_TOKEN. Sent only to `endpoint`; never included in errors. */
  readonly token?: string
  /** Default: HF_ENDPOINT, else https://huggingface.co. */
  readonly endpoint?: string
  /** Default: HF_HUB_CACHE, else `hub` in HF_HOME, else in the user's cache. */
  readonly cacheFolder?: string
  /**
   * 'cache-only' makes no requests; it is the default if HF_HUB_OFFLINE is 1. 'auto' uses the cache
   * while the hub is unreachable.
   */
  readonly network?: 'auto' | 'cache-only'
  /**
   * Longest wait in milliseconds for the start of a response, and then for each KiB of it. Default
   * 10,000.
   */
  readonly timeoutMs?: number
  /** Maximum number of times that an interrupted download is resumed. Default 4. */
  readonly resumes?: number
  /** Timers for `timeoutMs`. Default: real timers. */
  readonly timers?: Timers
}

interface Setup extends HubConnection {
  readonly cache: string
  readonly network: 'auto' | 'cache-only'
  readonly resumes: number
}

/** The settings of a call, and the folder of its repository in the cache. */
type Home = Setup & { readonly folder: string }

const COMMIT = /^[0-9a-f]{40}$/
const NAME = /^[\w.-]+(?:\/[\w.-]+)?$/

const setupOf = (options: LiveHubOptions, env: Readonly<Record<string, string | undefined>>): Setup => ({
  endpoint: (options.endpoint ?? (env.HF_ENDPOINT || 'https://huggingface.co')).replace(/(?<!\/)\/+$/, ''),
  token: (options.token ?? env.HF_TOKEN)?.trim() || undefined, // empty counts as missing
  cache: options.cacheFolder ?? defaultCacheFolder(env),
  network: options.network ?? (env.HF_HUB_OFFLINE === '1' ? 'cache-only' : 'auto'),
  timeoutMs: options.timeoutMs ?? 10_000,
  resumes: options.resumes ?? 4,
  timers: options.timers ?? liveTimers,
  fetch: proxiedFetch({ connectMs: options.timeoutMs ?? 10_000 }),
})

const attempt = <T>(repo: HubRepo, run: () => Promise<T>): TE.TaskEither<HubFailure, T> =>
  TE.tryCatch(run, (error) => caughtFailure(repo, error))

const requireRepo = (repo: HubRepo): void => {
  if (!NAME.test(repo.name) || repo.name.includes('..'))
    refuseFile(repo, 'not-found', 'a repository is named owner/name')
  if (!isInside(repo.revision)) refuseFile(repo, 'not-found', `'${repo.revision}' cannot be a revision`)
}

const segment = (repo: HubRepo): string => `${repo.kind}s/${repo.name}`

/** Checks that a commit is the requested one. */
const requireRequested = (commit: string, repo: HubRepo): string =>
  !COMMIT.test(repo.revision) || commit === repo.revision
    ? commit
    : refuseFile(repo, 'protocol', `the hub answered for commit ${commit}, not for ${repo.revision}`)

/** Returns the `sha` of a response. */
const commitOf = (json: unknown, repo: HubRepo): string => {
  const sha = typeof json === 'object' && json !== null && 'sha' in json ? json.sha : undefined
  return typeof sha === 'string' && COMMIT.test(sha)
    ? requireRequested(sha, repo)
    : refuseFile(repo, 'protocol', 'the response of the hub has no commit: is HF_ENDPOINT right?')
}

const fileOf = (entry: unknown, repo: HubRepo): readonly HubFile[] => {
  const fields: ReadonlyMap<string, unknown> = new Map(
    typeof entry === 'object' && entry !== null ? Object.entries(entry) : [],
  )
  const [type, path, size] = [fields.get('type'), fields.get('path'), fields.get('size')]
  if (type === 'directory') return []
  if (
    type !== 'file' ||
    typeof path !== 'string' ||
    typeof size !== 'number' ||
    !Number.isSafeInteger(size) ||
    size < 0
  ) {
    return refuseFile(repo, 'protocol', 'the list of files has an invalid entry')
  }
  return isInside(path)
    ? [{ path, size }]
    : refuseFile(repo, 'protocol', `the repository has a file '${path}' that would leave its folder`)
}

/** Maximum number of pages of a list of files to read. */
const MOST_PAGES = 1000

const nextPage = (headers: Headers, repo: HubRepo, setup: Setup): string | undefined => {
  const next = /<([^<>]+)>;\s*rel="next"/.exec(headers.get('link') ?? '')?.[1]
  return next === undefined ? undefined : webAddress(repo, next, setup.endpoint).href
}

const listOnline = async (setup: Home, repo: HubRepo): Promise<HubListing> => {
  const revision = encodeURIComponent(repo.revision)
  const commit = commitOf(
    (await askJson(setup, repo, `${setup.endpoint}/api/${segment(repo)}/revision/${revision}`)).json,
    repo,
  )
  const files: HubFile[] = []
  let url: string | undefined = `${setup.endpoint}/api/${segment(repo)}/tree/${commit}?recursive=true`
  for (let page = 0; url !== undefined; page++) {
    if (page === MOST_PAGES) refuseFile(repo, 'protocol', `the list of files has more than ${MOST_PAGES} pages`)
    const { json, headers }: { readonly json: unknown; readonly headers: Headers } = await askJson(setup, repo, url)
    if (!Array.isArray(json)) return refuseFile(repo, 'protocol', 'the response of the hub is not a list of files')
    for (const entry of json) files.push(...fileOf(entry, repo))
    url = nextPage(headers, repo, setup)
  }
  await writeRef(setup.folder, repo.revision, commit)
  return { commit, files, origin: 'hub' }
}

const listCached = async (setup: Home, repo: HubRepo, why: string): Promise<HubListing> => {
  const commit = await cachedCommit(setup.folder, repo.revision)
  const files = commit === undefined ? [] : await cachedFiles(setup.folder, commit)
  return commit === undefined || files.length === 0
    ? refuseFile(repo, 'not-cached', `${why}, and the cache ${setup.cache} has no files of revision ${repo.revision}`)
    : { commit, files, origin: 'cache' }
}

const list = async (home: Home, repo: HubRepo): Promise<HubListing> => {
  if (home.network === 'cache-only') return listCached(home, repo, 'network access is disabled')
  try {
    return await listOnline(home, repo)
  } catch (error) {
    if (!isFailure(error, 'unreachable', 'timeout')) throw error
    return listCached(home, repo, error.failure.reason).catch((missing: unknown) => {
      throw isFailure(missing, 'not-cached') ? error : missing
    })
  }
}

/** A file on the hub, with its expected size and checksum. */
interface RemoteFile {
  readonly url: string
  readonly path: string
  readonly commit: string
  readonly etag: string
  readonly size: number
}

/** Maximum number of redirects to follow. They are followed here to read the hub's own headers. */
const MOST_REDIRECTS = 5

const describeFile = async (setup: Setup, repo: HubRepo, path: string): Promise<RemoteFile> => {
  const prefix = repo.kind === 'dataset' ? 'datasets/' : ''
  const at = path.split('/').map(encodeURIComponent).join('/')
  let url = `${setup.endpoint}/${prefix}${repo.name}/resolve/${encodeURIComponent(repo.revision)}/${at}`
  const watch = startWatch(setup)
  try {
    for (let redirects = 0; redirects <= MOST_REDIRECTS; redirects++) {
      const response = await ask(setup, repo, {
        url,
        method: 'HEAD',
        redirect: 'manual',
        accepted: [301, 302, 303, 307, 308],
        watch,
      })
      const { headers } = response
      const location = headers.get('location')
      if (headers.get('x-repo-commit') === null && location !== null) {
        url = webAddress(repo, location, url).href // the repository was renamed
        continue
      }
      const commit = headers.get('x-repo-commit') ?? ''
      const etag = (headers.get('x-linked-etag') ?? headers.get('etag') ?? '').replace(/^W\//, '').replaceAll('"', '')
      const size = Number(headers.get('x-linked-size') ?? headers.get('content-length') ?? Number.NaN)
      if (
        !COMMIT.test(commit) ||
        !/^[\w.-]{1,128}$/.test(etag) ||
        /^\.+$/.test(etag) ||
        !Number.isSafeInteger(size) ||
        size < 0
      ) {
        return refuseFile(
          repo,
          'protocol',
          `${path}: the hub did not send commit, etag and size: is HF_ENDPOINT right?`,
        )
      }
      return { url, path, commit: requireRequested(commit, repo), etag, size }
    }
    return refuseFile(repo, 'protocol', `${path}: more than ${MOST_REDIRECTS} redirects`)
  } finally {
    watch.stop()
  }
}

interface Download {
  readonly setup: Setup
  readonly repo: HubRepo
  readonly file: RemoteFile
  readonly incomplete: string
  readonly onProgress: (progress: HubProgress) => void
}

const sizeOf = async (path: string): Promise<number> => (await fs.stat(path).catch(() => undefined))?.size ?? 0

/** Downloads the missing part of a file. Returns true if the file is now complete. */
const fetchRest = async ({ setup, repo, file, incomplete, onProgress }: Download): Promise<boolean> => {
  let have = await sizeOf(incomplete)
  if (have > file.size) {
    await fs.rm(incomplete)
    have = 0
  }
  if (have === file.size && have > 0) return true
  const watch = startWatch(setup)
  try {
    const headers = have > 0 ? { range: `bytes=${have}-` } : {}
    const response = await ask(setup, repo, { url: file.url, headers, accepted: [416], watch })
    const start =
      response.status === 206 ? Number(/^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1] ?? -1) : 0
    if (response.status === 416 || (start !== have && start !== 0)) {
      await response.body?.cancel()
      await fs.rm(incomplete, { force: true }) // resuming is impossible: the next attempt starts over
      return false
    }
    const out = await fs.open(incomplete, start === 0 ? 'w' : 'a')
    try {
      let bytes = start
      for await (const part of partsOf(response, repo, { connection: setup, watch })) {
        bytes += part.length
        if (bytes > file.size)
          refuseFile(
            repo,
            'corrupt',
            `${file.path}: the server sends more than the ${file.size} bytes that the hub announced`,
          )
        await out.writeFile(part)
        onProgress({ path: file.path, bytes, totalBytes: file.size })
      }
      await flush(out)
      return bytes === file.size
    } finally {
      await out.close()
    }
  } finally {
    watch.stop()
  }
}

const fetchAll = async (download: Download): Promise<void> => {
  const { setup, repo, file, incomplete } = download
  for (let resumes = 0; ; resumes++) {
    const result = await fetchRest(download).catch((error: unknown) => error)
    if (result === true) return
    if (result !== false && !isFailure(result, 'unreachable', 'timeout')) {
      const isLie = isFailure(result, 'corrupt')
      if (isLie) await fs.rm(incomplete, { force: true })
      throw result
    }
    if (resumes >= setup.resumes) {
      const have = await sizeOf(incomplete)
      if (result !== false && have === 0) throw result
      refuseFile(repo, 'truncated', `${file.path}: only ${have} of ${file.size} bytes arrived; run again to resume`)
    }
    await new Promise((resolve) =>
      setTimeout(resolve, Math.min(setup.timeoutMs, 100 * 2 ** resumes) * (0.5 + Math.random() / 2)),
    )
  }
}

/**
 * Downloads a file to its place among the blobs, where it appears once complete and verified. Other
 * processes may do the same at the same time.
 */
const fetchBlob = async (wanted: Omit<Download, 'incomplete'>, blob: string): Promise<void> => {
  const { repo, file } = wanted
  await fs.mkdir(dirname(blob), { recursive: true })
  const incomplete = await claimPartial(blob)
  try {
    await fetchAll({ ...wanted, incomplete })
    const sum = await checksum(incomplete, file.etag)
    if (sum !== undefined && sum !== file.etag) {
      await fs.rm(incomplete, { force: true })
      refuseFile(repo, 'corrupt', `${file.path}: the downloaded data has checksum ${sum}, not ${file.etag}: run again`)
    }
    await fs.rename(incomplete, blob)
    await dropPartials(blob)
  } finally {
    await leavePartial(blob, incomplete)
  }
}

const downloadOnline = async (
  setup: Home,
  repo: HubRepo,
  wanted: { readonly path: string; readonly onProgress: (progress: HubProgress) => void },
): Promise<string> => {
  const file = await describeFile(setup, repo, wanted.path)
  const cached = await cachedFile(setup.folder, file)
  if (cached !== undefined && (await sizeOf(cached)) === file.size) return cached
  const blob = join(setup.folder, 'blobs', file.etag)
  if ((await sizeOf(blob)) !== file.size || file.size === 0)
    await fetchBlob({ setup, repo, file, onProgress: wanted.onProgress }, blob)
  await writeRef(setup.folder, repo.revision, file.commit)
  return publish(setup.folder, file)
}

const downloadCached = async ({ folder }: Home, repo: HubRepo, path: string): Promise<string | undefined> => {
  const commit = await cachedCommit(folder, repo.revision)
  return commit === undefined ? undefined : cachedFile(folder, { commit, path })
}

const download = async (
  home: Home,
  repo: HubRepo,
  wanted: { readonly path: string; readonly onProgress: (progress: HubProgress) => void },
): Promise<string> => {
  if (!isInside(wanted.path)) refuseFile(repo, 'not-found', `'${wanted.path}' cannot be a file of a repository`)
  const cached = await downloadCached(home, repo, wanted.path)
  if (cached !== undefined && COMMIT.test(repo.revision)) return cached // commits never change
  if (home.network === 'cache-only') {
    const reason = `network access is disabled, and the cache ${home.cache} does not have ${wanted.path}`
    return cached ?? refuseFile(repo, 'not-cached', reason)
  }
  try {
    return await downloadOnline(home, repo, wanted)
  } catch (error) {
    if (cached !== undefined && isFailure(error, 'unreachable', 'timeout')) return cached
    throw error
  }
}

/**
 * Makes a client of the Hugging Face hub.
 *
 * An interrupted download is resumed, within a call and between calls. A file enters the cache only
 * with the right size and checksum (its etag is a SHA-256 or git's SHA-1). Several processes may
 * share one cache.
 *
 * Errors   `Left(HubFailure)`: `unauthorized`, `gated`, `not-found` (repository, revision or file),
 *          `refused`; `unreachable` and `timeout` without a cached copy; `truncated`, `corrupt` or
 *          `protocol` for incomplete or invalid responses; `not-cached`; `disk`.
 * Effects  sends requests to the endpoint and its redirect targets, and writes files in the cache
 *          folder. Reads the environment when it is made.
 */
export const liveHub = (options: LiveHubOptions = {}): Hub => {
  const setup = setupOf(options, process.env)
  const homeOf = async (repo: HubRepo): Promise<Home> => {
    requireRepo(repo)
    return { ...setup, folder: await repoFolder(setup.cache, repo) }
  }
  return {
    list: (repo) => attempt(repo, async () => list(await homeOf(repo), repo)),
    download: (repo, path, onProgress = () => undefined) =>
      attempt(repo, async () =>
        download(await homeOf(repo), repo, { path, onProgress: harmless('onProgress', onProgress) }),
      ),
  }
}

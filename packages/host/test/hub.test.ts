import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { downloadFileToCacheDir, scanCacheDir } from '@huggingface/hub'
import { type HubFailure, type HubRepo, describe as sentence } from '@tandem-rl/base'
import { afterAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { COMMIT, gitSha1, type HubServer, sha256, startHub } from '../../../test/kit/hubServer.js'
import { manualTime, settle } from '../../../test/kit/manualTime.js'
import { leftOf, rightOf } from '../../../test/kit/results.js'
import { useTemporaryFolder } from '../../../test/kit/runs.js'
import { type LiveHubOptions, liveHub } from '../src/hub.js'

const path = useTemporaryFolder()

const parquet = Uint8Array.from({ length: 300_000 }, (_, i) => (i * i) >> 3)
const readme = new TextEncoder().encode('# rows\n')
const FILES = {
  'README.md': readme,
  'main/train-00000-of-00001.parquet': parquet,
  'main/test-00000-of-00001.parquet': parquet.subarray(0, 10),
}
const TRAIN = 'main/train-00000-of-00001.parquet'

const rows: HubRepo = { name: 'owner/rows', kind: 'dataset', revision: 'main' }

const servers: HubServer[] = []
let server: HubServer
let cache = ''

beforeEach(async () => {
  server = await startHub(FILES)
  servers.push(server)
  cache = mkdtempSync(path('cache-'))
})

afterAll(async () => {
  await Promise.all(servers.map((each) => each.close()))
})

const hub = (options: LiveHubOptions = {}) => liveHub({ endpoint: server.url, cacheFolder: cache, ...options })

/** Comparing 300,000 numbers one by one takes seconds. */
const bytesOf = (file: string): string => sha256(readFileSync(file))
const blob = (name: string): string => join(cache, 'datasets--owner--rows', 'blobs', name)
const PARTIAL = '.tandem.incomplete'
/** The train file that is not whole yet, as a call leaves it. */
const partial = (): string => `${blob(sha256(parquet))}${PARTIAL}`

describe('liveHub', () => {
  it('lists all pages of files, at the commit of the revision', async () => {
    const listing = await rightOf(hub().list(rows))
    expect(listing).toMatchObject({ commit: COMMIT, origin: 'hub' })
    expect(listing.files).toEqual(Object.entries(FILES).map(([path, bytes]) => ({ path, size: bytes.length })))
  })

  it('downloads into the layout of the cache that all libraries share, and not twice', async () => {
    const progress: number[] = []
    const file = await rightOf(hub().download(rows, TRAIN, ({ bytes }) => progress.push(bytes)))
    expect(bytesOf(file)).toBe(sha256(parquet))
    expect(file).toBe(join(cache, 'datasets--owner--rows', 'snapshots', COMMIT, TRAIN))
    expect(lstatSync(file).isSymbolicLink()).toBe(true)
    expect(readlinkSync(file)).toBe(`../../../blobs/${sha256(parquet)}`)
    expect(readFileSync(join(cache, 'datasets--owner--rows', 'refs', 'main'), 'utf8')).toBe(COMMIT)
    expect(progress.at(-1)).toBe(parquet.length)
    expect(progress).toEqual([...progress].sort((a, b) => a - b))
    const before = server.requests.length
    expect(await rightOf(hub().download(rows, TRAIN))).toBe(file)
    expect(server.requests.slice(before)).toEqual([expect.stringMatching(/^HEAD /)])
    expect(await rightOf(hub().download({ ...rows, revision: COMMIT }, TRAIN))).toBe(file) // a commit never changes: nobody is asked
    expect(server.requests).toHaveLength(before + 1)
  })

  it('shares its cache with @huggingface/hub, both ways', async () => {
    vi.spyOn(console, 'debug').mockImplementation(() => undefined) // it reports its downloads there
    await rightOf(hub().download(rows, 'README.md'))
    const { repos } = await scanCacheDir(cache)
    expect(repos).toMatchObject([
      { id: { name: 'owner/rows', type: 'dataset' }, revisions: [{ commitOid: COMMIT, refs: ['main'] }] },
    ])
    const pathsInfo = [
      {
        type: 'file',
        path: TRAIN,
        size: parquet.length,
        oid: 'x',
        lfs: { oid: sha256(parquet), size: parquet.length },
        lastCommit: { id: COMMIT },
      },
    ]
    server.misbehave((request, response) => {
      if (request.method !== 'POST') return false
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(pathsInfo))
      return true
    })
    const theirs = await downloadFileToCacheDir({
      repo: 'datasets/owner/rows',
      path: TRAIN,
      hubUrl: server.url,
      cacheDir: cache,
    })
    expect(await rightOf(hub({ network: 'cache-only' }).download(rows, TRAIN))).toBe(theirs)
  })

  it('finds a renamed model under the name that caches of Python have', async () => {
    const gpt2: HubRepo = { name: 'openai-community/gpt2', kind: 'model', revision: 'main' }
    const folder = join(cache, 'models--gpt2')
    const file = join(folder, 'snapshots', COMMIT, 'config.json')
    mkdirSync(dirname(file), { recursive: true })
    mkdirSync(join(folder, 'refs'))
    writeFileSync(file, '{}')
    writeFileSync(join(folder, 'refs', 'main'), COMMIT)
    const offline = hub({ network: 'cache-only' })
    expect(await rightOf(offline.list(gpt2))).toMatchObject({ commit: COMMIT, files: [{ path: 'config.json' }] })
    expect(await rightOf(offline.download(gpt2, 'config.json'))).toBe(file)
    expect((await leftOf(offline.list({ ...gpt2, name: 'someone/gpt2' }))).kind).toBe('not-cached')
    expect((await leftOf(offline.list({ ...gpt2, kind: 'dataset' }))).kind).toBe('not-cached')
    mkdirSync(join(cache, 'models--openai-community--gpt2', 'snapshots'), { recursive: true })
    expect((await leftOf(offline.list(gpt2))).kind).toBe('not-cached') // the own folder comes first
  })

  it('sends its token to the hub, and to no other server', async () => {
    await rightOf(hub({ token: 'hf_secret' }).download(rows, TRAIN))
    expect(server.tokens.map(([, token]) => token)).toEqual(['Bearer hf_secret', 'Bearer hf_secret', 'none'])
  })

  it('follows a repository that has moved', async () => {
    expect(bytesOf(await rightOf(hub().download({ ...rows, name: 'owner/old' }, 'README.md')))).toBe(sha256(readme))
  })

  it('takes token, endpoint and cache from the environment', async () => {
    vi.stubEnv('HF_TOKEN', 'hf_env')
    vi.stubEnv('HF_ENDPOINT', `${server.url}/`)
    vi.stubEnv('HF_HUB_CACHE', cache)
    const file = await rightOf(liveHub().download(rows, 'README.md'))
    expect(file.startsWith(cache)).toBe(true)
    expect(server.tokens[0]).toEqual([expect.any(String), 'Bearer hf_env'])
    vi.stubEnv('HF_HUB_OFFLINE', '1')
    vi.stubEnv('HF_TOKEN', '')
    const before = server.requests.length
    expect(await rightOf(liveHub().download(rows, 'README.md'))).toBe(file)
    expect(server.requests).toHaveLength(before)
    vi.unstubAllEnvs()
  })
})

describe('liveHub resumes', () => {
  it('with a download that broke off, in the same call', async () => {
    let breaks = 2
    server.misbehave((request, response) => {
      if (
        !request.url!.includes('train') ||
        request.method !== 'GET' ||
        request.url!.includes('resolve') ||
        breaks === 0
      )
        return false
      breaks -= 1
      const start = Number(/\d+/.exec(request.headers.range ?? '0')![0])
      response.writeHead(start > 0 ? 206 : 200, {
        'content-length': parquet.length - start,
        'content-range': `bytes ${start}-${parquet.length - 1}/${parquet.length}`,
      })
      response.write(parquet.subarray(start, start + 100_000), () => response.destroy())
      return true
    })
    expect(bytesOf(await rightOf(hub().download(rows, TRAIN)))).toBe(sha256(parquet))
    expect(server.requests.filter((each) => each.includes('bytes='))).not.toEqual([])
  })

  it('with what an earlier call left, and starts anew where the server cannot', async () => {
    await rightOf(hub().download(rows, 'README.md')) // makes the folders
    writeFileSync(partial(), parquet.subarray(0, 1234))
    expect(bytesOf(await rightOf(hub().download(rows, TRAIN)))).toBe(sha256(parquet))
    expect(server.requests.at(-1)).toMatch(/bytes=1234-$/)
    rmSync(blob(sha256(parquet)))
    writeFileSync(partial(), parquet.subarray(0, 1234))
    server.misbehave((request, response) => {
      if (request.headers.range === undefined) return false
      response.writeHead(200, { 'content-length': parquet.length }).end(parquet) // knows no ranges
      return true
    })
    expect(bytesOf(await rightOf(hub().download(rows, TRAIN)))).toBe(sha256(parquet))
  })

  it('without the network, from the cache, with a note', async () => {
    const file = await rightOf(hub().download(rows, TRAIN))
    await server.close()
    expect(await rightOf(hub().download(rows, TRAIN))).toBe(file)
    expect(await rightOf(hub().list(rows))).toEqual({
      commit: COMMIT,
      origin: 'cache',
      files: [{ path: TRAIN, size: parquet.length }],
    })
  })
})

const refusal = async (
  name: string,
  kind: HubFailure['kind'],
  options: LiveHubOptions = {},
  file = TRAIN,
): Promise<string> => {
  const failure = await leftOf(hub(options).download({ ...rows, name }, file))
  expect(failure).toMatchObject({ _tag: 'HubFailure', kind, repo: name })
  return sentence(failure)
}

/** Nothing that is not whole is in the cache. */
const expectNothingCached = (): void => {
  const folder = join(cache, 'datasets--owner--rows')
  expect(existsSync(join(folder, 'snapshots'))).toBe(false)
  expect(
    existsSync(join(folder, 'blobs'))
      ? readdirSync(join(folder, 'blobs')).filter((name) => !name.endsWith(PARTIAL))
      : [],
  ).toEqual([])
}

describe('liveHub refuses', () => {
  it('with the way out: private, gated and missing repositories, revisions and files', async () => {
    expect(await refusal('owner/private', 'unauthorized')).toMatch(/set HF_TOKEN/)
    const denied = await refusal('owner/private', 'unauthorized', { token: 'hf_secret' })
    expect(denied).toMatch(/the token may not read it/)
    expect(denied).not.toContain('hf_secret')
    expect(await refusal('owner/gated', 'gated')).toMatch(/request access on the page/)
    expect(await refusal('owner/none', 'not-found')).toMatch(/check its name/)
    expect(await refusal('owner/rows', 'not-found', {}, 'none.parquet')).toMatch(/no such file/)
    expect(sentence(await leftOf(hub().list({ ...rows, revision: 'v9' })))).toMatch(/there is no revision v9/)
    expect(sentence(await leftOf(hub().list({ ...rows, name: 'owner/gated' })))).toMatch(/gated|asked for/)
  })

  it('names that would leave the cache', async () => {
    for (const name of ['../x', 'a/b/c', '', 'a/..']) await refusal(name, 'not-found')
    for (const file of ['../../x', '/etc/passwd', 'a//b', '.', 'a\\b'])
      await refusal('owner/rows', 'not-found', {}, file)
    server.misbehave((request, response) => {
      if (!request.url!.includes('/tree/')) return false
      response.end(JSON.stringify([{ type: 'file', path: '../../evil', size: 1 }]))
      return true
    })
    expect(await leftOf(hub().list(rows))).toMatchObject({ kind: 'protocol' })
    expect(server.requests.filter((each) => each.includes('passwd'))).toEqual([])
  })

  it('invalid addresses, without showing their secrets', async () => {
    const address = { endpoint: 'http://me:hf_secret@127.0.0.1:1' }
    expect(await refusal('owner/rows', 'protocol', address)).not.toContain('hf_secret')
    for (const endpoint of ['nowhere', 'file:///etc', 'http://']) await refusal('owner/rows', 'protocol', { endpoint })
    for (const location of ['http://[', 'file:///etc/passwd', 'http://me:hf_secret@127.0.0.1:1/']) {
      server.misbehave((_, response) => {
        response.writeHead(302, { location }).end()
        return true
      })
      expect(await refusal('owner/rows', 'protocol')).not.toContain('hf_secret')
    }
    const before = server.requests.length
    expect(await refusal('owner/rows', 'unauthorized', { token: 'hf\nsecret' })).not.toContain('secret')
    expect(server.requests).toHaveLength(before)
  })

  it('a commit that is not the one asked for', async () => {
    const pinned = { ...rows, revision: 'b'.repeat(40) }
    server.misbehave((request, response) => {
      if (request.method === 'HEAD')
        response.setHeader('x-repo-commit', COMMIT).setHeader('etag', gitSha1(readme)).setHeader('content-length', 7)
      response.end(request.method === 'HEAD' ? undefined : JSON.stringify({ sha: COMMIT }))
      return true
    })
    for (const failure of [await leftOf(hub().download(pinned, 'README.md')), await leftOf(hub().list(pinned))])
      expect(failure).toMatchObject({ kind: 'protocol', reason: expect.stringMatching(/not for bbbb/) })
    expectNothingCached()
  })

  it('a server that sends a byte now and then', async () => {
    const timers = manualTime()
    server.misbehave((request, response) => {
      if (request.method !== 'GET' || request.url!.includes('resolve')) return false
      response.writeHead(200, { 'content-length': parquet.length }).write(parquet.subarray(0, 10))
      const drip = setInterval(() => {
        response.write(parquet.subarray(0, 1))
        timers.pass(60)
      }, 5)
      response.once('close', () => clearInterval(drip))
      return true
    })
    const reason = await refusal('owner/rows', 'truncated', { timeoutMs: 500, resumes: 0, timers })
    expect(reason).toMatch(/only \d+ of 300000 bytes arrived/)
    expectNothingCached()
  })

  it('a hub that is not there, and a silent one, within the time limit', async () => {
    const timers = manualTime()
    server.misbehave(() => {
      void settle().then(() => timers.pass(100))
      return true // takes the request and never responds
    })
    expect(await refusal('owner/rows', 'timeout', { timeoutMs: 100, timers })).toMatch(/silent for 100 ms/)
    await server.close()
    expect(await refusal('owner/rows', 'unreachable')).toMatch(/cannot be reached .*HF_ENDPOINT/)
    expect(await leftOf(hub({ network: 'cache-only' }).download(rows, TRAIN))).toMatchObject({ kind: 'not-cached' })
    expect(await leftOf(hub({ network: 'cache-only' }).list(rows))).toMatchObject({ kind: 'not-cached' })
  })

  it('a download that stops early keeps the received part and resumes later', async () => {
    const timers = manualTime()
    server.misbehave((request, response) => {
      if (request.method !== 'GET' || request.url!.includes('resolve')) return false
      if (request.headers.range === undefined)
        response.writeHead(200, { 'content-length': parquet.length }).write(parquet.subarray(0, 5_000))
      void settle().then(() => timers.pass(100))
      return true // and then silence
    })
    expect(await refusal('owner/rows', 'truncated', { timeoutMs: 100, resumes: 1, timers })).toMatch(
      /only 5000 of 300000 bytes arrived; run again/,
    )
    expectNothingCached()
    server.misbehave(() => false)
    expect(bytesOf(await rightOf(hub().download(rows, TRAIN)))).toBe(sha256(parquet))
    expect(server.requests.at(-1)).toMatch(/bytes=5000-$/)
  })

  it.each([
    ['other bytes', /checksum/],
    ['more bytes', /sends more than/],
  ])('a server that sends %s, and keeps nothing', async (what, reason) => {
    const lie = what === 'other bytes' ? new Uint8Array(parquet.length) : new Uint8Array(parquet.length + 1)
    server.misbehave((request, response) => {
      if (request.method !== 'GET' || request.url!.includes('resolve')) return false
      response.writeHead(200).end(lie)
      return true
    })
    expect(await refusal('owner/rows', 'corrupt')).toMatch(reason)
    expectNothingCached()
    expect(readdirSync(dirname(partial()))).toEqual([])
  })

  it('small files whose checksum is wrong, too', async () => {
    server.misbehave((request, response) => {
      if (request.method !== 'GET') return false
      response.setHeader('x-repo-commit', COMMIT)
      response.setHeader('etag', gitSha1(readme))
      response.end('# sowr\n')
      return true
    })
    expect(await refusal('owner/rows', 'corrupt', {}, 'README.md')).toMatch(/checksum/)
  })

  it.each([
    ['a web page', (end: (text: string) => void) => end('<html>'), /did not respond with JSON/],
    ['another record', (end: (text: string) => void) => end('{"sha":7}'), /has no commit/],
    ['nothing', (end: (text: string) => void) => end(''), /did not respond with JSON/],
  ])('an endpoint that answers with %s', async (_, answer, reason) => {
    server.misbehave((__, response) => {
      answer((text) => response.end(text))
      return true
    })
    expect(sentence(await leftOf(hub().list(rows)))).toMatch(reason)
    expect(await refusal('owner/rows', 'protocol')).toMatch(/did not send commit, etag and size/)
  })

  it('an endpoint that redirects in circles, is overloaded or broken', async () => {
    server.misbehave((request, response) => {
      response.writeHead(307, { location: request.url! }).end()
      return true
    })
    expect(await refusal('owner/rows', 'protocol')).toMatch(/redirects/)
    for (const [status, kind] of [
      [429, 'refused'],
      [503, 'unreachable'],
      [418, 'refused'],
      [403, 'unauthorized'],
    ] as const) {
      server.misbehave((_, response) => {
        response.writeHead(status).end()
        return true
      })
      await refusal('owner/rows', kind)
    }
  })
})

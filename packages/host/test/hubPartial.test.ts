import { execFile, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import type { HubRepo } from '@tandem-rl/base'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { COMMIT, type HubServer, sha256, startHub } from '../../../test/kit/hubServer.js'
import { rightOf } from '../../../test/kit/results.js'
import { useTemporaryFolder } from '../../../test/kit/runs.js'
import { liveHub } from '../src/hub.js'

const path = useTemporaryFolder()

const TRAIN = 'main/train.parquet'
const parquet = Uint8Array.from({ length: 300_000 }, (_, i) => (i * i) >> 3)
const rows: HubRepo = { name: 'owner/rows', kind: 'dataset', revision: 'main' }

let server: HubServer
let cache = ''
let blobs = ''

beforeEach(async () => {
  server = await startHub({ [TRAIN]: parquet })
  cache = mkdtempSync(path('cache-'))
  blobs = join(cache, 'datasets--owner--rows', 'blobs')
})

afterEach(() => server.close())

const download = async (): Promise<string> => {
  const hub = liveHub({ endpoint: server.url, cacheFolder: cache, timeoutMs: 300_000, resumes: 0 })
  return sha256(readFileSync(await rightOf(hub.download(rows, TRAIN))))
}

const HOST = hostname()
  .replaceAll(/[^\w-]/g, '_')
  .slice(0, 30)

/** The file that is not whole yet, as a call leaves it, or as its owner writes it. */
const partial = (owner = ''): string => join(blobs, `${sha256(parquet)}${owner}.tandem.incomplete`)

describe('a download resumes', () => {
  it('with what a dead process left, and not with what a living one or another program writes', async () => {
    mkdirSync(blobs, { recursive: true })
    const dead = spawnSync(process.execPath, ['--version']).pid
    const living = [
      partial(`.${process.pid}-999-${HOST}`),
      partial('.1-0-elsewhere'),
      partial('.x'),
      join(blobs, `${sha256(parquet)}.incomplete`),
    ]
    for (const file of living) writeFileSync(file, parquet.subarray(0, 9999))
    writeFileSync(partial(`.${dead}-0-${HOST}`), parquet.subarray(0, 1234))
    writeFileSync(partial(), parquet.subarray(0, 123))
    expect(await download()).toBe(sha256(parquet))
    expect(server.requests.at(-1)).toMatch(/bytes=1234-$/)
    const left = [...living, sha256(parquet)].map((file) => basename(file))
    expect(readdirSync(blobs)).toEqual(left.sort())
  })

  it('with what another machine left a day ago', async () => {
    mkdirSync(blobs, { recursive: true })
    const old = partial('.1-0-elsewhere')
    writeFileSync(old, parquet.subarray(0, 1234))
    utimesSync(old, new Date(0), new Date(0))
    expect(await download()).toBe(sha256(parquet))
    expect(server.requests.at(-1)).toMatch(/bytes=1234-$/)
  })

  it('while others download the same file: three processes, two calls each, at the same moment', async () => {
    const waiting: (() => void)[] = []
    server.misbehave((request, response) => {
      if (request.method !== 'GET' || request.url!.includes('resolve')) return false
      response.writeHead(200, { 'content-length': parquet.length }).write(parquet.subarray(0, 100_000))
      waiting.push(() => response.end(parquet.subarray(100_000)))
      if (waiting.length === 6) for (const goOn of waiting) goOn()
      return true
    })
    const program = `
      import { liveHub } from ${JSON.stringify(resolve('packages/host/src/hub.ts'))}
      const options = JSON.parse(process.argv[1])
      const calls = [0, 1].map(() => liveHub(options).download(${JSON.stringify(rows)}, ${JSON.stringify(TRAIN)})())
      console.log(JSON.stringify(await Promise.all(calls)))`
    const options = JSON.stringify({ endpoint: server.url, cacheFolder: cache, timeoutMs: 300_000, resumes: 0 })
    const run = promisify(execFile)
    const ends = await Promise.all(
      [0, 1, 2].map(() =>
        run(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', program, options]),
      ),
    )
    const file = join(cache, 'datasets--owner--rows', 'snapshots', COMMIT, TRAIN)
    const right = { _tag: 'Right', right: file }
    expect(ends.map(({ stdout }) => JSON.parse(stdout) as unknown)).toEqual(ends.map(() => [right, right]))
    expect(sha256(readFileSync(file))).toBe(sha256(parquet))
    expect(readdirSync(blobs)).toEqual([sha256(parquet)])
    expect(readdirSync(join(cache, 'datasets--owner--rows', 'refs'))).toEqual(['main'])
  })
})

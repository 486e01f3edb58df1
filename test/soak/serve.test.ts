/** The memory of `tandem serve` stays flat over thousands of requests with different prompts. */
import { readFileSync } from 'node:fs'
import { child, keyFromSeed, uniformInteger } from '@tandem-rl/base'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { EMBEDDED_MODEL } from '../../src/live/embeddedModel.js'
import { startServe } from '../kit/serveProcess.js'

const MEBIBYTE = 2 ** 20
/** `SOAK_REQUESTS=100000` for a long soak. */
const REQUESTS = Number(process.env.SOAK_REQUESTS ?? 6000)
const WARM_UP = REQUESTS / 3
const AT_ONCE = 8
/** Requests between two readings. */
const EVERY = REQUESTS / 15
const CACHE_BYTES = 16 * MEBIBYTE

/** The resident memory of a process. */
const residentMebibytes = (pid: number): number => {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return Number(kilobytes) / 1024
}

const key = keyFromSeed(1)

/** A prompt of 16 to 63 words with a prefix of its own. */
const promptOf = (request: number): string => {
  const own = child(key, request)
  const words = Array.from({ length: 16 + uniformInteger(own, 48) }, (_, i) => String(uniformInteger(own, 1000, i + 1)))
  return `${request} ${words.join(' ')}`
}

const complete = async (url: string, request: number): Promise<void> => {
  const answer = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'policy', prompt: promptOf(request), max_tokens: 8, seed: request }),
  })
  if (!answer.ok) throw new Error(`request ${request}: ${answer.status} ${await answer.text()}`)
  await answer.json()
}

const median = (xs: readonly number[]): number => xs.toSorted((a, b) => a - b)[Math.floor(xs.length / 2)]!

describe(`${REQUESTS} requests with different prompts`, () => {
  it(`leave a server with a cache of ${CACHE_BYTES / MEBIBYTE} MiB as large as the first third of them did`, async () => {
    // The heap is limited, so that a leak shows and garbage that V8 has not collected yet does not.
    vi.stubEnv('NODE_OPTIONS', '--max-old-space-size=96')
    onTestFinished(() => void vi.unstubAllEnvs())
    const server = await startServe(EMBEDDED_MODEL, 'policy', '--kv-cache-bytes', String(CACHE_BYTES))
    const seen: number[] = []
    for (let done = 0; done < REQUESTS; done += AT_ONCE) {
      await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => complete(server.url, done + i)))
      if (done + AT_ONCE >= EVERY * (seen.length + 1)) seen.push(residentMebibytes(server.pid))
    }
    await server.stop()
    const settled = seen.slice(WARM_UP / EVERY)
    const half = settled.length / 2
    console.log(JSON.stringify({ residentMebibytes: seen.map(Math.round) }))
    expect(median(settled.slice(half)) - median(settled.slice(0, half)), seen.map(Math.round).join()).toBeLessThan(16)
  })
})

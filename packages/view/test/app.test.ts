/** The viewer's handler of requests: what it refuses, and what it returns unchanged. */
import { liveTimers } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import { describe, expect, it } from 'vitest'
import { useTemporaryFolder } from '../../../test/kit/runs.js'
import { writeRun } from '../../../test/kit/writtenRun.js'
import { viewApp } from '../src/app.js'
import { eventHub } from '../src/events.js'
import type { RolloutsAnswer } from '../src/protocol.js'

const path = useTemporaryFolder()
const HOSTILE = '<script>alert(1)</script>\u202e\u001b[31m</textarea>'
writeRun(path('first'), { learningRate: 0.1, reward: 0.25, query: HOSTILE })

const { fetch } = viewApp({
  files: liveFiles,
  folders: [path('.')],
  page: { 'index.html': '<!doctype html>' },
  version: 'test',
  events: eventHub(liveTimers),
})

const send = (address: string, init: RequestInit = {}): Promise<Response> =>
  fetch(new Request(`http://127.0.0.1:7788${address}`, init))

const put = (headers: Readonly<Record<string, string>>): Promise<Response> =>
  send('/api/runs/first/note', { method: 'PUT', headers, body: '{"note":"kept"}' })

describe('viewApp', () => {
  it('serves only the files of the page', async () => {
    for (const address of [
      '/assets/..%2fpackage.json',
      '/assets/%2e%2e/package.json',
      '/assets/__proto__',
      '/config.json',
    ])
      expect((await send(address)).status).toBe(404)
    expect((await send('/assets/%zz')).status).toBe(400)
    expect((await send('/api/runs/..%2f..')).status).toBe(404)
  })

  it('refuses to write for pages of other origins, and for forms', async () => {
    const json = { 'content-type': 'application/json' }
    expect((await put(json)).status).toBe(403)
    expect((await put({ ...json, origin: 'http://evil.example' })).status).toBe(403)
    expect((await put({ ...json, origin: 'http://127.0.0.1:9999' })).status).toBe(403)
    expect((await put({ 'content-type': 'text/plain', origin: 'http://127.0.0.1:7788' })).status).toBe(415)
    expect((await put({ ...json, origin: 'http://127.0.0.1:7788' })).status).toBe(200)
  })

  it('refuses an origin that is not an address', async () => {
    expect((await put({ 'content-type': 'application/json', origin: 'null' })).status).toBe(403)
  })

  it('sets a policy without inline scripts on every answer, and allows no other origin', async () => {
    for (const address of ['/', '/api/runs', '/api/runs/first/rollouts', '/nothing']) {
      const { headers } = await send(address, { headers: { origin: 'http://evil.example' } })
      expect(headers.get('content-security-policy')).toMatch(/^default-src 'none'; script-src 'self';/)
      expect(headers.get('x-content-type-options')).toBe('nosniff')
      expect(headers.get('access-control-allow-origin')).toBeNull()
    }
  })

  it('returns hostile text of rollouts unchanged, as JSON', async () => {
    const response = await send('/api/runs/first/rollouts')
    expect(response.headers.get('content-type')).toBe('application/json')
    const { total, rows } = (await response.json()) as RolloutsAnswer // the answer of this path
    expect([total, rows[0]?.query]).toEqual([1, HOSTILE])
  })
})

/**
 * `tandem capture` as a process of its own: killed in the middle, gone on with, stopped politely.
 * The engine behind it is scripted.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import { afterAll, describe, expect, it } from 'vitest'
import { compiled } from '../../../../test/kit/compiled.js'
import { useTemporaryFolder } from '../../../../test/kit/runs.js'

const path = useTemporaryFolder()

const started: (() => void)[] = []
afterAll(() => {
  for (const stop of started) stop()
})

const capture = async (args: readonly string[], env: NodeJS.ProcessEnv = {}) => {
  const child = spawn(process.execPath, [compiled('test/kit/captureMain.ts'), '--port', '0', ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  started.push(() => child.kill('SIGKILL'))
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const ended = once(child, 'close').then(([code]) => ({ code, stderr }))
  const line = await Promise.race([
    once(createInterface(child.stdout), 'line').then(([text]) => String(text)),
    ended.then(() => ''),
  ])
  return { child, ended, url: line.split(' at ')[1] ?? '', said: () => stderr }
}

const chat = (url: string, session: string, body: object = {}): Promise<Response> =>
  fetch(`${url}/sessions/${session}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'How?' }], max_tokens: 8, ...body }),
  })

describe('tandem capture', () => {
  it('keeps every call whose end was seen, though it is killed; goes on with the file, and ends politely', async () => {
    const out = path('calls.jsonl')
    const first = await capture(['--out', out])
    expect((await chat(first.url, 'a')).status).toBe(200)
    expect(await (await chat(first.url, 'a', { stream: true })).text()).toContain('[DONE]')
    first.child.kill('SIGKILL')
    await first.ended
    const second = await capture(['--out', out])
    expect(second.said()).toContain('restored 1 session')
    await chat(second.url, 'a')
    const told = (await (await fetch(`${second.url}/sessions/a`)).json()) as { readonly calls: number } // as it is told
    expect(told.calls).toBe(3)
    second.child.kill('SIGINT')
    expect(await second.ended).toMatchObject({ code: 130 })
    expect(readFileSync(out, 'utf8').trim().split('\n')).toHaveLength(4)
  })

  it('refuses a file that another process has open, with the id of that process, and leaves the file alone', async () => {
    const out = path('shared.jsonl')
    const first = await capture(['--out', out])
    expect((await chat(first.url, 'a')).status).toBe(200)
    const written = readFileSync(out, 'utf8')
    const second = await capture(['--out', out])
    const { code, stderr } = await second.ended
    expect([code, readFileSync(out, 'utf8')]).toEqual([1, written])
    expect(stderr).toContain(`in use by process ${first.child.pid}`)
    first.child.kill('SIGINT')
    await first.ended
    expect(existsSync(`${out}.lock`)).toBe(false)
  })

  it('records what a signal ended', async () => {
    const out = path('held.jsonl')
    const { child, ended, url } = await capture(['--out', out, '--shutdown-seconds', '0'], { HOLD: '1' })
    const held = chat(url, 'a', { stream: true })
    await expect.poll(async () => (await fetch(`${url}/health`)).json()).toMatchObject({ running: 1 })
    child.kill('SIGTERM')
    await (await held).text()
    expect(await ended).toMatchObject({ code: 143 })
    expect(readFileSync(out, 'utf8')).toContain('"status":"aborted"')
  })

  it('names a server that does not answer, and an invalid address', async () => {
    const [dead, none, other] = await Promise.all([
      capture(['--upstream', 'http://127.0.0.1:9', '--upstream-key', 'sk-secret']),
      capture(['--upstream', 'not an address']),
      capture(['--upstream', 'ftp://x']),
    ])
    expect(await dead.ended).toMatchObject({ code: 1, stderr: expect.stringContaining('127.0.0.1:9') })
    expect(dead.said()).not.toContain('sk-secret')
    expect(await none.ended).toMatchObject({ code: 1, stderr: expect.stringContaining('is not a server address') })
    const line = "tandem: --upstream: 'ftp://x' is not a server address such as http://127.0.0.1:8000\n"
    expect(await other.ended).toMatchObject({ code: 1, stderr: line })
  })

  it('gives up a server that sends signs of life and no answer, and one that leads elsewhere', async () => {
    const asked: string[] = []
    const server = createServer(({ url = '' }, response) => {
      asked.push(url)
      if (url.startsWith('/elsewhere')) {
        response.writeHead(307, { location: '/stolen' }).end()
      } else {
        response.writeHead(200, { 'content-type': 'application/json' })
        const beat = setInterval(() => response.write(' '), 20)
        response.once('close', () => clearInterval(beat))
      }
    })
    await new Promise<void>((listens) => server.listen(0, '127.0.0.1', listens))
    const { port } = server.address() as AddressInfo // it listens on a port
    const upstream = `http://127.0.0.1:${port}`
    const [pinging, leading] = await Promise.all([
      capture(['--upstream', upstream, '--upstream-seconds', '1']),
      capture(['--upstream', `${upstream}/elsewhere`]),
    ])
    expect(await pinging.ended).toMatchObject({ code: 1, stderr: expect.stringContaining('the deadline of 1000 ms') })
    expect(await leading.ended).toMatchObject({ code: 1, stderr: expect.stringContaining('307') })
    expect(asked).not.toContain('/stolen')
    server.closeAllConnections()
    await new Promise((closed) => server.close(closed))
  })

  it('ends after a port that is taken', async () => {
    const first = await capture([])
    const second = await capture(['--port', new URL(first.url).port])
    expect(await second.ended).toMatchObject({ code: 1, stderr: expect.stringContaining('the port is in use') })
  })
})

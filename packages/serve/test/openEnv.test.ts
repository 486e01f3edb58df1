/** Environments in OpenEnv's form, over real WebSockets. */
import { once } from 'node:events'
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { type HttpServer, liveHttpServer } from '@tandem-rl/host'
import { liveTensors } from '@tandem-rl/tfjs-onnxruntime/scope'
import { afterEach, describe, expect, it } from 'vitest'
import WebSocket from 'ws'
import { taskList } from '../../../src/data/task.js'
import { envOfTask } from '../../../src/envs/envOfTask.js'
import { MultiTurnEnv, type MultiTurnEnvOptions } from '../../../src/envs/multiTurnEnv.js'
import { useEngine } from '../../../test/kit/engine.js'
import { type Json, until } from '../../../test/kit/served.js'
import { type OpenEnvApp, type OpenEnvOptions, openEnvApp } from '../src/openEnv/app.js'

useEngine()

/** A guessing game of up to three turns. */
const game = (reply?: MultiTurnEnvOptions['reply']): OpenEnvOptions['env'] =>
  envOfTask(
    (source) => (tasks) =>
      MultiTurnEnv({
        ...{ source, ...tasks, maxTurns: 3 },
        reply:
          reply ??
          (({ answer, task }) => (answer === task.answer ? { done: true, reward: 1 } : { message: 'No.', reward: 0 })),
      }),
  )

const tasks = () =>
  taskList('numbers', [
    { query: 'Guess.', answer: '1' },
    { query: 'Guess again.', answer: '2' },
  ])

const open: HttpServer[] = []
const apps: OpenEnvApp[] = []
const sockets: WebSocket[] = []
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.terminate()
  for (const app of apps.splice(0)) await until(() => app.sessions() === 0)
  for (const server of open.splice(0)) await server.close({ graceMs: 1000, atLimit: async () => undefined })
})

const serve = async (
  changes: Partial<OpenEnvOptions> = {},
): Promise<{ readonly app: OpenEnvApp; readonly url: string }> => {
  const app = openEnvApp({ name: 'game', env: game(), tasks, key: keyFromSeed(1), ...changes })
  const options = { port: 0, refusal: () => '{}', sockets: { path: '/ws', open: app.frames, maxBytes: 4096 } }
  const server = orThrow(await liveHttpServer(app.fetch, options)())
  open.push(server)
  apps.push(app)
  return { app, url: server.url }
}

const connected = async (url: string, headers = {}): Promise<WebSocket> => {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/ws`, { headers })
  sockets.push(socket)
  await once(socket, 'open')
  return socket
}

const ask = async (socket: WebSocket, frame: unknown): Promise<Json> => {
  const answer = once(socket, 'message')
  socket.send(typeof frame === 'string' ? frame : JSON.stringify(frame))
  return JSON.parse(String((await answer)[0])) as Json // every frame is an object
}

const reset = (data: object = {}) => ({ type: 'reset', data })
const step = (message: string) => ({ type: 'step', data: { message } })

const errorOf = (frame: Json): unknown => [frame.type, (frame.data as Json).code]

describe('a session', () => {
  it('plays episodes of several turns, and releases them', async () => {
    const { count } = liveTensors()
    const { app, url } = await serve()
    const socket = await connected(url)
    expect(await ask(socket, reset({ seed: 1, episode_id: 'mine' }))).toEqual({
      type: 'observation',
      data: {
        observation: { messages: [{ role: 'user', content: 'Guess again.' }], success: null },
        reward: null,
        done: false,
      },
    })
    expect(await ask(socket, step('1'))).toMatchObject({
      data: { observation: { messages: [{ content: 'No.' }] }, reward: 0, done: false },
    })
    expect(await ask(socket, { type: 'state' })).toMatchObject({
      type: 'state',
      data: {
        episode_id: 'mine',
        step_count: 1,
        messages: [{ role: 'user' }, { role: 'assistant' }, { role: 'user' }],
      },
    })
    expect(await ask(socket, step('2'))).toMatchObject({
      data: { observation: { messages: [], success: true }, reward: 1, done: true },
    })
    expect(errorOf(await ask(socket, step('2')))).toEqual(['error', 'VALIDATION_ERROR'])
    expect(await ask(socket, reset({ query: 'Mine?', answer: 'a' }))).toMatchObject({
      data: { observation: { messages: [{ content: 'Mine?' }] } },
    })
    socket.send('{"type":"close"}')
    await once(socket, 'close')
    await until(() => app.sessions() === 0)
    expect(liveTensors().count).toBe(count)
  })

  it('has its own episode', async () => {
    const { url } = await serve()
    const [first, second] = [await connected(url), await connected(url)]
    await ask(first, reset({ seed: 0 }))
    await ask(second, reset({ seed: 1 }))
    expect(await ask(second, step('2'))).toMatchObject({ data: { done: true } })
    expect(await ask(first, step('2'))).toMatchObject({ data: { done: false } })
  })

  it('answers frames that arrive at once in order', async () => {
    const { url } = await serve()
    const socket = await connected(url)
    const answers: string[] = []
    socket.on('message', (bytes) => answers.push(String(bytes)))
    for (const frame of [reset({ seed: 0 }), step('a'), step('1')]) socket.send(JSON.stringify(frame))
    await until(() => answers.length === 3)
    expect(answers.map((text) => (JSON.parse(text) as { data: Json }).data.done)).toEqual([false, false, true])
  })

  it('reports a failed environment as an error, never as a reward, and ends the episode', async () => {
    const { url } = await serve({
      env: game(() => {
        throw new Error('the judge is gone')
      }),
    })
    const socket = await connected(url)
    await ask(socket, reset())
    const failed = await ask(socket, step('a'))
    expect(errorOf(failed)).toEqual(['error', 'EXECUTION_ERROR'])
    expect(JSON.stringify(failed)).toContain('the judge is gone')
    expect(errorOf(await ask(socket, step('a')))).toEqual(['error', 'VALIDATION_ERROR'])
  })

  it('aborts a running step if the client goes away', async () => {
    let aborted = false
    const { app, url } = await serve({
      env: game(
        ({ signal }) =>
          new Promise((resolve) => {
            signal.addEventListener('abort', () => {
              aborted = true
              resolve('late')
            })
          }),
      ),
    })
    const socket = await connected(url)
    await ask(socket, reset())
    socket.send(JSON.stringify(step('a')))
    await until(() => app.sessions() === 1)
    socket.close()
    await until(() => app.sessions() === 0)
    expect(aborted).toBe(true)
  })

  it.each([
    ['{', 'INVALID_JSON'],
    [{ type: 'dance' }, 'UNKNOWN_TYPE'],
    [{ type: 'step', data: {} }, 'VALIDATION_ERROR'],
    [{ type: 'step', data: { message: 'a', extra: 1 } }, 'VALIDATION_ERROR'],
    [reset({ seed: -1 }), 'VALIDATION_ERROR'],
    [step('a'), 'VALIDATION_ERROR'],
  ])('refuses %j', async (frame, code) => {
    const { url } = await serve()
    expect(errorOf(await ask(await connected(url), frame))).toEqual(['error', code])
  })
})

describe('limits', () => {
  it('refuse sessions beyond the capacity', async () => {
    const { url } = await serve({ maxSessions: 1 })
    await connected(url)
    const second = await connected(url)
    expect(errorOf(await ask(second, reset()))).toEqual(['error', 'CAPACITY_REACHED'])
    await once(second, 'close')
  })

  it('close connections that send too much', async () => {
    const { url } = await serve()
    const socket = await connected(url)
    socket.send('a'.repeat(5000))
    const [code] = await once(socket, 'close')
    expect(code).toBe(1009)
  })

  it.each([
    [{ origin: 'http://evil.example' }, 403],
    [{}, 401],
    [{ host: 'evil.example' }, 421],
  ])('refuse connections with headers %j', async (headers, status) => {
    const { url } = await serve({ access: { apiKeys: ['secret'] } })
    await expect(connected(url, headers)).rejects.toThrow(String(status))
  })

  it('let a client with a key connect', async () => {
    const { url } = await serve({ access: { apiKeys: ['secret'] } })
    const socket = await connected(url, { authorization: 'Bearer secret' })
    expect(await ask(socket, reset())).toMatchObject({ type: 'observation' })
  })

  it('need a task if the recipe has none', async () => {
    const app = openEnvApp({ name: 'game', env: game(), key: keyFromSeed(1) })
    const response = await app.fetch(new Request('http://localhost/reset', { method: 'POST' }))
    expect(response.status).toBe(422)
    expect(await response.text()).toContain('has no tasks')
  })
})

describe('requests', () => {
  const app = openEnvApp({ name: 'game', env: game(), tasks, key: keyFromSeed(1) })
  const request = async (path: string, body?: unknown): Promise<Json> => {
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
    const response = await app.fetch(new Request(`http://localhost${path}`, body === undefined ? {} : init))
    return { status: response.status, ...((await response.json()) as Json) } // every answer is an object
  }

  it('play one step of a new episode', async () => {
    expect(await request('/step', { action: { message: '2' }, seed: 1 })).toMatchObject({ reward: 1, done: true })
    expect(await request('/step', { action: {} })).toMatchObject({ status: 422 })
  })

  it('describe the environment', async () => {
    expect(await request('/health')).toMatchObject({ status: 'healthy' })
    expect(await request('/metadata')).toMatchObject({ name: 'game' })
    expect(await request('/schema')).toMatchObject({ action: { required: ['message'] } })
    expect(await request('/state')).toMatchObject({ episode_id: null, step_count: 0 })
    expect(await request('/openapi.json')).toMatchObject({ info: { version: '1.0.0' } })
    expect(await request('/mcp', { id: 1, method: 'tools/list' })).toMatchObject({ jsonrpc: '2.0', id: 1 })
    expect(await request('/nothing')).toMatchObject({ status: 404 })
    expect(await request('/reset')).toMatchObject({ status: 405 })
  })
})

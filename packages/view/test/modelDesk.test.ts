/** Requests about models: one at a time, with limits of waiting requests and of time. */
import { liveTimers } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import { afterEach, describe, expect, it } from 'vitest'
import { useTemporaryFolder } from '../../../test/kit/runs.js'
import { writeRun } from '../../../test/kit/writtenRun.js'
import { viewApp } from '../src/app.js'
import { eventHub } from '../src/events.js'
import { type ModelDesk, type ModelTask, modelDesk } from '../src/modelDesk.js'
import type { ModelLine } from '../src/modelProtocol.js'
import { heldRollouts } from '../src/rolloutLog.js'
import type { ViewedRun } from '../src/viewedRun.js'

const RUN: ViewedRun = {
  ...{ id: 'first', folder: '/none', files: liveFiles, access: 'write', ...heldRollouts([]) },
  log: () => Promise.reject(new Error('it has no log')),
  alarms: async () => [],
  note: async () => ({}),
  annotations: async () => new Map(),
}

const desks: ModelDesk[] = []
afterEach(() => Promise.all(desks.splice(0).map((desk) => desk.close())))

const deskOf = (options: { readonly limitMs?: number } = {}): ModelDesk => {
  const openRun = () => Promise.reject(new Error('there is no recipe'))
  const desk = modelDesk({ files: liveFiles, timers: liveTimers, openRun, ...options })
  desks.push(desk)
  return desk
}

const linesOf = async (stream: ReadableStream<Uint8Array>): Promise<readonly ModelLine[]> =>
  (await new Response(stream).text())
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as ModelLine) // the desk's own lines

/** A task that yields its name, waits until it is released, and records its end. */
const waiting = (name: string, ended: string[]) => {
  let release = (): void => {}
  const free = new Promise<void>((done) => {
    release = done
  })
  const task: ModelTask = async function* () {
    try {
      yield { type: 'progress', message: name }
      await free
      yield { type: 'progress', message: `${name} again` }
    } finally {
      ended.push(name)
    }
  }
  return { task, release }
}

const NEVER = new AbortController().signal

describe('modelDesk', () => {
  it('runs one request at a time, in the order of arrival', async () => {
    const desk = deskOf()
    const ended: string[] = []
    const tasks = ['a', 'b'].map((name) => waiting(name, ended))
    const answers = tasks.map(({ task }) => linesOf(desk.ask(RUN, task, NEVER)))
    tasks[1]!.release()
    await Promise.resolve()
    expect(ended).toEqual([])
    tasks[0]!.release()
    const [first, second] = await Promise.all(answers)
    expect(ended).toEqual(['a', 'b'])
    expect(first!.at(-1)).toEqual({ type: 'end', reason: null })
    expect(second![0]).toEqual({ type: 'progress', message: 'waiting for another request' })
  })

  it('refuses a request while four wait', async () => {
    const desk = deskOf()
    const held = waiting('a', [])
    const leave = new AbortController()
    desk.ask(RUN, held.task, leave.signal)
    for (let i = 0; i < 4; i++) desk.ask(RUN, held.task, leave.signal)
    expect(() => desk.ask(RUN, held.task, NEVER)).toThrow('5 requests of models')
    held.release()
    leave.abort()
  })

  it('ends a request when its page goes away, and then serves the next', async () => {
    const desk = deskOf()
    const ended: string[] = []
    const gone = waiting('gone', ended)
    const reader = desk.ask(RUN, gone.task, NEVER).getReader()
    await reader.read()
    await reader.cancel()
    gone.release()
    const next = waiting('next', ended)
    next.release()
    const lines = await linesOf(desk.ask(RUN, next.task, NEVER))
    expect(lines.at(-1)).toEqual({ type: 'end', reason: null })
    expect(ended).toEqual(['gone', 'next'])
  })

  it('ends a request at the time limit, with the reason', async () => {
    const desk = deskOf({ limitMs: 5 })
    const slow: ModelTask = async function* ({ signal }) {
      yield { type: 'progress', message: 'begun' }
      await new Promise<void>((done) => signal.addEventListener('abort', () => done()))
      yield { type: 'progress', message: 'late' }
    }
    expect(await linesOf(desk.ask(RUN, slow, NEVER))).toEqual([
      { type: 'progress', message: 'begun' },
      { type: 'end', reason: 'stopped after 0.005 s' },
    ])
  })

  it('ends with the reason if the run cannot be opened', async () => {
    const failing: ModelTask = async function* ({ open }) {
      await open()
      yield { type: 'progress', message: 'never' }
    }
    expect(await linesOf(deskOf().ask(RUN, failing, NEVER))).toEqual([{ type: 'end', reason: 'there is no recipe' }])
  })
})

describe('viewApp with models', () => {
  const path = useTemporaryFolder()
  writeRun(path('first'), { learningRate: 0.1, reward: 0.25 })
  const appWith = (models?: ModelDesk) =>
    viewApp({
      ...{ files: liveFiles, folders: [path('.')], page: {}, version: 'test', events: eventHub(liveTimers) },
      ...(models && { models }),
    })
  const post = (models: ModelDesk | undefined, body: object, origin = 'http://127.0.0.1:7788') => {
    const headers = { origin, 'content-type': 'application/json' }
    const init = { method: 'POST', headers, body: JSON.stringify(body) }
    return appWith(models).fetch(new Request('http://127.0.0.1:7788/api/runs/first/chat', init))
  }
  const CHAT = { checkpoint: 0, messages: [{ role: 'user', content: 'x' }] }

  it('refuses requests of models from other origins, without a desk, and with a wrong body', async () => {
    expect((await post(deskOf(), CHAT, 'http://evil.example')).status).toBe(403)
    expect((await post(undefined, CHAT)).status).toBe(404)
    expect((await post(deskOf(), { ...CHAT, temperature: -1 })).status).toBe(400)
    const answer = await post(deskOf(), CHAT)
    expect([answer.status, await answer.text()]).toEqual([
      200,
      '{"type":"progress","message":"opening the run"}\n{"type":"end","reason":"there is no recipe"}\n',
    ])
  })

  it('lists no features of models for a run of a program', async () => {
    const answer = await appWith(deskOf()).fetch(new Request('http://127.0.0.1:7788/api/runs/first'))
    expect(await answer.json()).toMatchObject({ features: ['write'] })
  })
})

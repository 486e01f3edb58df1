import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { FailureError, keyFromSeed } from '@tandem-rl/base'
import type { GenerationEvent, GenerationRequest, LLMEngine, PlainArray } from '@tandem-rl/text'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { LLMOnDevice, type OnDeviceOptions } from '../../../src/modules/generation/onDevice.js'
import { compiledFolder } from '../../kit/compiled.js'
import { endlessEngine, type KeyedEngineOptions, keyedEngine, keyedRequest } from '../../kit/keyedEngine.js'
import { leftOf, rightOf } from '../../kit/results.js'

const module = pathToFileURL(resolve('test/kit/keyedEngine.ts')).href

const engines: LLMEngine[] = []

afterEach(async () => {
  await Promise.all(engines.splice(0).map(({ close }) => close()))
})

const onDevice = async (engine: KeyedEngineOptions = {}, options: OnDeviceOptions = {}): Promise<LLMEngine> => {
  const made = await rightOf(LLMOnDevice({ module, exportName: 'keyedEngine', options: engine }, options))
  engines.push(made)
  return made
}

const eventsOf = async (stream: AsyncIterable<GenerationEvent>): Promise<readonly GenerationEvent[]> => {
  const events: GenerationEvent[] = []
  for await (const event of stream) events.push(event)
  return events
}

const requests = (): readonly GenerationRequest[] =>
  Array.from({ length: 8 }, (_, i) =>
    keyedRequest(`${i}`, { key: keyFromSeed(i), n: 1 + (i % 3), maxTokens: 3 + 5 * i }),
  )

const endless = (id: string): GenerationRequest => keyedRequest(id, { key: keyFromSeed(0), maxTokens: null })

const array = (...numbers: readonly number[]): PlainArray => ({
  shape: [numbers.length],
  data: Float32Array.from(numbers),
})

/** Ends of all requests of an engine whose thread died. */
const expectGone = async (engine: LLMEngine, reason: RegExp): Promise<void> => {
  const closed = { _tag: 'Failed', failure: { kind: 'closed', reason: expect.stringMatching(reason) } }
  expect(await eventsOf(engine.generate(endless('late')))).toMatchObject([closed])
  expect(await leftOf(engine.loadWeights({ _tag: 'Folder', path: '' }, { version: 0, running: 'keep' }))).toMatchObject(
    {
      _tag: 'WeightFailure',
      receiver: 'LLMOnDevice',
      reason: expect.stringMatching(reason),
    },
  )
  await expect(engine.metrics()).rejects.toThrow(FailureError)
  await expect(engine.abort()).rejects.toThrow(reason)
}

describe('an engine on a thread', () => {
  let engine: LLMEngine

  beforeAll(async () => {
    engine = await rightOf(LLMOnDevice({ module, exportName: 'keyedEngine', options: {} }, { window: 4 }))
  })

  afterAll(() => engine.close())

  it('gives the tokens of the same engine in this thread, to all requests at once', async () => {
    const here = await rightOf(keyedEngine({}))
    expect(engine.info).toEqual(here.info)
    const all = (each: LLMEngine) => Promise.all(requests().map((request) => eventsOf(each.generate(request))))
    expect(await all(engine)).toEqual(await all(here))
    expect(await engine.metrics()).toEqual(await here.metrics())
  })

  it('ends a request whose signal is aborted, before or after its start, and one that nobody reads on', async () => {
    expect(await eventsOf(engine.generate(endless('before'), { signal: AbortSignal.abort() }))).toMatchObject([
      { _tag: 'Started' },
      { _tag: 'Finished', finishReason: 'abort' },
    ])
    const controller = new AbortController()
    const seen: string[] = []
    for await (const { _tag } of engine.generate(endless('after'), { signal: controller.signal })) {
      if (seen.push(_tag) === 3) controller.abort()
    }
    expect(seen.at(-1)).toBe('Finished')
    for await (const event of engine.generate(endless('left'))) if (event._tag === 'Tokens') break
    expect(await engine.metrics()).toMatchObject({ running: 0 })
  })

  it('does what its other methods say', async () => {
    await engine.pause({ mode: 'keep', cache: 'keep' })
    expect(await engine.isPaused()).toBe(true)
    const reading = eventsOf(engine.generate(endless('a')))
    expect(await engine.abort(['a', 'b'])).toBe(1)
    expect((await reading).at(-1)).toMatchObject({ finishReason: 'abort' })
    await engine.resume()
    expect(await engine.isPaused()).toBe(false)
    await rightOf(engine.loadAdapter('poet', { rank: 1, alpha: 3, tensors: new Map([['w', array(1, 2)]]) }))
    expect(await engine.adapters()).toEqual(['poet'])
    expect(
      await leftOf(engine.loadAdapter('liar', { rank: 1, alpha: 4, tensors: new Map([['w', array(1, 2)]]) })),
    ).toEqual({ _tag: 'WeightFailure', receiver: 'keyedEngine', reason: 'the sum is 3' })
    await rightOf(engine.unloadAdapter('poet'))
    await leftOf(engine.unloadAdapter('poet'))
    await engine.resetPrefixCache()
    await expect(engine.pause({ mode: 'wait', cache: 'keep' })).rejects.toThrow(RangeError)
  })

  it('refuses a request that cannot be sent, as a failure of the stream', async () => {
    const request = { ...endless('odd'), prompt: (() => 1) as never } // only untyped programs do this
    expect(await eventsOf(engine.generate(request))).toMatchObject([{ _tag: 'Failed', failure: { kind: 'invalid' } }])
  })
})

describe('weights of an engine on a thread', () => {
  const weights = (arrays: Readonly<Record<string, PlainArray>>) =>
    ({ _tag: 'Arrays', arrays: new Map(Object.entries(arrays)) }) as const
  const part = (): PlainArray => ({ shape: [2], data: new Float32Array([9, 1, 2, 9]).subarray(1, 3) })
  const shared = (): PlainArray => {
    const data = new Float32Array(new SharedArrayBuffer(8))
    data.set([5, 6])
    return { shape: [2], data }
  }

  it('are copied, or taken if told so; parts of larger buffers and shared memory stay in any case', async () => {
    for (const transport of ['copy', 'move'] as const) {
      const engine = await onDevice({}, { weights: transport })
      const [whole, some, common] = [array(3, 4), part(), shared()]
      const load = engine.loadWeights(weights({ whole, some, common }), { version: 21, running: 'keep' })
      expect(await rightOf(load)).toBe(21)
      expect(await engine.version()).toBe(21)
      expect(whole.data.length).toBe(transport === 'copy' ? 2 : 0)
      expect([...some.data, ...common.data]).toEqual([1, 2, 5, 6])
    }
  })

  it('can be read by the thread from a folder', async () => {
    const engine = await onDevice()
    const load = engine.loadWeights({ _tag: 'Folder', path: 'three' }, { version: 5, running: 'keep' })
    expect(await rightOf(load)).toBe(5)
  })

  it('that are refused leave the old ones', async () => {
    const engine = await onDevice()
    const load = engine.loadWeights(weights({ a: array(1) }), { version: 2, running: 'keep' })
    expect(await leftOf(load)).toMatchObject({ reason: 'the sum is 1' })
    expect(await engine.version()).toBe(0)
  })
})

describe('a thread that dies', () => {
  it.each([
    ['exit', /ended with code 3/],
    ['throw', /threw RangeError: the engine broke/],
    ['memory', /ran out of memory/],
  ] as const)('by %s ends every open stream and refuses what comes later, saying why', async (how, reason) => {
    const engine = await onDevice({ death: { tokens: 40, how } }, { heapMegabytes: 32 })
    await engine.pause({ mode: 'keep', cache: 'keep' }) // no stream spends the 40 tokens before the others begin
    const open = Array.from({ length: 3 }, (_, i) => eventsOf(engine.generate(endless(`${i}`))))
    await expect.poll(async () => (await engine.metrics()).running).toBe(3)
    await engine.resume()
    for (const events of await Promise.all(open)) {
      expect(events.at(-1)).toMatchObject({
        _tag: 'Failed',
        failure: { kind: 'closed', reason: expect.stringMatching(reason) },
      })
      expect(events.filter(({ _tag }) => _tag === 'Tokens').length).toBeGreaterThan(0)
    }
    await expectGone(engine, reason)
    await engine.close()
  })

  it('fails to start if that happens at once, or after the time limit', async () => {
    const start = (exportName: string, options: unknown, rest: OnDeviceOptions = {}) =>
      leftOf(LLMOnDevice({ module, exportName, options }, rest))
    expect(await start('keyedEngine', { refusal: 'no license' })).toEqual({
      _tag: 'ThreadFailure',
      kind: 'refused',
      reason: 'no license',
      cause: { _tag: 'EngineRefusal', reason: 'no license' },
    })
    expect(await start('noEngine', {})).toMatchObject({ reason: expect.stringContaining("no function 'noEngine'") })
    expect(await start('keyedEngine', null)).toMatchObject({ kind: 'error', reason: expect.stringContaining('null') })
    expect(await start(endlessEngine.name, {}, { startLimitMs: 1 })).toMatchObject({ kind: 'timeout' })
    expect(await start('keyedEngine', () => 1)).toMatchObject({ kind: 'start' })
    await expect(LLMOnDevice({ module, exportName: 'keyedEngine', options: {} }, { window: 0 })()).rejects.toThrow(
      /window must be a positive integer, got 0/,
    )
  })

  it('is closed once, with every stream ended as in this thread', async () => {
    const engine = await onDevice()
    const reading = eventsOf(engine.generate(endless('a')))
    await engine.version() // the request has arrived
    await Promise.all([engine.close(), engine.close()])
    expect((await reading).at(-1)).toMatchObject({ _tag: 'Finished', finishReason: 'abort' })
    await expectGone(engine, /the engine is closed/)
  })

  it('is ended by `close` after the limit if it hangs', async () => {
    const engine = await onDevice({ death: { tokens: 0, how: 'spin' } }, { closeLimitMs: 20 })
    const reader = engine.generate(endless('a'))[Symbol.asyncIterator]()
    expect(await reader.next()).toMatchObject({ value: { _tag: 'Started' } })
    await engine.close()
    expect((await reader.next()).value).toMatchObject({
      failure: { kind: 'closed', reason: 'the thread was ended after 20 ms of waiting' },
    })
  })

  it('is not needed for an engine that throws against its contract: that stream alone fails', async () => {
    const engine = await onDevice({ breach: 'throws' })
    expect(await eventsOf(engine.generate(endless('a')))).toMatchObject([
      { _tag: 'Failed', failure: { kind: 'internal', reason: 'the engine threw: no engine throws here' } },
    ])
    expect(await engine.metrics()).toMatchObject({ running: 0 })
  })
})

/** Asks an engine on a thread for its tokens, as a program of compiled files does. */
const PROGRAM = `
import { LLMOnDevice } from './src/modules/generation/onDevice.js'
import { keyedRequest } from './test/kit/keyedEngine.js'
import { keyFromSeed } from '@tandem-rl/base'
const module = import.meta.resolve('./test/kit/keyedEngine.js')
const { right: engine } = await LLMOnDevice({ module, exportName: 'keyedEngine', options: {} })()
const ids = []
for await (const event of engine.generate(keyedRequest('a', { key: keyFromSeed(7), maxTokens: 5 }))) {
  if (event._tag === 'Tokens') ids.push(event.tokens[0].id)
}
await engine.close()
console.log(JSON.stringify(ids))
`

describe('compiled files', () => {
  it('run the engine on a thread with Node alone', async () => {
    const program = join(compiledFolder(), `${randomUUID()}.js`)
    writeFileSync(program, PROGRAM)
    const printed = execFileSync(process.execPath, [program], { cwd: compiledFolder(), encoding: 'utf8', env: {} })
    const here = await rightOf(keyedEngine({}))
    const events = await eventsOf(here.generate(keyedRequest('a', { key: keyFromSeed(7), maxTokens: 5 })))
    expect(JSON.parse(printed)).toEqual(
      events.flatMap((event) => (event._tag === 'Tokens' ? event.tokens.map(({ id }) => id) : [])),
    )
  })
})

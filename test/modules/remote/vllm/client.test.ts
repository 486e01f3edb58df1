import { mkdtempSync, rmSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import type { ServeOptions } from '@tandem-rl/serve'
import type { AdapterWeights, GenerationEvent } from '@tandem-rl/text'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { afterAll, describe, expect, it } from 'vitest'
import { collectEvents } from '../../../../src/modules/generation/generateAll.js'
import { type VLLMClientOptions, vLLMClient } from '../../../../src/modules/remote/vllm/client.js'
import { requestSeed } from '../../../../src/modules/remote/vllm/wireRequest.js'
import type { ScriptedEngine } from '../../../kit/plannedEngine.js'
import { saying, scripted, served, tokenizer } from '../../../kit/served.js'
import { eventsOf, failureIn, requestOf, transportTo } from '../../../kit/wire.js'

const folder = mkdtempSync(join(tmpdir(), 'vllm-client-'))
afterAll(() => rmSync(folder, { recursive: true }))

const ADAPTER: AdapterWeights = {
  rank: 1,
  alpha: 2,
  tensors: new Map([
    ['model.layers.0.self_attn.q_proj.lora_A.weight', { shape: [1, 2], data: Float32Array.of(1, 2) }],
    ['model.layers.0.self_attn.q_proj.lora_B.weight', { shape: [2, 1], data: Float32Array.of(3, 4) }],
  ]),
}

const DEV: ServeOptions['features'] = { control: 'on', readAdapter: () => TE.right(ADAPTER) }

/** A client of our own server over an engine. */
const clientOf = (
  engine: ScriptedEngine,
  features: ServeOptions['features'] = DEV,
  { shared = 'yes', ...options }: Partial<VLLMClientOptions> & { readonly shared?: 'yes' | 'no' } = {},
) => {
  const transport = transportTo(served(engine, { features: features ?? {} }))
  const client = vLLMClient({ model: 'cat', ...(shared === 'yes' && { sharedFolder: folder }), ...options, transport })
  return {
    client,
    transport,
    ask: (...args: Parameters<typeof requestOf>) => eventsOf(client.generate(requestOf(...args))),
  }
}

const WAYS = (['generate', 'completions'] as const).flatMap((endpoint) =>
  (['whole', 'stream'] as const).map((delivery) => ({ endpoint, delivery })),
)

const tokensIn = (events: readonly GenerationEvent[]) =>
  events.flatMap((event) => (event._tag === 'Tokens' ? event.tokens : []))

describe('connect', () => {
  it('reports the kind of server and its abilities', async () => {
    const { client } = clientOf(saying('x'))
    expect(orThrow(await client.connect())).toEqual({
      ...{ server: 'vllm 0.32.0+tandem', maxModelLength: 512, vocabularySize: tokenizer.vocabularySize },
      ...{ maxConcurrent: 8, endTokens: [], logProbs: 'raw', promptLogProbs: 'yes', stamps: 'yes' },
      ...{ updates: ['adapter', 'full'], control: 'yes' },
    })
  })

  it('guesses few completions of one request where the server does not tell how many it takes', async () => {
    const limited = async (options: Partial<VLLMClientOptions>) =>
      orThrow(await clientOf(saying('x'), {}, options).client.connect()).maxConcurrent
    expect(await limited({})).toBe(32)
    expect(await limited({ maxConcurrent: 48 })).toBe(48)
  })

  it('refuses a model that is not there, naming those that are, and asks again the next time', async () => {
    const { client, transport } = clientOf(saying('x'), DEV, { model: 'dog' })
    const reason = "there is no model 'dog': the server has cat, cat-2"
    expect(await client.connect()).toMatchObject({ left: { kind: 'refused', reason } })
    const before = transport.seen.length
    expect(failureIn(await eventsOf(client.generate(requestOf())))).toMatchObject({ kind: 'invalid', reason })
    expect(transport.seen.length).toBeGreaterThan(before)
  })

  it('asks once for all requests', async () => {
    const { client, transport } = clientOf(saying('x'))
    await Promise.all([client.connect(), client.connect(), eventsOf(client.generate(requestOf()))])
    expect(transport.seen.filter(({ path }) => path === '/v1/models')).toHaveLength(1)
  })
})

describe.each(WAYS)('over /$endpoint, $delivery', (way) => {
  it('a request has the events that the engine gives without a wire', async () => {
    const engine = scripted()
    const { client } = clientOf(engine, DEV, way)
    const request = requestOf({ sampling: { n: 3, topLogProbs: 2, key: keyFromSeed(5), maxTokens: 6 } })
    const over = orThrow(await collectEvents(client.generate(request), 3))
    const key = keyFromSeed(requestSeed(request.sampling.key))
    const direct = orThrow(
      await collectEvents(engine.generate({ ...request, sampling: { ...request.sampling, key } }), 3),
    )
    expect(over.completions.map(({ tokens }) => tokens.map(({ id }) => id))).toEqual(
      direct.completions.map(({ tokens }) => tokens.map(({ id }) => id)),
    )
    expect(over.completions.map(({ finishReason }) => finishReason)).toEqual(
      direct.completions.map(({ finishReason }) => finishReason),
    )
    const [mine, its] = [over, direct].map(({ completions }) => completions[1]!.tokens[2]!)
    expect(mine).toMatchObject({ rawLogProb: its!.rawLogProb, top: its!.top, version: 0, rank: 1 })
    if (way.endpoint === 'completions') {
      expect(over.completions.map(({ text }) => text)).toEqual(direct.completions.map(({ text }) => text))
    }
  })

  it('prompts have log-probabilities, whatever the delivery', async () => {
    const { ask } = clientOf(saying('x'), DEV, way)
    const [started] = await ask({ sampling: { promptLogProbs: 1 } })
    expect(started).toMatchObject({ _tag: 'Started', promptLogProbs: [null, { id: 6, rank: 1 }, { id: 7, rank: 1 }] })
  })

  it('reports the stop reason of a completion', async () => {
    const { ask } = clientOf(saying('one two'), DEV, way)
    expect((await ask({ sampling: { stop: ['two'] } })).at(-1)).toMatchObject({
      finishReason: 'stop',
      stopReason: 'two',
    })
    expect((await ask({ sampling: { maxTokens: 2 } })).at(-1)).toMatchObject({
      finishReason: 'length',
      stopReason: null,
    })
    const last = tokenizer.encode('one two').at(-1)!
    expect((await ask({ sampling: { stopTokens: [last] } })).at(-1)).toMatchObject({ stopReason: last })
  })

  it('ends with abort when the signal does, and frees the slot', async () => {
    const engine = saying('a long text', { beforeToken: (_, t) => (t === 2 ? new Promise(() => {}) : undefined) })
    const { client } = clientOf(engine, DEV, way)
    const controller = new AbortController()
    const events = eventsOf(client.generate(requestOf({ sampling: { n: 2 } }), { signal: controller.signal }))
    while (engine.running() === 0) await new Promise((resolve) => setImmediate(resolve))
    expect(client.inFlight()).toBe(1)
    controller.abort()
    expect((await events).filter(({ _tag }) => _tag === 'Finished')).toMatchObject([
      { finishReason: 'abort' },
      { finishReason: 'abort' },
    ])
    while (engine.running() > 0) await new Promise((resolve) => setImmediate(resolve))
    expect(client.inFlight()).toBe(0)
  })
})

describe('a request', () => {
  it('without an answer is refused before it is sent', async () => {
    const { client, transport, ask } = clientOf(saying('x'))
    await client.connect()
    const before = transport.seen.length
    const refused = [
      { prompt: new Int32Array(0) },
      { prompt: Int32Array.of(tokenizer.vocabularySize) },
      { sampling: { logitBias: new Map([[1, 101]]) } },
      { sampling: { topLogProbs: 1, logProbsMode: 'processed', temperature: 0.5 } as const },
      { sampling: { topLogProbs: 21 } },
    ]
    for (const fields of refused) expect(failureIn(await ask(fields)).kind).toBe('invalid')
    expect(transport.seen.length).toBe(before)
  })

  it('goes to /v1/completions where the other endpoint cannot tell as many alternatives', async () => {
    const { transport, ask } = clientOf(saying('x'))
    expect(tokensIn(await ask({ sampling: { topLogProbs: 20 } }))[0]!.top).toHaveLength(20)
    expect(transport.seen.at(-1)!.path).toBe('/v1/completions')
  })

  it('never asks for more tokens than the context has room for', async () => {
    const { transport, ask } = clientOf(saying('x', { maxModelLength: 10 }))
    await ask({ sampling: { maxTokens: null } })
    await ask({ sampling: { maxTokens: 99 } })
    expect(transport.seen.slice(-2).map(({ json }) => json)).toMatchObject(
      Array(2).fill({ sampling_params: { max_tokens: 7 } }),
    )
  })

  it('of a missing adapter is reported', async () => {
    expect(failureIn(await clientOf(saying('x')).ask({ adapter: 'nope' })).kind).toBe('unknown-adapter')
  })

  it('of a client that is closed fails, before and during', async () => {
    const engine = saying('x', { beforeToken: () => new Promise(() => {}) })
    const { client, ask } = clientOf(engine)
    const running = ask()
    while (engine.running() === 0) await new Promise((resolve) => setImmediate(resolve))
    await client.close()
    expect([failureIn(await running).kind, failureIn(await ask()).kind]).toEqual(['closed', 'closed'])
  })

  it('is ended by its id, with what it has', async () => {
    const engine = saying('a long text', { beforeToken: (_, t) => (t === 2 ? new Promise(() => {}) : undefined) })
    const { client, ask } = clientOf(engine)
    const [mine, other] = [ask({ id: 'mine' }), ask({ id: 'other' })]
    while (engine.running() < 2) await new Promise((resolve) => setImmediate(resolve))
    expect(orThrow(await client.abort(['nobody'])())).toBe(0)
    expect(orThrow(await client.abort(['mine'])())).toBe(1)
    const events = await mine
    expect(events.at(-1)).toMatchObject({ finishReason: 'abort' })
    expect(tokensIn(events).length).toBeLessThan(3)
    expect(orThrow(await client.abort()())).toBe(1)
    expect((await other).at(-1)).toMatchObject({ finishReason: 'abort' })
  })

  it('is ended by closing its connection where the server cannot end requests', async () => {
    const engine = saying('x', { beforeToken: () => new Promise(() => {}) })
    const { client, ask } = clientOf(engine, {}, { logProbsMode: 'raw' })
    const running = ask({ id: 'mine' })
    while (engine.running() === 0) await new Promise((resolve) => setImmediate(resolve))
    expect(orThrow(await client.abort(['mine'])())).toBe(1)
    expect((await running).at(-1)).toMatchObject({ finishReason: 'abort' })
  })
})

describe('weights', () => {
  const versionsOf = (events: readonly GenerationEvent[]) => [
    ...new Set(tokensIn(events).map(({ version }) => version)),
  ]

  it('from a folder get a label, which stamps tokens whatever the client believes', async () => {
    const engine = saying('x')
    const { client, ask } = clientOf(engine, DEV, { shared: 'no' })
    expect(versionsOf(await ask())).toEqual([0])
    orThrow(await client.loadWeights({ _tag: 'Folder', path: '/ckpt/7' }, { version: 7 })())
    expect(engine.loaded).toEqual(['/ckpt/7'])
    expect(orThrow(await client.state())).toEqual({ version: 7, isPaused: false, adapters: [] })
    expect(versionsOf(await ask())).toEqual([7])
    client.serve({ version: 8, adapter: null, cacheSalt: '' })
    expect(versionsOf(await ask())).toEqual([7])
  })

  it('that lost their label are no weights of ours', async () => {
    const engine = saying('x')
    const { client, ask } = clientOf(engine, DEV, { shared: 'no' })
    orThrow(await client.loadWeights({ _tag: 'Folder', path: '/ckpt/7' }, { version: 7 })())
    await engine.loadWeights({ _tag: 'Folder', path: '/ckpt/0' }, { version: 8, running: 'keep' })()
    expect(failureIn(await ask())).toMatchObject({
      kind: 'protocol',
      reason: expect.stringContaining('lost the weights'),
    })
  })

  it('of a folder that holds none are not sent; arrays are refused with the way out', async () => {
    const { client, transport } = clientOf(saying('x'))
    await client.connect()
    const before = transport.seen.length
    const load = (path: string) => client.loadWeights({ _tag: 'Folder', path }, { version: 1 })()
    expect(await load(join(folder, 'nothing'))).toMatchObject({ left: { kind: 'refused' } })
    expect(await load('/elsewhere')).toMatchObject({
      left: { reason: expect.stringContaining('not in the shared folder') },
    })
    expect(await client.loadWeights({ _tag: 'Arrays', arrays: new Map() }, { version: 1 })()).toMatchObject({
      left: { kind: 'refused', reason: expect.stringContaining('checkpoint folder') },
    })
    expect(transport.seen.length).toBe(before)
  })

  it('of an adapter lie in a folder of its own until it is unloaded', async () => {
    const { client, transport, ask } = clientOf(saying('x'))
    orThrow(await client.loadAdapter('policy-v1', ADAPTER)())
    const { lora_path: path } = transport.seen.at(-1)!.json as { lora_path: string } // the bytes just sent
    expect((await readdir(path)).sort()).toEqual(['adapter_config.json', 'adapter_model.safetensors'])
    expect(orThrow(await client.state()).adapters).toEqual(['policy-v1'])
    client.serve({ version: 3, adapter: 'policy-v1', cacheSalt: '' })
    expect(versionsOf(await ask())).toEqual([3])
    client.serve({ version: 4, adapter: 'policy-v2', cacheSalt: '' })
    expect(versionsOf(await ask({ adapter: 'policy-v1' }))).toEqual([3])
    expect(await client.loadAdapter('policy-v1', ADAPTER)()).toMatchObject({ left: { kind: 'refused' } })
    orThrow(await client.unloadAdapter('policy-v1')())
    expect(await client.unloadAdapter('policy-v1')()).toMatchObject({ left: { kind: 'refused' } })
    expect(await client.loadAdapter('../up', ADAPTER)()).toMatchObject({ left: { kind: 'refused' } })
    await client.close()
    expect(await readdir(folder)).toEqual([])
  })

  it('cannot be changed where the server lets nobody: such calls are missing', async () => {
    const { client } = clientOf(saying('x'), {}, { logProbsMode: 'raw' })
    for (const call of [client.pause({ mode: 'keep', cache: 'clear' }), client.resume, client.resetPrefixCache]) {
      expect(await call()).toMatchObject({ left: { kind: 'missing' } })
    }
    expect(await client.loadAdapter('a', ADAPTER)()).toMatchObject({ left: { kind: 'missing' } })
    expect(orThrow(await client.state())).toEqual({ version: null, isPaused: null, adapters: [] })
    expect(await readdir(folder)).not.toContain('0-a')
    orThrow(await client.health())
    await client.close()
  })

  it('are changed while the engine is paused, and caches emptied', async () => {
    const { client } = clientOf(saying('x'))
    orThrow(await client.pause({ mode: 'keep', cache: 'clear' })())
    expect(orThrow(await client.state()).isPaused).toBe(true)
    orThrow(await client.resetPrefixCache())
    orThrow(await client.resume())
    expect(orThrow(await client.state()).isPaused).toBe(false)
  })
})

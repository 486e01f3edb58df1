import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { isLeft } from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import type { Timers } from '../../../../src/core/capabilities.js'
import { orThrow } from '../../../../src/core/failure.js'
import type { AdapterWeights, WeightSource } from '../../../../src/data/generation.js'
import { liveTransport } from '../../../../src/live/transport/liveTransport.js'
import { DEFAULT_SAMPLING } from '../../../../src/modules/generation/sampling/params.js'
import { base64 } from '../../../../src/modules/remote/sglang/base64.js'
import { type SGLangClientOptions, sglangClient } from '../../../../src/modules/remote/sglang/client.js'
import { pickledTensors } from '../../../../src/modules/remote/sglang/pickle.js'
import { tensorCalls } from '../../../../src/modules/remote/sglang/weights.js'
import { type SGLangScript, useScriptedSGLang } from '../../../kit/scriptedSGLang.js'
import { until } from '../../../kit/served.js'

const start = useScriptedSGLang()

/** Timers that do not wait. */
const AT_ONCE: Timers = {
  after: (_, ring) => {
    const soon = setImmediate(ring)
    return () => clearImmediate(soon)
  },
}

/** Options besides the address. */
type Options = Partial<Omit<SGLangClientOptions, 'url' | 'transport'>>

const pair = async (script: Partial<SGLangScript> = {}, options: Options = {}) => {
  const server = await start(script)
  const transport = liveTransport({ url: server.url, retry: { attempts: 3, baseMs: 1, capMs: 1 } })
  return { server, client: sglangClient({ transport, logProbs: 'tempered', ...options }) }
}

const row = (length: number) => ({ shape: [length], data: new Float32Array(length).fill(0.5) })

/** Three tensors of which two never fit into one call of 40 bytes. */
const THREE: WeightSource = {
  _tag: 'Arrays',
  arrays: new Map([
    ['a', row(8)],
    ['b', row(9)],
    ['c', row(3)],
  ]),
}

const adapter: AdapterWeights = {
  rank: 1,
  alpha: 2,
  tensors: new Map([
    ['model.layers.0.self_attn.q_proj.lora_A.weight', { shape: [1, 2], data: Float32Array.of(1, 2) }],
    ['model.layers.0.self_attn.q_proj.lora_B.weight', { shape: [3, 1], data: Float32Array.of(3, 4, 5) }],
  ]),
}

const paths = (server: { readonly calls: readonly { readonly path: string }[] }): readonly string[] =>
  server.calls.map(({ path }) => path).filter((path) => /update|weight_|lora|flush|pause|continue/.test(path))

const request = (id: string) => ({
  id,
  prompt: Int32Array.of(1, 2),
  sampling: { ...DEFAULT_SAMPLING, maxTokens: 2, endTokens: 'ignore' as const },
  adapter: null,
  cacheSalt: '',
})

const versionsOf = async (client: ReturnType<typeof sglangClient>, id: string): Promise<readonly number[] | string> => {
  const versions: number[] = []
  for await (const event of client.generate(request(id))) {
    if (event._tag === 'Failed') return event.failure.reason
    if (event._tag === 'Tokens') versions.push(...event.tokens.map(({ version }) => version))
  }
  return versions
}

describe('tensorCalls', () => {
  const sizes = fc.array(fc.integer({ min: 0, max: 10 }), { maxLength: 12 })
  const options = { float: 'F32', maxCallBytes: 40, ranks: 1 } as const

  it('keeps every tensor once, in order, and no call above the limit', () => {
    fc.assert(
      fc.property(sizes, (lengths) => {
        const tensors = new Map(lengths.map((length, i) => [`t${i}`, row(length)]))
        const calls = orThrow(tensorCalls(tensors, options) as never) as readonly ReadonlyMap<string, never>[] // no failure: all fit
        expect(calls.flatMap((call) => [...call.keys()])).toEqual([...tensors.keys()])
        for (const call of calls) {
          const bytes = [...call.keys()].reduce((sum, name) => sum + 4 * tensors.get(name)!.data.length, 0)
          expect(bytes).toBeLessThanOrEqual(40)
        }
      }),
    )
  })

  it('names all tensors that are too large for any call', () => {
    const tensors = new Map([
      ['big', row(11)],
      ['small', row(1)],
      ['huge', row(99)],
    ])
    const refused = tensorCalls(tensors, options)
    expect(isLeft(refused) && refused.left).toMatch(/^big, huge: more than the 40 bytes/)
    expect(isLeft(tensorCalls(tensors, { ...options, float: 'BF16', maxCallBytes: 200 }))).toBe(false)
  })
})

describe('sglangClient: new weights', () => {
  it('sends tensors in calls of bounded size; the last one empties the cache and brings the label', async () => {
    const { server, client } = await pair({ ranks: 2 }, { maxCallBytes: 40 })
    orThrow(await client.loadWeights(THREE, { version: 5 })())
    expect(paths(server)).toEqual([
      '/begin_weight_update',
      ...Array(3).fill('/update_weights_from_tensor'),
      '/end_weight_update',
    ])
    const bodies = server.of('/update_weights_from_tensor')
    expect(bodies.map(({ flush_cache: flush, weight_version: label }) => [flush, label])).toEqual([
      [false, undefined],
      [false, undefined],
      [true, '5'],
    ])
    const second = base64(pickledTensors(new Map([['b', row(9)]]), { form: 'list', float: 'F32' }))
    expect(bodies[1]!.serialized_named_tensors).toEqual([second, second])
    expect(orThrow(await client.state())).toEqual({ version: 5, isPaused: null, adapters: [] })
    expect(await versionsOf(client, 'after')).toEqual([5, 5])
  })

  it('knows that an older server has no sessions', async () => {
    const { server, client } = await pair({ release: 'old' })
    orThrow(await client.loadWeights(THREE, { version: 1 })())
    expect(paths(server)).toEqual(['/begin_weight_update', '/update_weights_from_tensor'])
    expect(await versionsOf(client, 'after')).toEqual([1, 1])
  })

  it('ends a session that somebody left open, and begins its own', async () => {
    const { server, client } = await pair()
    await fetch(`${server.url}/begin_weight_update`, { method: 'POST', body: '{}' })
    orThrow(await client.loadWeights(THREE, { version: 1 })())
    expect(paths(server).slice(1, 4)).toEqual(['/begin_weight_update', '/end_weight_update', '/begin_weight_update'])
  })

  it('has a folder read, with its label', async () => {
    const { server, client } = await pair()
    orThrow(await client.loadWeights({ _tag: 'Folder', path: '/shared/v2' }, { version: 2 })())
    expect(server.of('/update_weights_from_disk')).toEqual([
      { model_path: '/shared/v2', weight_version: '2', flush_cache: true, abort_all_requests: false },
    ])
  })

  it.each([
    [{ status: 400, body: { success: false, message: 'Rolling back to original weights.' } }, 'refused'],
    [
      { status: 400, body: { success: false, message: 'Weights were updated, but the cache was not flushed' } },
      'unknown',
    ],
    [{ status: 500, body: 'Internal Server Error' }, 'unknown'],
    [{ status: 404, body: { detail: 'Not Found' } }, 'missing'],
    ['reset', 'unknown'],
  ] as const)('tells what a failed folder means: %j', async (answer, kind) => {
    const { server, client } = await pair({
      instead: ({ path }) => (path === '/update_weights_from_disk' ? answer : undefined),
    })
    const failed = await client.loadWeights({ _tag: 'Folder', path: '/x' }, { version: 2 })()
    expect(failed).toMatchObject({ _tag: 'Left', left: { kind } })
    expect(server.of('/update_weights_from_disk')).toHaveLength(1)
  })

  it.each([
    [1, { status: 400, body: { success: false, message: 'no' } }, 'refused'],
    [2, { status: 400, body: { success: false, message: 'no' } }, 'unknown'],
    [2, 'reset', 'unknown'],
    [1, 'reset', 'unknown'],
  ] as const)('never sends tensors again: call %i of 3 is answered %j', async (which, answer, kind) => {
    let count = 0
    const { server, client } = await pair(
      {
        instead: ({ path }) => (path === '/update_weights_from_tensor' && ++count === which ? answer : undefined),
      },
      { maxCallBytes: 40 },
    )
    const failed = await client.loadWeights(THREE, { version: 2 })()
    expect(failed).toMatchObject({ _tag: 'Left', left: { kind } })
    expect(server.of('/update_weights_from_tensor')).toHaveLength(which)
    // A server that answered is asked to close the session; one that broke off gets no request
    // until its state is read.
    expect(server.of('/end_weight_update')).toHaveLength(answer === 'reset' ? 0 : 1)
    expect(orThrow(await client.state()).version).toBeNull()
  })

  it('takes a label that is none of ours for lost weights, once there was one of ours', async () => {
    let isRestarted = false
    const { client } = await pair({
      twist: (item) =>
        isRestarted
          ? { ...item, meta_info: { ...item.meta_info, weight_versions: [{ version: 'default', start: 0, end: 2 }] } }
          : item,
    })
    expect(await versionsOf(client, 'first')).toEqual([0, 0])
    orThrow(await client.loadWeights(THREE, { version: 3 })())
    isRestarted = true
    expect(await versionsOf(client, 'lost')).toMatch(/labeled 'default'/)
  })

  it('stamps an answer that weights overtook with the version it was sent under, where the server has one label for all', async () => {
    const { server, client } = await pair({ release: 'old' })
    const go = server.stall()
    const versions = versionsOf(client, 'slow')
    await until(() => server.running() === 1)
    orThrow(await client.loadWeights(THREE, { version: 4 })())
    client.serve({ version: 4, adapter: null, cacheSalt: '' })
    go()
    expect(await versions).toEqual([0, 0])
    expect(await versionsOf(client, 'next')).toEqual([4, 4])
  })

  it("stamps each token by the server's spans", async () => {
    const spans = [
      { version: '8', start: 0, end: 1 },
      { version: '9', start: 1, end: 2 },
    ]
    const { client } = await pair({
      twist: (item) => ({ ...item, meta_info: { ...item.meta_info, weight_versions: spans } }),
    })
    expect(await versionsOf(client, 'mixed')).toEqual([8, 9])
  })
})

describe('sglangClient: adapters', () => {
  it('sends an adapter with the checksum of each tensor, and takes it away', async () => {
    const { server, client } = await pair({ ranks: 2 })
    orThrow(await client.loadAdapter('policy-v1', adapter)())
    const [body] = server.of('/load_lora_adapter_from_tensors')
    const name = 'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight'
    const sha256 = createHash('sha256')
      .update(new Uint8Array(Float32Array.of(1, 2).buffer))
      .digest('hex')
    expect(body?.expected_checksums?.[name]).toBe(sha256)
    expect(body?.serialized_named_tensors).toHaveLength(2)
    expect(body?.config_dict).toMatchObject({ peft_type: 'LORA', r: 1, lora_alpha: 2, target_modules: ['q_proj'] })
    expect(orThrow(await client.state()).adapters).toEqual(['policy-v1'])
    expect(await client.loadAdapter('policy-v1', adapter)()).toMatchObject({
      left: { kind: 'refused', reason: expect.stringContaining('already exists') },
    })
    orThrow(await client.unloadAdapter('policy-v1')())
    expect(orThrow(await client.state()).adapters).toEqual([])
    expect(await client.unloadAdapter('policy-v1')()).toMatchObject({ left: { kind: 'refused' } })
  })

  it('falls back to the older form where validation asks for it', async () => {
    const { server, client } = await pair({ release: 'old' })
    orThrow(await client.loadAdapter('policy-v1', adapter)())
    expect(server.of('/load_lora_adapter_from_tensors').map((body) => body.serialized_tensors !== undefined)).toEqual([
      false,
      true,
    ])
  })

  it('does not send an adapter again whose answer is missing', async () => {
    const { server, client } = await pair({
      instead: ({ path }) => (path === '/load_lora_adapter_from_tensors' ? 'reset' : undefined),
    })
    expect(await client.loadAdapter('policy-v1', adapter)()).toMatchObject({ left: { kind: 'unknown' } })
    expect(server.of('/load_lora_adapter_from_tensors')).toHaveLength(1)
  })
})

describe('sglangClient: pausing', () => {
  it.each([
    ['abort', 'clear', 'abort'],
    ['keep', 'clear', 'retract'],
    ['keep', 'keep', 'in_place'],
    ['wait', 'clear', 'retract'],
  ] as const)('%s with cache %s is %s', async (mode, cache, name) => {
    const { server, client } = await pair()
    orThrow(await client.pause({ mode, cache })())
    expect(server.of('/pause_generation')).toEqual([{ mode: name }])
    expect(server.of('/flush_cache')).toHaveLength(cache === 'clear' ? 1 : 0)
    orThrow(await client.loadWeights(THREE, { version: 1 })())
    expect(server.of('/update_weights_from_tensor')[0]?.flush_cache).toBe(name !== 'in_place')
  })

  it.each(['old', 'new'] as const)(
    'waits until nothing runs, and holds new requests until it goes on: %s server',
    async (release) => {
      const { server, client } = await pair({ release }, { timers: AT_ONCE })
      const go = server.stall()
      const first = versionsOf(client, 'first')
      await until(() => server.running() === 1)
      const paused = client.pause({ mode: 'wait', cache: 'clear' })()
      await until(() => server.calls.some(({ path }) => /load/.test(path)))
      const second = versionsOf(client, 'second')
      go()
      orThrow(await paused)
      expect(await first).toEqual([0, 0])
      expect(server.of('/generate')).toHaveLength(1)
      orThrow(await client.resume())
      expect(await second).toEqual([0, 0])
      expect(server.of('/generate')).toHaveLength(2)
    },
  )

  it('gives up waiting when the time is over, and lets requests go on', async () => {
    const { server, client } = await pair({}, { limits: { drainMs: 500 }, timers: AT_ONCE })
    const go = server.stall()
    const first = versionsOf(client, 'first')
    await until(() => server.running() === 1)
    expect(await client.pause({ mode: 'wait', cache: 'clear' })()).toMatchObject({
      left: { kind: 'refused', reason: expect.stringContaining('1 requests were still running') },
    })
    expect(server.of('/pause_generation')).toEqual([])
    go()
    await first
    expect(await versionsOf(client, 'second')).toEqual([0, 0])
  })

  it('reports a cache that cannot be emptied, and an unhealthy server', async () => {
    const { client } = await pair({
      instead: ({ path }) => {
        if (path === '/flush_cache') return { status: 400, body: 'Flush cache failed.\n' }
        return path === '/health' ? { status: 503, body: '' } : undefined
      },
    })
    expect(await client.resetPrefixCache()).toMatchObject({
      left: { kind: 'refused', reason: expect.stringContaining('Flush') },
    })
    expect(await client.health()).toMatchObject({ _tag: 'Left' })
    orThrow(await client.pause({ mode: 'keep', cache: 'keep' })())
    expect(await client.health()).toMatchObject({ _tag: 'Right' })
  })

  it("sends the administrator's key with control, and not with requests", async () => {
    const { server, client } = await pair({}, { adminKey: 'admin-secret' })
    await versionsOf(client, 'r')
    orThrow(await client.resume())
    const keyOf = (path: string) => server.calls.find((call) => call.path === path)?.headers.authorization
    expect(keyOf('/continue_generation')).toBe('Bearer admin-secret')
    expect(keyOf('/generate')).toBeUndefined()
  })
})

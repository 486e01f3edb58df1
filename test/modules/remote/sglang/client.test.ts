import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { orThrow } from '../../../../src/core/failure.js'
import { keyFromSeed } from '../../../../src/core/key.js'
import type {
  GeneratedToken,
  GenerationEvent,
  GenerationRequest,
  SamplingParams,
} from '../../../../src/data/generation.js'
import { liveTransport } from '../../../../src/live/transport/liveTransport.js'
import { DEFAULT_SAMPLING } from '../../../../src/modules/generation/sampling/params.js'
import { type SGLangClientOptions, sglangClient } from '../../../../src/modules/remote/sglang/client.js'
import { type ScriptedSGLang, type SGLangScript, useScriptedSGLang } from '../../../kit/scriptedSGLang.js'
import { until } from '../../../kit/served.js'
import { logSoftmax, SCRIPTED_END, type ScriptedItem, scriptedLogits } from '../../../kit/sglangModel.js'

const start = useScriptedSGLang()

/** Options besides the address. */
type Options = Partial<Omit<SGLangClientOptions, 'url' | 'transport'>>

const clientOf = ({ url }: ScriptedSGLang, options: Options = {}) =>
  sglangClient({ transport: liveTransport({ url, retry: { attempts: 1 } }), ...options })

const pair = async (script: Partial<SGLangScript> = {}, options: Options = {}) => {
  const server = await start(script)
  return {
    server,
    client: clientOf(server, { logProbs: script.logProbs ?? 'tempered', vocabularySize: 8, ...options }),
  }
}

let ids = 0

const requestOf = (
  sampling: Partial<SamplingParams> = {},
  rest: Partial<GenerationRequest> = {},
): GenerationRequest => ({
  id: `r${ids++}`,
  prompt: Int32Array.of(1, 2, 3),
  sampling: { ...DEFAULT_SAMPLING, maxTokens: 4, endTokens: 'ignore', key: keyFromSeed(7), ...sampling },
  adapter: null,
  cacheSalt: '',
  ...rest,
})

type Client = ReturnType<typeof sglangClient>

const eventsOf = async (client: Client, request: GenerationRequest, signal?: AbortSignal) => {
  const events: GenerationEvent[] = []
  for await (const event of client.generate(request, signal === undefined ? {} : { signal })) events.push(event)
  return events
}

const tokensIn = (events: readonly GenerationEvent[], index = 0): readonly GeneratedToken[] =>
  events.flatMap((event) => (event._tag === 'Tokens' && event.index === index ? event.tokens : []))

const textIn = (events: readonly GenerationEvent[]): string =>
  events.map((event) => (event._tag === 'Tokens' ? event.text : '')).join('')

const failureIn = (events: readonly GenerationEvent[]) => {
  const failed = events.find((event) => event._tag === 'Failed')
  return failed?._tag === 'Failed' ? failed.failure : undefined
}

/** The meta_info of an answer with other fields. */
const meta =
  (rest: (item: ScriptedItem) => Record<string, unknown>) =>
  (item: ScriptedItem): unknown => ({ ...item, meta_info: { ...item.meta_info, ...rest(item) } })

describe('sglangClient: connecting', () => {
  it.each(['tempered', 'edited'] as const)('sees from two samples that log-probabilities are %s', async (logProbs) => {
    const server = await start({ logProbs, ranks: 2 })
    const abilities = orThrow(await clientOf(server).connect())
    expect(abilities).toMatchObject({
      server: 'sglang 0.5.23',
      maxModelLength: 63,
      maxConcurrent: 16,
      logProbs: logProbs === 'edited' ? 'raw' : 'tempered',
      stamps: 'yes',
      updates: ['adapter', 'full'],
    })
    expect(server.of('/generate')).toHaveLength(2)
  })

  it('asks again after a failure, and once otherwise', async () => {
    let isDown = true
    const { server, client } = await pair({
      instead: ({ path }) => (path === '/server_info' && isDown ? { status: 503, body: 'Loading' } : undefined),
    })
    expect(await client.connect()).toMatchObject({ _tag: 'Left' })
    isDown = false
    await Promise.all([client.connect(), client.connect()])
    await client.connect()
    expect(server.of('/server_info')).toHaveLength(2)
  })
})

describe('sglangClient: sampling', () => {
  it('sends what was asked for, nothing left to the defaults of the server', async () => {
    const { server, client } = await pair()
    const request = requestOf(
      {
        topK: 3,
        topP: 0.9,
        minP: 0.1,
        temperature: 0.5,
        stop: ['xyz'],
        stopTokens: [6],
        minTokens: 1,
        topLogProbs: null,
      },
      { cacheSalt: 'v3' },
    )
    await eventsOf(client, request)
    expect(server.of('/generate')).toEqual([
      {
        input_ids: [1, 2, 3],
        sampling_params: {
          max_new_tokens: 4,
          min_new_tokens: 1,
          temperature: 0.5,
          top_p: 0.9,
          top_k: 3,
          min_p: 0.1,
          repetition_penalty: 1,
          presence_penalty: 0,
          frequency_penalty: 0,
          stop: ['xyz'],
          stop_token_ids: [6],
          no_stop_trim: false,
          ignore_eos: true,
          skip_special_tokens: true,
          sampling_seed: expect.any(Number),
        },
        rid: request.id,
        stream: false,
        return_logprob: true,
        logprob_start_len: -1,
        top_logprobs_num: 0,
        return_text_in_logprobs: false,
        extra_key: 'v3',
      },
    ])
  })

  it('sends as many tokens as the context holds where no limit is given, and never the default of 128', async () => {
    const { server, client } = await pair()
    await eventsOf(client, requestOf({ maxTokens: null }))
    expect(server.of('/generate')[0]).toMatchObject({ sampling_params: { max_new_tokens: 60 } })
  })

  it.each([
    ['whole', 'cumulative'],
    ['stream', 'cumulative'],
    ['stream', 'incremental'],
  ] as const)('gives the same tokens, log-probabilities and text: %s, %s', async (delivery, frames) => {
    const { client } = await pair({ frames }, { delivery })
    const request = requestOf({ n: 3, temperature: 0.7, topLogProbs: 2, logProbsMode: 'tempered' })
    const events = await eventsOf(client, request)
    expect(failureIn(events)).toBeUndefined()
    for (const index of [0, 1, 2]) {
      const tokens = tokensIn(events, index)
      let previous = 3
      expect(tokens).toHaveLength(4)
      for (const { id, temperedLogProb, rawLogProb, processedLogProb, top, version } of tokens) {
        const logProbs = logSoftmax(scriptedLogits(previous, 0), 0.7)
        expect(temperedLogProb).toBeCloseTo(logProbs[id]!, 6)
        expect(processedLogProb).toBe(temperedLogProb)
        expect(rawLogProb).toBeNaN()
        expect(top.map(({ rank }) => rank)).toEqual([1, 2])
        expect(top[0]!.logProb).toBeCloseTo(Math.max(...logProbs), 6)
        expect(version).toBe(0)
        previous = id
      }
    }
    const finished = events.filter((event) => event._tag === 'Finished')
    expect(finished.map((event) => event._tag === 'Finished' && event.finishReason)).toEqual(Array(3).fill('length'))
    expect(textIn(events)).toBe(
      events
        .flatMap((event) => (event._tag === 'Tokens' ? event.tokens : []))
        .map(({ id }) => String.fromCharCode(97 + id))
        .join(''),
    )
  })

  it('streams where frames have only what is new, and takes whole answers elsewhere', async () => {
    const [incremental, cumulative] = [await pair({ frames: 'incremental' }), await pair()]
    await eventsOf(incremental.client, requestOf())
    await eventsOf(cumulative.client, requestOf())
    expect(incremental.server.of('/generate')[0]).toMatchObject({ stream: true })
    expect(cumulative.server.of('/generate')[0]).toMatchObject({ stream: false })
  })

  it('draws completions of one request, and requests of one key, from seeds of their own', async () => {
    const { server, client } = await pair()
    await eventsOf(client, requestOf({ n: 3 }))
    await eventsOf(client, requestOf({ n: 1 }, { firstCompletion: 2 }))
    const seeds = server
      .of('/generate')
      .flatMap(({ sampling_params: all }) => [all].flat())
      .map((all) => all?.sampling_seed)
    expect(new Set(seeds.slice(0, 3)).size).toBe(3)
    expect(seeds[3]).toBe(seeds[2])
  })

  it('reports the log-probabilities of a prompt, which are raw', async () => {
    const { client } = await pair()
    const [started] = await eventsOf(client, requestOf({ promptLogProbs: 1, maxTokens: 1 }))
    expect(started).toMatchObject({ _tag: 'Started', cachedTokens: 2 })
    const places = started?._tag === 'Started' ? started.promptLogProbs : null
    expect(places?.[0]).toBeNull()
    expect(places?.[1]?.logProb).toBeCloseTo(logSoftmax(scriptedLogits(1, 0), 1)[2]!, 6)
    expect(places?.[1]?.top).toHaveLength(1)
  })

  it('names the stop token that ended a completion, and not the end of the model', async () => {
    const { server, client } = await pair()
    const ends = await Promise.all([
      eventsOf(client, requestOf({ stopTokens: [0, 1, 2, 3, 4, 5, 6, SCRIPTED_END], maxTokens: 9 })),
      eventsOf(
        client,
        requestOf({ endTokens: 'stop', maxTokens: 50, temperature: 0 }, { prompt: Int32Array.of(SCRIPTED_END) }),
      ),
    ])
    expect(server.calls.length).toBeGreaterThan(0)
    const [stopped, ended] = ends.map((events) => events.at(-1))
    expect(stopped).toMatchObject({ _tag: 'Finished', finishReason: 'stop', stopReason: expect.any(Number) })
    expect(ended).toMatchObject({ _tag: 'Finished', stopReason: null })
  })

  it('holds text back that may begin a stop string, which the server cuts off', async () => {
    const cut = (item: ScriptedItem): unknown =>
      item.meta_info.finish_reason === null ? item : { ...item, text: item.text.slice(0, 1) }
    const { client } = await pair({ twist: cut }, { delivery: 'stream' })
    const request = requestOf({ stop: ['zzzz'] })
    const [whole, events] = [tokensIn(await eventsOf(client, requestOf())), await eventsOf(client, request)]
    expect(textIn(events)).toBe(String.fromCharCode(97 + whole[0]!.id))
  })

  it.each([
    [{ allowedTokens: [1] }, 'allowedTokens must be null'],
    [{ topLogProbs: 1, logProbsMode: 'raw', temperature: 0.5 }, "topLogProbs in the mode 'raw'"],
    [{ promptLogProbs: 0, logProbsMode: 'tempered', temperature: 0.5 }, 'the server reports only raw ones'],
    [{ stopTokens: [8] }, 'stopTokens must have ids below the vocabulary size 8'],
  ] as const)('refuses what it cannot do before anything is sent: %j', async (sampling, reason) => {
    const { server, client } = await pair()
    const failure = failureIn(await eventsOf(client, requestOf(sampling)))
    expect(failure).toMatchObject({ kind: 'invalid', reason: expect.stringContaining(reason) })
    expect(server.of('/generate')).toEqual([])
  })

  it.each([
    ['NaN', meta((item) => ({ output_token_logprobs: item.output_ids.map((id) => [null, id, null]) })), 'NaN'],
    ['-9999', meta((item) => ({ output_token_logprobs: item.output_ids.map((id) => [-9999, id, null]) })), '-9999'],
    [
      'too few',
      meta((item) => ({ output_token_logprobs: item.meta_info.output_token_logprobs.slice(1) })),
      'log-probabilities',
    ],
    ['another count', meta(() => ({ completion_tokens: 9 })), 'counts 9 tokens'],
    [
      'of another token',
      meta((item) => ({ output_token_logprobs: item.output_ids.map((id) => [-1, id + 1, null]) })),
      'is that of',
    ],
    ['of another prompt', meta(() => ({ prompt_tokens: 4 })), 'a prompt of 3'],
    ['without an end', meta(() => ({ finish_reason: null })), 'no end'],
    ['with too many tokens', (item: ScriptedItem) => [item, item], 'completion 1'],
    [
      'out of the vocabulary',
      (item: ScriptedItem) => ({
        ...(meta((one) => ({ output_token_logprobs: one.output_ids.map(() => [-1, 99, null]) }))(item) as object),
        output_ids: item.output_ids.map(() => 99),
      }),
      'vocabulary',
    ],
    ['no JSON', () => 'sorry', 'not JSON'],
  ] as const)('fails as protocol for an answer that cannot be: %s', async (_, twist, reason) => {
    const { client } = await pair({ twist: twist as SGLangScript['twist'] })
    const events = await eventsOf(client, requestOf())
    expect(events).toEqual([{ _tag: 'Failed', failure: expect.objectContaining({ kind: 'protocol' }) }])
    expect(failureIn(events)?.reason).toContain(reason)
  })

  it('turns an abort with a status, and an error in a stream, into failures of their kind', async () => {
    const overloaded = meta(() => ({ finish_reason: { type: 'abort', message: 'queue is full', status_code: 503 } }))
    const { client } = await pair({ twist: overloaded })
    expect(failureIn(await eventsOf(client, requestOf()))).toMatchObject({ kind: 'overloaded' })
    const error = { error: { message: 'too long', type: 'invalid_request_error', code: 400, retryable: false } }
    const streaming = await pair({ twist: () => error }, { delivery: 'stream' })
    expect(failureIn(await eventsOf(streaming.client, requestOf()))).toMatchObject({ kind: 'invalid' })
  })

  it('distinguishes an adapter that is not loaded from other wrong requests', async () => {
    const { client } = await pair()
    expect(failureIn(await eventsOf(client, requestOf({}, { adapter: 'p9' })))).toMatchObject({
      kind: 'unknown-adapter',
    })
  })

  it('never breaks, whatever JSON answers', async () => {
    let answer: unknown
    const { client } = await pair({ twist: () => answer })
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), async (json) => {
        answer = json
        expect(failureIn(await eventsOf(client, requestOf()))?.kind).toBe('protocol')
      }),
      { numRuns: 50 },
    )
  })
})

describe('sglangClient: aborting', () => {
  it('ends a request by name with what it has, each of its completions', async () => {
    const { server, client } = await pair()
    server.stall()
    const request = requestOf({ n: 2 })
    const events = eventsOf(client, request)
    await until(() => server.running() === 2)
    expect(orThrow(await client.abort([request.id, 'nobody'])())).toBe(1)
    expect((await events).filter(({ _tag }) => _tag === 'Finished')).toMatchObject([
      { finishReason: 'abort' },
      { finishReason: 'abort' },
    ])
    expect(server.of('/abort_request')).toEqual([{ rid: `${request.id}#0` }, { rid: `${request.id}#1` }])
    expect(client.inFlight()).toBe(0)
  })

  it('closes the connection of a request whose signal aborts', async () => {
    const { server, client } = await pair()
    server.stall()
    const control = new AbortController()
    const events = eventsOf(client, requestOf(), control.signal)
    await until(() => server.running() === 1)
    control.abort()
    expect(await events).toEqual([{ _tag: 'Finished', index: 0, finishReason: 'abort', stopReason: null }])
    await until(() => server.running() === 0)
  })
})

describe('sglangClient: its end', () => {
  it('stamps tokens of an adapter with the version that it served as', async () => {
    const { client } = await pair()
    const adapter = { rank: 1, alpha: 1, tensors: new Map() }
    for (const version of [1, 2]) {
      const row = { shape: [1, 1], data: Float32Array.of(1) }
      const tensors = new Map([
        ['q_proj.lora_A.weight', row],
        ['q_proj.lora_B.weight', row],
      ])
      orThrow(await client.loadAdapter(`p${version}`, { ...adapter, tensors })())
      client.serve({ version, adapter: `p${version}`, cacheSalt: '' })
    }
    const versions = async (rest: Partial<GenerationRequest>) =>
      tokensIn(await eventsOf(client, requestOf({ maxTokens: 1 }, rest))).map(({ version }) => version)
    expect(await versions({})).toEqual([2])
    expect(await versions({ adapter: 'p1' })).toEqual([1])
  })

  it('ends a request whose events are left while it waits', async () => {
    const { server, client } = await pair()
    server.stall()
    const events = client.generate(requestOf())[Symbol.asyncIterator]()
    const next = events.next()
    await until(() => server.running() === 1)
    await events.return?.()
    expect((await next).done).toBe(true)
    await until(() => server.running() === 0 && client.inFlight() === 0)
  })

  it('aborts what waits behind a hold without asking the server, and refuses everything after close', async () => {
    const { server, client } = await pair()
    client.hold()
    const request = requestOf()
    const events = eventsOf(client, request)
    expect(orThrow(await client.abort([request.id])())).toBe(1)
    expect(await events).toMatchObject([{ _tag: 'Finished', finishReason: 'abort' }])
    expect(server.of('/abort_request')).toEqual([])
    await client.close()
    expect(failureIn(await eventsOf(client, requestOf()))).toMatchObject({ kind: 'closed' })
  })
})

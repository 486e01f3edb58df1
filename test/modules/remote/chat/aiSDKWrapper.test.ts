/**
 * Language models of the AI SDK as policies: the real provider over a real server, and the SDK's
 * own model for tests.
 */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { child, keyFromSeed, type Timers } from '@tandem-rl/base'
import { appendMessage, History, MALFORMED_CALL, type MediaSource, message, textOf, toolResult } from '@tandem-rl/text'
import { type LanguageModel as AnyLanguageModel, APICallError } from 'ai'
import { MockLanguageModelV3 } from 'ai/test'
import { describe, expect, it } from 'vitest'
import type { HistoryPrompt } from '../../../../src/data/policy.js'
import { data, raggedRows } from '../../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import { aiSDKWrapper } from '../../../../src/modules/remote/chat/aiSDKWrapper.js'
import { seedOf } from '../../../../src/modules/remote/chat/chatRequest.js'
import { leftOf, rightOf } from '../../../kit/results.js'
import { saying, scripted, served, tokenizer, until, useServers } from '../../../kit/served.js'

const listen = useServers()
const key = keyFromSeed(1)
const SHORT = { maxNewTokens: 64 } as const

const asked = (...histories: readonly (string | History)[]): TensorDict<HistoryPrompt> => {
  const all = histories.map((each) => (typeof each === 'string' ? History([message('user', each)]) : each))
  return TensorDict({ history: { prompt: data(all) } }, [all.length])
}

/** The real provider over a real server. */
const provided = async (app: Parameters<typeof listen>[0]) => {
  const { url } = await listen(app)
  return createOpenAICompatible({ name: 'local', baseURL: `${url}/v1` }).chatModel('cat')
}

/** The third version's answer of a model for tests. */
const answering = (content: readonly object[], unified = 'stop') =>
  new MockLanguageModelV3({
    doGenerate: (async () => ({
      content,
      finishReason: { unified, raw: undefined },
      usage: { inputTokens: { total: 3 }, outputTokens: { total: 2 } },
      warnings: [],
    })) as never, // tests answer what they like
  })

/** Pauses that are over at once, and how long they would have been. */
const noWaiting = () => {
  const pauses: number[] = []
  const timers: Timers = {
    after: (ms, ring) => {
      pauses.push(ms)
      ring()
      return () => {}
    },
  }
  return { pauses, timers }
}

const refusal = (statusCode: number, headers: Readonly<Record<string, string>> = {}) =>
  new APICallError({
    message: 'no',
    url: 'http://test',
    requestBodyValues: {},
    statusCode,
    responseHeaders: { ...headers },
  })

/** A model that throws these, one after the other, and then answers. */
const failing = (...errors: readonly Error[]) => {
  let calls = 0
  const model = new MockLanguageModelV3({
    doGenerate: (async () => {
      const error = errors[calls++]
      if (error !== undefined) throw error
      return { content: [{ type: 'text', text: 'four' }], finishReason: { unified: 'stop' }, usage: {}, warnings: [] }
    }) as never, // likewise
  })
  return { model, calls: () => calls }
}

describe('a language model of the AI SDK as a policy', () => {
  it('answers conversations through a real provider and a real server', async () => {
    const policy = aiSDKWrapper({ model: await provided(served(saying('four'))), ...SHORT })
    const action = await rightOf(policy.act(asked('2 + 2', '3 + 3'), key))
    const four = message('assistant', 'four')
    expect(get(action, 'history', 'response').items.toArray()).toEqual([four, four])
    expect(get(action, 'answer').items.get(1)).toMatchObject({ finish: 'stop', model: 'cat', malformedCalls: [] })
    expect(get(action, 'answer').items.get(1)!.usage!.completionTokens).toBeGreaterThan(1)
  })

  it('returns ids and log-probabilities if the server reports them', async () => {
    const engine = saying('the cat')
    const weights = () => ({ version: 3, adapter: null, cacheSalt: 's' })
    const policy = aiSDKWrapper({ model: await provided(served(engine)), capture: 'tokens', weights, ...SHORT })
    const action = await rightOf(policy.act(asked('a'), key))
    const ids = [...tokenizer.encode('the cat'), tokenizer.idOf('<|im_end|>')!]
    expect(raggedRows(get(action, 'tokens', 'response'))).toEqual([ids])
    expect(raggedRows(get(action, 'logProbs', 'response'))).toEqual([ids.map((id) => Math.fround(-((id % 7) + 1) / 8))])
    expect(get(action, 'policyVersion').items.toArray()).toEqual([3])
    expect(engine.seen[0]).toMatchObject({ cacheSalt: 's', sampling: { topK: 0, temperature: 1, topP: 1 } })
  })

  it('reports a provider without ids', async () => {
    const failure = await leftOf(
      aiSDKWrapper({ model: answering([{ type: 'text', text: 'a' }]), capture: 'tokens' }).act(asked('a'), key),
    )
    expect(failure).toMatchObject({ kind: 'asked' })
    expect(failure.reason).toContain("capture 'text'")
  })

  it('finds calls of tools, thoughts and how an answer ended; a call that cannot be called is marked text', async () => {
    const content = [
      { type: 'reasoning', text: 'hm' },
      { type: 'text', text: 'Let me see.' },
      { type: 'tool-call', toolCallId: 'c1', toolName: 'add', input: '{"a": 1}' },
      { type: 'tool-call', toolCallId: 'c2', toolName: 'add', input: '{"a": ' },
    ]
    const action = await rightOf(aiSDKWrapper({ model: answering(content, 'tool-calls') }).act(asked('a'), key))
    const said = get(action, 'history', 'response').items.get(0)!
    expect(said.toolCalls).toEqual([{ id: 'c1', name: 'add', arguments: { a: 1 } }])
    expect([said.reasoning, textOf(said)]).toEqual(['hm', `Let me see.\n${MALFORMED_CALL} add({"a": )`])
    expect(get(action, 'answer').items.get(0)).toMatchObject({
      ...{ finish: 'tool-calls', usage: { promptTokens: 3, completionTokens: 2 } },
    })
  })

  it('hands over conversations with tools, settings, provider options and a seed of the row', async () => {
    const model = answering([{ type: 'text', text: 'four' }])
    const call = { id: 'c1', name: 'add', arguments: { a: 1 } }
    const talk = appendMessage(
      History([message('system', 's'), message('user', '?'), message('assistant', [], { toolCalls: [call] })]),
      toolResult(call, '2'),
    )
    const tools = [{ type: 'function', function: { name: 'add' } }] as const
    const config = { tools, toolChoice: { name: 'add' }, stop: ['x'], providerOptions: { p: { q: 1 } } } as const
    await rightOf(aiSDKWrapper({ model, ...config }).act(asked(talk), key))
    const [sent] = model.doGenerateCalls
    expect(sent!.prompt.map(({ role }) => role)).toEqual(['system', 'user', 'assistant', 'tool'])
    expect(sent!.prompt[3]).toMatchObject({ content: [{ toolCallId: 'c1', toolName: 'add', output: { value: '2' } }] })
    expect(sent).toMatchObject({
      ...{ seed: seedOf(child(key, 0)), temperature: 1, maxOutputTokens: 1024, stopSequences: ['x'] },
      ...{ toolChoice: { type: 'tool', toolName: 'add' }, providerOptions: { p: { q: 1 } } },
    })
    expect(sent).not.toHaveProperty('topP')
  })

  it.each(['', '{}', '{"a"'])('reports a call with input %j that ran into the limit as malformed', async (input) => {
    const model = answering([{ type: 'tool-call', toolCallId: 'c1', toolName: 'delete_all', input }], 'length')
    const action = await rightOf(aiSDKWrapper({ model }).act(asked('a'), key))
    expect(get(action, 'history', 'response').items.get(0)!.toolCalls).toEqual([])
    expect(get(action, 'answer').items.get(0)!.malformedCalls).toHaveLength(1)
  })

  it('takes models of the second version, and any that the SDK takes as an object', async () => {
    const model = {
      ...{ specificationVersion: 'v2' as const, provider: 'old', modelId: 'm', supportedUrls: {} },
      doGenerate: async () => ({
        content: [{ type: 'text' as const, text: 'fo' }],
        finishReason: 'length' as const,
        usage: { inputTokens: 1, outputTokens: 2, totalTokens: 3 },
        warnings: [],
      }),
      doStream: () => Promise.reject(new Error('not asked for')),
    }
    const taken: Exclude<AnyLanguageModel, string> = model
    const action = await rightOf(aiSDKWrapper({ model: taken }).act(asked('a'), key))
    expect(get(action, 'stopReason').items.get(0)).toBe('length')
    expect(get(action, 'history', 'response').items.get(0)!.isComplete).toBe(false)
    expect(get(action, 'answer').items.get(0)!.usage).toEqual({ promptTokens: 1, completionTokens: 2 })
  })

  it('sends videos and files, and refuses a file without a media type', async () => {
    const model = answering([{ type: 'text', text: 'four' }])
    const file = (source: MediaSource) => History([message('user', [{ type: 'file', source, name: 'a.pdf' }])])
    const video = History([message('user', [{ type: 'video', source: { url: 'https://a.b/c.mp4' } }])])
    const pdf = { base64: 'AAAA', mediaType: 'application/pdf' }
    await rightOf(aiSDKWrapper({ model }).act(asked(video, file(pdf)), key))
    expect(model.doGenerateCalls.map(({ prompt }) => prompt[0]!.content)).toEqual([
      [{ type: 'file', mediaType: 'video/*', data: new URL('https://a.b/c.mp4') }],
      [{ type: 'file', mediaType: 'application/pdf', data: 'AAAA', filename: 'a.pdf' }],
    ])
    const byUrl = asked(file({ url: 'https://a.b/c.pdf' }))
    const { reason } = await leftOf(aiSDKWrapper({ model }).act(byUrl, key))
    expect(reason).toContain('a file at a URL has no media type')
  })

  it('reports every conversation that a prompt cannot express', async () => {
    const model = answering([])
    const bad = History([message('critic', 'hm')])
    const failure = await leftOf(aiSDKWrapper({ model }).act(asked(bad, History([])), key))
    expect(failure.reason).toMatch(/conversation 0: .*'critic'.*; conversation 1: .*no message/)
    expect(model.doGenerateCalls).toEqual([])
  })
})

describe('failures of providers', () => {
  it('tries again what may pass, after what the server asks for', async () => {
    const { pauses, timers } = noWaiting()
    const { model, calls } = failing(refusal(429, { 'retry-after': '7' }), refusal(500))
    const action = await rightOf(aiSDKWrapper({ model, world: { timers } }).act(asked('a'), key))
    expect(textOf(get(action, 'history', 'response').items.get(0)!)).toBe('four')
    expect(calls()).toBe(3)
    expect(pauses).toHaveLength(2)
    expect(pauses[0]).toBeGreaterThanOrEqual(7000)
  })

  it('gives up after its attempts', async () => {
    const { timers } = noWaiting()
    const { model, calls } = failing(refusal(500), refusal(500), refusal(500))
    const failure = await leftOf(aiSDKWrapper({ model, attempts: 2, world: { timers } }).act(asked('a'), key))
    expect(failure).toMatchObject({ kind: 'infrastructure' })
    expect(calls()).toBe(2)
  })

  it.each([
    [400, 'asked'],
    [401, 'infrastructure'],
  ])('tells whose failure a %i is, at once and without secrets', async (status, kind) => {
    const { model, calls } = failing(Object.assign(refusal(status), { message: 'planted-key-9 is wrong' }))
    const failure = await leftOf(aiSDKWrapper({ model, secrets: ['planted-key-9'] }).act(asked('a'), key))
    expect(failure).toMatchObject({ kind, reason: expect.stringContaining(`${status}: *** is wrong`) })
    expect(calls()).toBe(1)
  })

  it('ends what is underway on the server when the caller has enough, and what waits is not begun', async () => {
    const engine = scripted({ beforeToken: () => new Promise(() => {}) })
    const policy = aiSDKWrapper({ model: await provided(served(engine)), maxConcurrent: 2, ...SHORT })
    const control = new AbortController()
    const result = policy.act(asked('a', 'b', 'c'), key, { signal: control.signal })()
    await until(() => engine.running() === 2)
    control.abort()
    expect(await result).toMatchObject({ _tag: 'Left', left: { kind: 'cancelled' } })
    await until(() => engine.running() === 0)
    expect(engine.seen).toHaveLength(2)
  })

  it('gives up at the end of its time', async () => {
    const engine = scripted({ beforeToken: () => new Promise(() => {}) })
    const policy = aiSDKWrapper({ model: await provided(served(engine)), timeoutSeconds: 0.05, ...SHORT })
    expect(await leftOf(policy.act(asked('a'), key))).toMatchObject({
      kind: 'infrastructure',
      reason: expect.stringContaining('within 0.05 s'),
    })
  })
})

/**
 * Chat servers as policies: over a real server on a real socket, and through a proxy that spoils
 * answers.
 */
import { child, keyFromSeed } from '@tandem-rl/base'
import { History, message, textOf } from '@tandem-rl/text'
import { afterAll, describe, expect, it } from 'vitest'
import type { HistoryPrompt } from '../../../../src/data/policy.js'
import { data, raggedRows } from '../../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import type { Capture } from '../../../../src/modules/remote/chat/chatAction.js'
import { seedOf } from '../../../../src/modules/remote/chat/chatRequest.js'
import type { OpenAIWrapperOptions } from '../../../../src/modules/remote/chat/clientConfig.js'
import { OpenAIWrapper } from '../../../../src/modules/remote/chat/openAIWrapper.js'
import { type Fault, type FaultProxy, faultProxy, rewriteJson } from '../../../kit/faultProxy.js'
import { leftOf, rightOf } from '../../../kit/results.js'
import { saying, scripted, served, tokenizer, until, useServers } from '../../../kit/served.js'

const listen = useServers()
const closing: (() => Promise<void>)[] = []
afterAll(async () => {
  for (const close of closing) await close()
})

const key = keyFromSeed(1)

const asked = (...texts: readonly string[]): TensorDict<HistoryPrompt> =>
  TensorDict({ history: { prompt: data(texts.map((text) => History([message('user', text)]))) } }, [texts.length])

/** A policy over a server behind a proxy, with the requests that the server saw. */
const over = async <C extends Capture>(
  app: Parameters<typeof listen>[0],
  config: Partial<OpenAIWrapperOptions<C>> = {},
  fault?: (nth: number) => Fault | undefined,
) => {
  const { url } = await listen(app)
  const proxy = await faultProxy(url, { ...(fault && { fault: (_, nth) => fault(nth) }) })
  const policy = OpenAIWrapper<C>({
    model: 'cat',
    baseUrl: `${proxy.url}/v1`,
    maxNewTokens: 64,
    maxRequestsPerMinute: 10_000,
    ...config,
  } as OpenAIWrapperOptions<C>) // `config` may be without what is given here
  closing.push(policy.close, proxy.close)
  return { policy, proxy }
}

const bodies = ({ seen }: FaultProxy): readonly Readonly<Record<string, unknown>>[] =>
  seen.map(({ body }) => JSON.parse(body) as Readonly<Record<string, unknown>>) // requests are objects

const ENGLISH = { type: 'function', function: { name: 'add', parameters: { type: 'object' } } } as const

describe('a chat server as a policy of messages', () => {
  it('answers each conversation with a message, its stop reason and its cost', async () => {
    const { policy } = await over(served(saying('four')))
    const action = await rightOf(policy.act(asked('2 + 2', '3 + 3'), key))
    expect(get(action, 'history', 'response').items.toArray()).toEqual([
      message('assistant', 'four'),
      message('assistant', 'four'),
    ])
    expect(get(action, 'stopReason').items.toArray()).toEqual(['stop', 'stop'])
    const said = get(action, 'answer').items.get(0)!
    expect(said).toMatchObject({ finish: 'stop', model: 'cat', refusal: null, malformedCalls: [] })
    expect(said.usage!.completionTokens).toBeGreaterThan(1)
  })

  it("reads the thoughts of Mistral's models, which are parts of the content, as the reasoning of the message", async () => {
    // the message of an answer of magistral-medium, as Mistral's API documents it
    const content = [
      {
        type: 'thinking',
        thinking: [
          { type: 'text', text: 'Two and two. ' },
          { type: 'text', text: 'Easy.' },
        ],
      },
      { type: 'text', text: 'It is 4.' },
    ]
    const answer = { message: { role: 'assistant', tool_calls: null, content }, index: 0, finish_reason: 'stop' }
    const { policy } = await over(served(saying('x')), {}, () =>
      rewriteJson((json) => ({ ...(json as object), choices: [answer] })),
    )
    const action = await rightOf(policy.act(asked('2 + 2'), key))
    expect(get(action, 'history', 'response').items.get(0)).toEqual(
      message('assistant', 'It is 4.', { reasoning: 'Two and two. Easy.' }),
    )
  })

  it('leaves a message unfinished that ran into the limit of tokens', async () => {
    const { policy } = await over(served(saying('the cat sat on the mat')), { maxNewTokens: 2 })
    const action = await rightOf(policy.act(asked('?'), key))
    expect(get(action, 'stopReason').items.get(0)).toBe('length')
    expect(get(action, 'history', 'response').items.get(0)!.isComplete).toBe(false)
  })

  it('asks for neighbours with one conversation together, seeds each request by its first row, and counts usage once', async () => {
    const { policy, proxy } = await over(served(scripted()))
    const action = await rightOf(policy.act(asked('a', 'a', 'a', 'b'), key))
    const sent = [...bodies(proxy)].sort((x, y) => Number(y.n ?? 0) - Number(x.n ?? 0))
    expect(sent.map(({ n, seed }) => [n, seed])).toEqual([
      [3, seedOf(child(key, 0))],
      [undefined, seedOf(child(key, 3))],
    ])
    expect(
      get(action, 'answer')
        .items.toArray()
        .map(({ usage }) => usage !== null),
    ).toEqual([true, false, false, true])
    expect(new Set(get(action, 'history', 'response').items.toArray().map(textOf)).size).toBe(4)
  })

  it('answers a row in its place the same whatever else is in the batch, where rows are asked for apart', async () => {
    const { policy } = await over(served(scripted()), { dialect: { equalPrompts: 'apart' } })
    const texts = async (td: TensorDict<HistoryPrompt>) =>
      get(await rightOf(policy.act(td, key)), 'history', 'response')
        .items.toArray()
        .map(textOf)
    const whole = await texts(asked('a', 'a', 'b'))
    expect(await texts(asked('a', 'a'))).toEqual(whole.slice(0, 2))
    expect(await texts(asked('a', 'a', 'b'))).toEqual(whole)
  })

  it('asks one by one where the server refuses several answers, and remembers it', async () => {
    const refusing = (nth: number): Fault | undefined =>
      nth === 0 ? { _tag: 'Status', status: 400, body: '{"error":{"message":"n must be 1"}}' } : undefined
    const { policy, proxy } = await over(served(scripted()), {}, refusing)
    await rightOf(policy.act(asked('a', 'a'), key))
    await rightOf(policy.act(asked('a', 'a'), key))
    expect(proxy.requests.map(({ body }) => (JSON.parse(body) as { readonly n?: number }).n ?? 1)).toEqual([
      2, 1, 1, 1, 1,
    ])
  })

  it('asks again for what lacks where a server ignores the number of answers, and remembers it', async () => {
    const first = rewriteJson((json) => ({
      ...(json as object),
      choices: (json as { choices: unknown[] }).choices.slice(0, 1),
    })) // an answer
    const { policy, proxy } = await over(served(scripted()), {}, (nth) => (nth === 0 ? first : undefined))
    const action = await rightOf(policy.act(asked('a', 'a', 'a'), key))
    expect(get(action, 'history', 'response').items.size).toBe(3)
    await rightOf(policy.act(asked('b', 'b'), key))
    expect(bodies(proxy).map(({ n }) => n)).toEqual([3, undefined, undefined, undefined, undefined])
  })

  it('asks twenty one by one without a warning of too many listeners', async () => {
    const warnings: string[] = []
    const onWarning = ({ name }: Error): void => void warnings.push(name)
    process.on('warning', onWarning)
    const { policy } = await over(served(scripted()), {}, (nth) =>
      nth === 0 ? { _tag: 'Status', status: 400 } : undefined,
    )
    await rightOf(policy.act(asked(...Array<string>(20).fill('a')), key))
    await new Promise((resolve) => setImmediate(resolve))
    process.off('warning', onWarning)
    expect(warnings).toEqual([])
  })

  it('lets the server find calls of tools, and never sends an empty list of tools', async () => {
    const app = served(saying('<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'), {
      features: { toolCalls: 'hermes' },
    })
    const { policy } = await over(app, { tools: [ENGLISH], toolChoice: 'auto' })
    const action = await rightOf(policy.act(asked('1 + 1'), key))
    expect(get(action, 'history', 'response').items.get(0)!.toolCalls).toMatchObject([
      { name: 'add', arguments: { a: 1 } },
    ])
    expect(get(action, 'answer').items.get(0)!.finish).toBe('tool-calls')
    const bare = await over(app, { tools: [] })
    await rightOf(bare.policy.act(asked('1 + 1'), key))
    expect(bodies(bare.proxy)[0]).not.toHaveProperty('tools')
  })

  it('finds calls in the text itself where the server does not', async () => {
    const app = served(saying('<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'))
    const { policy, proxy } = await over(app, { tools: [ENGLISH], dialect: { toolCalls: 'hermes' } })
    const action = await rightOf(policy.act(asked('1 + 1'), key))
    expect(get(action, 'history', 'response').items.get(0)!.toolCalls).toEqual([
      { id: 'call_1_0', name: 'add', arguments: { a: 1 } },
    ])
    expect(bodies(proxy)[0]).toMatchObject({ tool_choice: 'none', tools: [ENGLISH] })
  })

  it('reports every conversation that the format cannot express, and sends none', async () => {
    const { policy, proxy } = await over(served(saying('four')))
    const open = History([message('user', '?'), message('assistant', 'we', { isComplete: false })])
    const td = TensorDict({ history: { prompt: data([History([]), open]) } }, [2])
    const failure = await leftOf(policy.act(td, key))
    expect(failure).toMatchObject({ _tag: 'PolicyFailure', kind: 'asked' })
    expect(failure.reason).toMatch(/conversation 0: .*no message.*; conversation 1: .*unfinished/)
    expect(proxy.requests).toEqual([])
  })
})

describe('a chat server as a policy to train', () => {
  it('gives the ids that were read and written, their log-probabilities and the stamp of the weights', async () => {
    const weights = () => ({ version: 7, adapter: 'cat-2', cacheSalt: 'v7' })
    const { policy, proxy } = await over(served(saying('the cat')), { capture: 'tokens', weights })
    const action = await rightOf(policy.act(asked('a', 'a'), key))
    const ids = [...tokenizer.encode('the cat'), tokenizer.idOf('<|im_end|>')!]
    expect(raggedRows(get(action, 'tokens', 'response'))).toEqual([ids, ids])
    expect(raggedRows(get(action, 'logProbs', 'response'))[0]).toEqual(
      ids.map((id) => Math.fround(-((id % 7) + 1) / 8)),
    )
    const [prompt] = raggedRows(get(action, 'tokens', 'prompt'))
    expect(tokenizer.decode(prompt!, 'keep')).toBe('<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n')
    expect(get(action, 'policyVersion').items.toArray()).toEqual([7, 7])
    expect(get(action, 'sampling').items.get(0)).toEqual({
      ...{ temperature: 1, topK: null, topP: 1, maxNewTokens: 64, minNewTokens: 0 },
    })
    expect(bodies(proxy)[0]).toMatchObject({ model: 'cat-2', cache_salt: 'v7', top_k: 0, return_token_ids: true })
  })

  const spoiled = (change: (choice: Record<string, unknown>, reply: Record<string, unknown>) => void) => (): Fault =>
    rewriteJson((json) => {
      const reply = json as { choices: Record<string, unknown>[] } & Record<string, unknown> // an answer
      change(reply.choices[0]!, reply)
      return reply
    })
  const set = (target: object, fields: object): void => void Object.assign(target, fields)
  const contentOf = (choice: Record<string, unknown>) =>
    (choice.logprobs as { content: { logprob: unknown }[] }).content // asked for

  it.each<[string, Parameters<typeof spoiled>[0], RegExp, string]>([
    ['NaN', (c) => set(contentOf(c)[1]!, { logprob: Number.NaN }), /NaN|not JSON/, 'infrastructure'],
    ['-9999', (c) => set(contentOf(c)[1]!, { logprob: -9999 }), /token 1 .*-9999/, 'infrastructure'],
    ['one id too few', (c) => void (c.token_ids as number[]).pop(), /\d token ids and \d log-prob/, 'infrastructure'],
    ['an answer that was aborted', (c) => set(c, { finish_reason: 'abort' }), /'abort'/, 'infrastructure'],
    ['no ids', (c) => set(c, { token_ids: null }), /no token_ids.*capture 'text'/, 'asked'],
    ['no ids of the prompt', (_, r) => set(r, { prompt_token_ids: null }), /no prompt_token_ids/, 'asked'],
    ['no choice', (_, r) => set(r, { choices: [] }), /choices: /, 'infrastructure'],
  ])('takes no answer with %s', async (_, change, reason, kind) => {
    const { policy } = await over(served(saying('the cat')), { capture: 'tokens' }, spoiled(change))
    const failure = await leftOf(policy.act(asked('a'), key))
    expect(failure.kind).toBe(kind)
    expect(failure.reason).toMatch(reason)
  })

  it('refuses settings under which log-probabilities would not be those of the samples, all at once', () => {
    const config = { model: 'm', capture: 'tokens', temperature: 0.7, extraBody: { min_p: 0.1, n: 2 } } as const
    expect(() => OpenAIWrapper(config)).toThrow(
      /extraBody.n is written.*extraBody.min_p changes.*temperature must be 1 or 0/,
    )
    expect(() =>
      OpenAIWrapper({ model: 'm', capture: 'tokens', topP: 0.9, dialect: { logProbs: 'processed' } }),
    ).toThrow(/topP must be 1 where/)
    const greedy = { model: 'm', capture: 'tokens', temperature: 0, dialect: { logProbs: 'processed' } } as const
    expect(() => OpenAIWrapper(greedy)).not.toThrow()
    expect(() =>
      OpenAIWrapper({ model: 'm', topP: 0, maxNewTokens: 0, toolChoice: 'auto', timeoutSeconds: -1 }),
    ).toThrow(/topP.*maxNewTokens.*timeoutSeconds.*toolChoice needs tools/)
  })
})

describe('faults between a policy and its server', () => {
  it('waits as Retry-After says and tries bursts of errors again, and counts nothing twice', async () => {
    const faults: readonly (Fault | undefined)[] = [
      { _tag: 'Status', status: 429, headers: { 'retry-after': '0' } },
      { _tag: 'Status', status: 500, body: 'oh' },
      { _tag: 'Status', status: 503 },
    ]
    const engine = saying('four')
    const { policy, proxy } = await over(served(engine), {}, (nth) => faults[nth])
    const action = await rightOf(policy.act(asked('2 + 2'), key))
    expect(textOf(get(action, 'history', 'response').items.get(0)!)).toBe('four')
    expect([proxy.requests.length, engine.seen.length]).toEqual([4, 1])
  })

  it('tells an answer that is cut off in its JSON, and no message comes of it', async () => {
    const cut: Fault = { _tag: 'Rewrite', text: (body) => body.slice(0, 60) }
    const { policy } = await over(served(saying('four')), {}, () => cut)
    const failure = await leftOf(policy.act(asked('2 + 2'), key))
    expect(failure.kind).toBe('infrastructure')
    expect(failure.reason).toContain('not JSON')
  })

  it.each([
    [401, 'infrastructure'],
    [404, 'asked'],
    [422, 'asked'],
  ])('tells whose failure a %i is, in the words of the server and without the key', async (status, kind) => {
    const body = JSON.stringify({ error: { message: 'the key planted-key-123 will not do' } })
    const { policy } = await over(served(saying('four')), { apiKey: 'planted-key-123' }, () => ({
      _tag: 'Status',
      status,
      body,
    }))
    const failure = await leftOf(policy.act(asked('2 + 2'), key))
    expect(failure.kind).toBe(kind)
    expect(failure.reason).toContain(`${status}: the key *** will not do`)
    expect(JSON.stringify(failure)).not.toContain('planted-key-123')
  })

  it('ends what is underway on the server when the caller has enough', async () => {
    const engine = scripted({ beforeToken: () => new Promise(() => {}) })
    const { policy } = await over(served(engine))
    const control = new AbortController()
    const result = policy.act(asked('a', 'b'), key, { signal: control.signal })()
    await until(() => engine.running() === 2)
    control.abort()
    expect(await result).toMatchObject({ _tag: 'Left', left: { kind: 'cancelled' } })
    await until(() => engine.running() === 0)
  })

  it('ends the other requests when one fails', async () => {
    const engine = scripted({ beforeToken: () => new Promise(() => {}) })
    const { policy } = await over(served(engine), {}, (nth) =>
      nth === 0 ? { _tag: 'Status', status: 404 } : undefined,
    )
    expect(await leftOf(policy.act(asked('a', 'b', 'c'), key))).toMatchObject({ kind: 'asked' })
    await until(() => engine.running() === 0)
  })

  it('gives up at the end of its time', async () => {
    const engine = scripted({ beforeToken: () => new Promise(() => {}) })
    const { policy } = await over(served(engine), { timeoutSeconds: 0.05 })
    expect(await leftOf(policy.act(asked('a'), key))).toMatchObject({ kind: 'infrastructure' })
    await until(() => engine.running() === 0)
  })
})

/** One suite over all backends of agents, with `tandem serve` as the server. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { History, message } from '@tandem-rl/text'
import { calculator } from '@tandem-rl/tools'
import * as E from 'fp-ts/lib/Either.js'
import { afterAll, describe, expect, it } from 'vitest'
import { localClient } from '../../../../src/modules/remote/localClient.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { saying, scripted, served, servedText, useServers } from '../../../../test/kit/served.js'
import { HFAgent, ReactAgent } from '../../src/agents/agents.js'
import { AsyncVerlBackend } from '../../src/agents/backends/asyncVerl.js'
import { AsyncVLLMBackend } from '../../src/agents/backends/asyncVLLM.js'
import type { BackendEvent, LLMBackend } from '../../src/agents/backends/backend.js'
import { ClientBackend } from '../../src/agents/backends/client.js'
import {
  AsyncVerlConfig,
  AsyncVLLMConfig,
  type BackendConfig,
  ClientConfig,
} from '../../src/agents/backends/configs.js'
import type { ChainEvent } from '../../src/agents/events.js'

useEngine()
const listen = useServers()
const model = { modelNameOrPath: 'cat' }
const text = { ...servedText, endOfTurn: '<|im_end|>', files: {} }
const asked = History([message('user', 'Hi?')])
const key = keyFromSeed(3)

const LONG = { maxModelLength: 2048 }

/** The three backends over an engine with a fixed text. */
const configs = async (says: string): Promise<Readonly<Record<string, BackendConfig>>> => {
  const { url } = await listen(served(saying(says, LONG)))
  return {
    async_vllm: AsyncVLLMConfig({}, { url, text, maxNewTokens: 128 }),
    client: ClientConfig({ baseUrl: `${url}/v1`, capture: 'tokens', maxNewTokens: 128, maxRequestsPerMinute: 1000 }),
    async_verl: AsyncVerlConfig({ engine: localClient(saying(says, LONG), 'here'), text, maxNewTokens: 128 }),
  }
}

const backendOf = (config: BackendConfig): LLMBackend => {
  if (config.backend === 'async_vllm') return AsyncVLLMBackend(model, config)
  return config.backend === 'client' ? ClientBackend(model, config) : AsyncVerlBackend(model, config)
}

it.each(['async_vllm', 'async_verl'])('%s with a text side refuses the name of another template', async (name) => {
  const config = (await configs('the cat sat'))[name]!
  const other = { modelNameOrPath: 'cat', template: 'nope' }
  const backend =
    config.backend === 'async_vllm'
      ? AsyncVLLMBackend(other, config)
      : AsyncVerlBackend(other, config as ReturnType<typeof AsyncVerlConfig>) // by its name
  expect(await backend.prepare()).toMatchObject({
    left: { reason: expect.stringContaining("no template named 'nope'") },
  })
  await backend.close()
})

describe.each(['async_vllm', 'client', 'async_verl'])('the backend %s', async (name) => {
  const config = (await configs('the cat sat'))[name]!
  const backend = backendOf(config)
  afterAll(backend.close)

  it('is prepared once, and has its name', async () => {
    expect(backend.name).toBe(name)
    expect(await backend.prepare()).toEqual(E.right(undefined))
    expect(await backend.prepare()).toEqual(E.right(undefined))
  })

  it('answers several conversations, with token ids and log-probabilities', async () => {
    const replies = orThrow(await backend.generate([asked, History([message('user', 'And?')])], { key })())
    expect(replies.map((reply) => reply.text)).toEqual(['the cat sat', 'the cat sat'])
    for (const { tokens, stopReason, toolCalls, message: said } of replies) {
      expect(said).toMatchObject({ role: 'assistant', isComplete: true })
      expect([stopReason, toolCalls]).toEqual(['stop', []])
      expect(text.tokenizer.decode(tokens!.response, 'skip')).toBe('the cat sat')
      expect(tokens!.prompt).toContain(text.tokenizer.idOf('<|im_start|>'))
      expect(tokens!.logProbs).toHaveLength(tokens!.response.length)
      expect(tokens!.logProbs.every((each) => each <= 0)).toBe(true)
    }
  })

  it('answers one conversation, within the limit of tokens', async () => {
    const reply = orThrow(await backend.generateAsync(asked, { key, maxNewTokens: 2 })())
    expect(reply.tokens!.response).toHaveLength(2)
    expect(reply.stopReason).toBe('length')
  })

  it('streams pieces that join to the reply', async () => {
    const events: BackendEvent[] = []
    for await (const event of backend.generateStreaming(asked, { key })) events.push(event)
    const pieces = events.flatMap((event) => (event.type === 'chunk' ? [event.text] : []))
    expect(pieces.join('')).toBe('the cat sat')
    expect(pieces.length).toBeGreaterThan(name === 'async_vllm' ? 0 : 1) // vLLM's endpoint for token ids answers at once
    expect(events.at(-1)).toMatchObject({ type: 'end', reply: { text: 'the cat sat' } })
  })

  it('calls off a stream that is left', async () => {
    for await (const event of backend.generateStreaming(asked, { key })) {
      expect(event.type).toBe('chunk')
      break
    }
    expect(E.isRight(await backend.generateAsync(asked, { key })())).toBe(true)
  })

  it('fails for a cancelled request, and continues', async () => {
    const result = await backend.generate([asked], { signal: AbortSignal.abort() })()
    expect(result).toMatchObject({ _tag: 'Left', left: { _tag: 'PolicyFailure', kind: 'cancelled' } })
    expect(E.isRight(await backend.generateAsync(asked)())).toBe(true)
  })
})

describe.each(['async_vllm', 'client', 'async_verl'])('an agent on %s', async (name) => {
  const call = '<tool_call>{"name": "calculator", "arguments": {"expression": "6 * 7"}}</tool_call>'
  const config = (await configs(call))[name]!

  it('calls native tools, and has the tokens of its turns', async () => {
    const agent = HFAgent({ ...model, tools: [calculator()], backendConfig: config, toolParserName: 'hermes' })
    const events: ChainEvent[] = []
    const observers = [(event: ChainEvent) => void events.push(event)]
    const { trajectories } = await orThrow(
      agent.run({ messages: [{ role: 'user', content: '6 * 7?' }], maxTurns: 2, numChains: 2, observers }),
    )
    for (const chain of trajectories) {
      expect(chain).toMatchObject({
        finishReason: 'max_turns',
        failure: null,
        calls: [{ outcome: 'ok' }, { outcome: 'ok' }],
      })
      expect(chain.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant', 'tool'])
      expect(
        chain.turns.every(({ tokens }) => tokens !== null && tokens.response.length === tokens.logProbs.length),
      ).toBe(true)
    }
    expect(events.filter(({ type }) => type === 'generation_chunk').length).toBeGreaterThanOrEqual(4)
    await agent.close()
  })
})

describe('a server that fails', () => {
  it('marks the chains, with the reason', async () => {
    const engine = scripted({ fails: () => ({ _tag: 'GenerationFailure', kind: 'internal', reason: 'no memory' }) })
    const { url } = await listen(served(engine))
    const agent = ReactAgent({ ...model, tools: [calculator()], backendConfig: AsyncVLLMConfig({}, { url, text }) })
    const { trajectories } = await orThrow(agent.run({ messages: [{ role: 'user', content: 'a' }], numChains: 2 }))
    expect(trajectories.map(({ finishReason }) => finishReason)).toEqual(['failed', 'failed'])
    expect(trajectories[0]!.failure!.reason).toContain('no memory')
    await agent.close()
  })
})

describe('configurations', () => {
  it('have the defaults of AgentFly and refuse unknown names', () => {
    expect(AsyncVLLMConfig({ gpuMemoryUtilization: 0.8, maxModelLen: 4096 }).engine).toEqual({
      gpuMemoryUtilization: 0.8,
      maxModelLen: 4096,
    })
    expect(() => ClientConfig({ base_url: 'a' } as never)).toThrow("did you mean 'baseUrl'?")
    expect(() => AsyncVerlConfig({ max_tokens: 3 } as never)).toThrow('max_tokens')
    expect(() => ClientConfig({ maxRequestsPerMinute: 0 })).toThrow(
      'ClientConfig: maxRequestsPerMinute must be above 0, got 0',
    )
    expect(() => ClientConfig({ timeout: Number.NaN })).toThrow('ClientConfig: timeout must be above 0, got NaN')
    expect(() => ClientConfig({ baseUrl: 'localhost:8000' })).toThrow(
      "ClientConfig: baseUrl must be an address such as http://localhost:8000/v1, got 'localhost:8000'",
    )
  })
})

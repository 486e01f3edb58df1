/**
 * Agents with the clients that people have, over a real socket: what `captureApp` captured is what
 * the engine sampled.
 */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import Anthropic from '@anthropic-ai/sdk'
import { type CapturedSession, sessionTrajectories } from '@tandem-rl/text'
import { generateText, jsonSchema, streamText, tool } from 'ai'
import OpenAI from 'openai'
import { describe, expect, it } from 'vitest'
import { captured } from '../../../../test/kit/captured.js'
import { scripted, tokenizer, useServers } from '../../../../test/kit/served.js'

const listen = useServers()

/** Spaces and an order of keys that no renderer gives back. */
const CALL = 'Look:\n<tool_call>{"arguments":   {"city": "Oslo"},  "name": "weather"}</tool_call>'

const PARAMETERS = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } as const

const TOOLS = [{ type: 'function' as const, function: { name: 'weather', parameters: PARAMETERS } }]

/** Calls the tool until it gets a result, then once more, then replies. */
const weatherEngine = () =>
  scripted({
    says: ({ prompt }) => {
      const asked = tokenizer.decode(prompt, 'keep')
      const answers = asked.split('rain').length - 1
      return answers < 2 ? CALL : 'Take a coat.'
    },
    maxModelLength: 2048,
  })

type ChatMessage = OpenAI.Chat.ChatCompletionMessageParam

/** An agent as people write it: a loop until no tool is called. */
const runAgent = async (client: OpenAI, way: 'whole' | 'streamed', texts: 'kept' | 'dropped' = 'kept') => {
  const messages: ChatMessage[] = [
    { role: 'system', content: 'You help.' },
    { role: 'user', content: 'Coat?' },
  ]
  for (;;) {
    const request = { model: 'cat', messages, tools: TOOLS }
    const answer =
      way === 'whole'
        ? await client.chat.completions.create(request)
        : await client.chat.completions.stream(request).finalChatCompletion()
    const { message } = answer.choices[0]!
    messages.push(texts === 'kept' ? message : { ...message, content: null })
    if (!message.tool_calls?.length) return message.content ?? ''
    for (const { id } of message.tool_calls) messages.push({ role: 'tool', tool_call_id: id, content: 'rain in Oslo' })
  }
}

const textOf = (ids: Int32Array): string => tokenizer.decode(ids, 'keep')

/** The conversation as one row of tokens, and what the engine said in it. */
const expectOneConversation = (session: CapturedSession): void => {
  expect(session.calls.map(({ promptFrom }) => promptFrom)).toEqual(['render', 'tokens', 'tokens'])
  const { trajectories, splits, unused } = sessionTrajectories(session)
  expect([splits, unused]).toEqual([[], []])
  expect(trajectories).toHaveLength(1)
  const { ids, mask, logProbs } = trajectories[0]!
  const sampled = ids.filter((_, i) => mask[i] === 1)
  expect(textOf(sampled)).toBe(`${CALL}<|im_end|>${CALL}<|im_end|>Take a coat.<|im_end|>`)
  expect(textOf(ids)).toContain(
    `${CALL}<|im_end|>\n<|im_start|>tool\nrain in Oslo<|im_end|>\n<|im_start|>assistant\n${CALL}<|im_end|>\n`,
  )
  for (const [i, on] of mask.entries()) {
    if (on === 1) expect(logProbs[i]).toBeCloseTo((-((ids[i]! % 7) + 1) / 8) * 1.5)
  }
}

describe("OpenAI's client", () => {
  it.each(['whole', 'streamed'] as const)('in an agent with tools is captured as one conversation, %s', async (way) => {
    const app = captured(weatherEngine())
    const { url } = await listen(app)
    const opened = (await (await fetch(`${url}/sessions`, { method: 'POST' })).json()) as { readonly base_url: string } // as it is told
    expect(await runAgent(new OpenAI({ apiKey: 'any', baseURL: opened.base_url }), way)).toBe('Take a coat.')
    expectOneConversation(app.sessions()[0]!)
  })

  it('that drops the text beside calls, as Genkit does, is captured as one conversation', async () => {
    const app = captured(weatherEngine())
    const { url } = await listen(app)
    const client = new OpenAI({ apiKey: 'any', baseURL: `${url}/sessions/a/v1` })
    expect(await runAgent(client, 'whole', 'dropped')).toBe('Take a coat.')
    expectOneConversation(app.sessions()[0]!)
  })

  it('that drops the text and changes the ids of calls is split', async () => {
    const app = captured(weatherEngine())
    const { url } = await listen(app)
    const client = new OpenAI({ apiKey: 'any', baseURL: `${url}/sessions/a/v1` })
    const create = (messages: ChatMessage[]) => client.chat.completions.create({ model: 'cat', messages, tools: TOOLS })
    const first: ChatMessage[] = [{ role: 'user', content: 'Coat?' }]
    const { message } = (await create(first)).choices[0]!
    const calls = message.tool_calls!.map((each) => ({ ...each, id: 'mine' }))
    const answer: ChatMessage = { role: 'assistant', content: null, tool_calls: calls }
    await create([...first, answer, { role: 'tool', tool_call_id: 'mine', content: 'rain' }])
    expect(app.sessions()[0]!.calls.map(({ promptFrom }) => promptFrom)).toEqual(['render', 'render'])
    expect(sessionTrajectories(app.sessions()[0]!).splits).toMatchObject([{ reason: 'answer-edited' }])
  })

  it.each([
    ['a key', { apiKey: 'sk-session-mine' }],
    ['a header', { apiKey: 'any', defaultHeaders: { 'x-session-id': 'mine' } }],
  ])('names its session by %s', async (_, options) => {
    const app = captured(weatherEngine())
    const { url } = await listen(app)
    const client = new OpenAI({ baseURL: `${url}/v1`, ...options })
    await runAgent(client, 'whole')
    const [session] = app.sessions()
    expect(session!.id).toBe('mine')
    expectOneConversation(session!)
    const names: string[] = []
    for await (const model of client.models.list()) names.push(model.id)
    expect(names).toEqual(['cat'])
  })

  it('that is rendered anew each time breaks, which is told with its place', async () => {
    const app = captured(weatherEngine(), { continuation: 'render' })
    const { url } = await listen(app)
    await runAgent(new OpenAI({ apiKey: 'sk-session-a', baseURL: `${url}/v1` }), 'whole')
    const { trajectories, splits } = sessionTrajectories(app.sessions()[0]!, { decode: textOf })
    expect(trajectories).toHaveLength(3)
    expect(splits.map(({ reason }) => reason)).toEqual(['retokenised', 'retokenised'])
    expect(splits[0]).toMatchObject({ call: 1, after: { call: 0 }, expectedText: expect.stringContaining('arguments') })
  })
})

describe("Vercel's AI SDK", () => {
  it.each(['whole', 'streamed'])('calls tools and is captured as one conversation, %s', async (way) => {
    const app = captured(weatherEngine())
    const { url } = await listen(app)
    const model = createOpenAICompatible({ name: 'tandem', baseURL: `${url}/sessions/ai/v1`, apiKey: 'any' })('cat')
    const weather = tool({
      inputSchema: jsonSchema<{ readonly city: string }>({ ...PARAMETERS, required: ['city'] }),
      execute: async ({ city }) => `rain in ${city}`,
    })
    const stopWhen = ({ steps }: { readonly steps: readonly unknown[] }): boolean => steps.length === 4
    const request = { model, system: 'You help.', prompt: 'Coat?', tools: { weather }, stopWhen }
    const text = way === 'whole' ? (await generateText(request)).text : await streamText(request).text
    expect(text).toBe('Take a coat.')
    expectOneConversation(app.sessions()[0]!)
  })
})

type Input = OpenAI.Responses.ResponseInput

/** An agent of the Responses API: a loop until no tool is called. */
const runResponses = async (client: OpenAI, way: 'whole' | 'streamed' | 'stored'): Promise<string> => {
  const tools = [{ type: 'function' as const, name: 'weather', parameters: PARAMETERS, strict: null }]
  let input: Input = [{ role: 'user', content: 'Coat?' }]
  let previous: string | undefined
  for (;;) {
    const request = { model: 'cat', instructions: 'You help.', input, tools, previous_response_id: previous ?? null }
    const answer =
      way === 'streamed'
        ? await client.responses.stream(request).finalResponse()
        : await client.responses.create({ ...request, stream: false })
    const calls = answer.output.flatMap((item) => (item.type === 'function_call' ? [item] : []))
    if (calls.length === 0) return answer.output_text
    const results = calls.map(({ call_id }) => ({
      ...{ type: 'function_call_output' as const, call_id, output: 'rain in Oslo' },
    }))
    if (way === 'stored') previous = answer.id
    input = way === 'stored' ? results : [...input, ...(answer.output as Input), ...results] // the API accepts its own output
  }
}

describe("OpenAI's client of the Responses API", () => {
  it.each(['whole', 'streamed', 'stored'] as const)('is captured as one conversation, %s', async (way) => {
    const app = captured(weatherEngine())
    const { url } = await listen(app)
    const client = new OpenAI({ apiKey: 'any', baseURL: `${url}/sessions/r/v1` })
    expect(await runResponses(client, way)).toBe('Take a coat.')
    expectOneConversation(app.sessions()[0]!)
  })
})

/** An agent of the Messages API: a loop until no tool is used. */
const runMessages = async (client: Anthropic, way: 'whole' | 'streamed'): Promise<string> => {
  const tools = [{ name: 'weather', input_schema: { ...PARAMETERS, required: ['city'] } }]
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'Coat?' }]
  for (;;) {
    const request = { model: 'cat', max_tokens: 500, system: 'You help.', messages, tools }
    const answer =
      way === 'whole' ? await client.messages.create(request) : await client.messages.stream(request).finalMessage()
    messages.push({ role: 'assistant', content: answer.content })
    const uses = answer.content.filter((block) => block.type === 'tool_use')
    if (uses.length === 0) return answer.content.map((block) => (block.type === 'text' ? block.text : '')).join('')
    expect(answer.stop_reason).toBe('tool_use')
    const results = uses.map(({ id }) => ({ type: 'tool_result' as const, tool_use_id: id, content: 'rain in Oslo' }))
    messages.push({ role: 'user', content: results })
  }
}

describe("Anthropic's client", () => {
  it.each(['whole', 'streamed'] as const)('is captured as one conversation, %s', async (way) => {
    const app = captured(weatherEngine())
    const { url } = await listen(app)
    const client = new Anthropic({ apiKey: 'any', baseURL: `${url}/sessions/m/v1` })
    expect(await runMessages(client, way)).toBe('Take a coat.')
    expectOneConversation(app.sessions()[0]!)
  })

  it('names its session by its key, and reads errors in its own form', async () => {
    const model = { names: ['cat'], root: '/models/cat', others: 'refuse' } as const
    const app = captured(weatherEngine(), { serve: { model } })
    const { url } = await listen(app)
    const client = new Anthropic({ apiKey: 'sk-session-mine', baseURL: url, maxRetries: 0 })
    expect(await runMessages(client, 'whole')).toBe('Take a coat.')
    expectOneConversation(app.sessions()[0]!)
    const unknown = client.messages.create({ model: 'dog', max_tokens: 1, messages: [{ role: 'user', content: 'x' }] })
    await expect(unknown).rejects.toMatchObject({ status: 404, type: 'not_found_error' })
    const counted = await client.messages.countTokens({ model: 'cat', messages: [{ role: 'user', content: 'Coat?' }] })
    expect(counted.input_tokens).toBeGreaterThan(4)
  })
})

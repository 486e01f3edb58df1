/**
 * Clients that people have, unmodified, over a real socket: the official client of OpenAI, and
 * Vercel's AI SDK.
 */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, jsonSchema, streamText, tool } from 'ai'
import OpenAI from 'openai'
import { beforeAll, describe, expect, it } from 'vitest'
import { saying, scripted, served, tokenizer, until, useServers } from '../../../test/kit/served.js'

const listen = useServers()

const KEY = 'sk-test'

/** Of 'hello there' and the end. */
const TOKENS = tokenizer.encode('hello there').length + 1

const CALL = 'Look:<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'

const PARAMETERS = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } as const

/** Writes a call of the tool until it gets a result. */
const engine = scripted({
  says: ({ prompt }) => {
    const asked = tokenizer.decode(prompt, 'keep')
    if (asked.includes('rain')) return 'Take a coat.'
    return asked.includes('Tools:') ? CALL : 'hello there'
  },
  maxModelLength: 1024,
})

let url = ''

beforeAll(async () => {
  const app = served(engine, { access: { apiKeys: [KEY] }, features: { toolCalls: 'hermes' } })
  url = `${(await listen(app)).url}/v1`
})

describe("OpenAI's client", () => {
  const client = (apiKey = KEY): OpenAI => new OpenAI({ apiKey, baseURL: url, maxRetries: 0 })

  const messages = [{ role: 'user', content: 'hi' }] as const

  it('completes, and streams the same', async () => {
    const whole = await client().completions.create({ model: 'cat', prompt: 'a', max_tokens: 20, logprobs: 1 })
    expect(whole.choices[0]).toMatchObject({ text: 'hello there', finish_reason: 'stop' })
    expect(whole.choices[0]!.logprobs!.tokens!.join('')).toBe('hello there<|im_end|>')
    let text = ''
    for await (const chunk of await client().completions.create({
      model: 'cat',
      prompt: 'a',
      max_tokens: 20,
      stream: true,
    }))
      text += chunk.choices[0]!.text
    expect(text).toBe('hello there')
  })

  it('chats, with log-probabilities and usage', async () => {
    const answer = await client().chat.completions.create({
      model: 'cat',
      messages: [...messages],
      logprobs: true,
      top_logprobs: 2,
    })
    const [choice] = answer.choices
    expect(choice!.message.content).toBe('hello there')
    expect(
      choice!
        .logprobs!.content!.slice(0, -1)
        .map(({ token }) => token)
        .join(''),
    ).toBe('hello there')
    expect(choice!.logprobs!.content![0]!.top_logprobs).toHaveLength(2)
    expect(answer.usage!.completion_tokens).toBe(choice!.logprobs!.content!.length)
  })

  it('reads a stream with its own helper, calls of tools included', async () => {
    const stream = client().chat.completions.stream({
      model: 'cat',
      messages: [...messages],
      tools: [{ type: 'function', function: { name: 'weather', parameters: PARAMETERS } }],
      stream_options: { include_usage: true },
    })
    const { message, finish_reason: finish } = (await stream.finalChatCompletion()).choices[0]!
    expect(finish).toBe('tool_calls')
    expect(message.content).toBe('Look:')
    expect(message.tool_calls).toMatchObject([
      { type: 'function', function: { name: 'weather', arguments: '{"city": "Oslo"}' } },
    ])
    expect((await stream.totalUsage()).total_tokens).toBeGreaterThan(10)
  })

  it('lists models', async () => {
    const names: string[] = []
    for await (const model of client().models.list()) names.push(model.id)
    expect(names).toEqual(['cat', 'cat-2'])
  })

  it('gets errors of its own kinds', async () => {
    const bad = client().completions.create({ model: 'cat', prompt: 'a', temperature: 3 })
    await expect(bad).rejects.toMatchObject({
      name: 'Error',
      status: 400,
      param: 'temperature',
      type: 'BadRequestError',
    })
    await expect(bad).rejects.toBeInstanceOf(OpenAI.BadRequestError)
    await expect(client().completions.create({ model: 'dog', prompt: 'a' })).rejects.toBeInstanceOf(
      OpenAI.NotFoundError,
    )
    await expect(client('sk-wrong').models.list()).rejects.toBeInstanceOf(OpenAI.AuthenticationError)
  })

  it('that stops reading frees its slot', async () => {
    let arrived = 0
    const endless = saying('x'.repeat(300), {
      beforeToken: (_, t) => (t < 3 ? undefined : new Promise((resolve) => setTimeout(resolve, 2))),
    })
    const app = served(endless)
    const local = new OpenAI({ apiKey: KEY, baseURL: `${(await listen(app)).url}/v1` })
    for await (const _ of await local.completions.create({ model: 'cat', prompt: 'a', max_tokens: 300, stream: true }))
      if (++arrived === 2) break
    await until(() => endless.running() === 0 && app.inFlight() === 0)
    expect((await endless.metrics()).generatedTokens).toBeLessThan(300)
  })
})

describe("Vercel's AI SDK", () => {
  const model = () => createOpenAICompatible({ name: 'tandem', baseURL: url, apiKey: KEY, includeUsage: true })('cat')

  const weather = tool({
    inputSchema: jsonSchema<{ readonly city: string }>({ type: 'object', properties: { city: { type: 'string' } } }),
    execute: async ({ city }) => `rain in ${city}`,
  })

  it('generates text', async () => {
    const { text, finishReason, usage } = await generateText({ model: model(), prompt: 'hi' })
    expect([text, finishReason]).toEqual(['hello there', 'stop'])
    expect(usage.outputTokens).toBe(TOKENS)
  })

  it('streams text', async () => {
    const { textStream, usage } = streamText({ model: model(), prompt: 'hi' })
    let [text, pieces] = ['', 0]
    for await (const piece of textStream) {
      text += piece
      pieces++
    }
    expect(text).toBe('hello there')
    expect(pieces).toBeGreaterThan(5)
    expect((await usage).outputTokens).toBe(TOKENS)
  })

  it.each(['whole', 'streamed'])('calls a tool and goes on with its result, %s', async (way) => {
    const stopWhen = ({ steps }: { readonly steps: readonly unknown[] }): boolean => steps.length === 3
    const options = { model: model(), prompt: 'Coat?', tools: { weather }, stopWhen }
    const streamed = way === 'streamed' ? streamText(options) : undefined
    await streamed?.consumeStream()
    const { steps } = streamed === undefined ? await generateText(options) : { steps: await streamed.steps }
    expect(steps.map(({ finishReason }) => finishReason)).toEqual(['tool-calls', 'stop'])
    expect(steps[0]!.toolResults).toMatchObject([
      { toolName: 'weather', input: { city: 'Oslo' }, output: 'rain in Oslo' },
    ])
    expect(steps[1]!.text).toBe('Take a coat.')
  })
})

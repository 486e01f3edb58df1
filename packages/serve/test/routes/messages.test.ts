/** `/v1/messages` of `serveApp`: Anthropic's form of requests, answers, streams and errors. */
import { describe, expect, it } from 'vitest'
import { ask, type Json, post, saying, scripted, served, tokenizer } from '../../../../test/kit/served.js'

const PATH = '/v1/messages'
const USER = { role: 'user', content: 'hi' }
const TOOL = { name: 'weather', input_schema: { type: 'object' } }
const withTools = { features: { toolCalls: 'hermes' } } as const
const CALL = 'Look:<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'

/** The named events of a stream. */
const eventsOf = (text: string): readonly Json[] =>
  text
    .split('\n\n')
    .filter((frame) => frame !== '')
    .map((frame) => {
      const [name, json] = frame.split('\n').map((line) => line.replace(/^(?:event|data): /, ''))
      const event = JSON.parse(json!) as Json // frames are objects
      expect(event.type).toBe(name)
      return event
    })

describe('a message', () => {
  it('has the form of Anthropic, with text and calls', async () => {
    const { json } = await post(served(saying(CALL), withTools), PATH, {
      max_tokens: 99,
      messages: [USER],
      tools: [TOOL],
    })
    expect(json).toMatchObject({
      ...{ type: 'message', role: 'assistant', model: 'cat', stop_reason: 'tool_use', stop_sequence: null },
      content: [
        { type: 'text', text: 'Look:' },
        { type: 'tool_use', id: expect.stringMatching(/^toolu_/), name: 'weather', input: { city: 'Oslo' } },
      ],
      usage: { cache_creation_input_tokens: 0 },
    })
  })

  it('is streamed as blocks that hold the same', async () => {
    const app = served(saying(CALL), withTools)
    const { text } = await post(app, PATH, { max_tokens: 99, messages: [USER], tools: [TOOL], stream: true })
    const events = eventsOf(text)
    const [first, last] = [events[0]!.type, events.at(-1)!.type]
    expect([first, last]).toEqual(['message_start', 'message_stop'])
    const deltas = events.flatMap(({ type, delta }) => (type === 'content_block_delta' ? [delta as Json] : []))
    expect(deltas.map((delta) => delta.text ?? '').join('')).toBe('Look:')
    expect(JSON.parse(deltas.map((delta) => delta.partial_json ?? '').join(''))).toEqual({ city: 'Oslo' })
    expect(events.filter(({ type }) => type === 'content_block_start')).toHaveLength(2)
    expect(events.at(-2)).toMatchObject({ type: 'message_delta', delta: { stop_reason: 'tool_use' } })
  })

  it('keeps the numbers of arguments, in answers and from requests', async () => {
    const args = '{"id":2512292042121000001,"f":1.0,"z":-0.0}'
    const engine = scripted({ says: () => `<tool_call>{"name": "weather", "arguments": ${args}}</tool_call>` })
    const app = served(engine, withTools)
    const { text } = await post(app, PATH, { max_tokens: 99, messages: [USER], tools: [TOOL] })
    expect(text).toContain(`"input":${args}`)
    const block = `{"type":"tool_use","id":"t1","name":"weather","input":${args}}`
    const result = '{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"rain"}]}'
    const body = `{"max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[${block}]},${result}]}`
    const { status } = await ask(app, PATH, { method: 'POST', body, headers: { 'content-type': 'application/json' } })
    expect(status).toBe(200)
    const shown = '{"id": 2512292042121000001, "f": 1.0, "z": -0.0}'
    expect(tokenizer.decode(engine.seen.at(-1)!.prompt, 'keep')).toContain(shown)
  })

  it('has thoughts as a block of their own, whole and streamed', async () => {
    const says = '<think>hm</think>Four.'
    const options = { features: { toolCalls: 'hermes', thoughts: ['<think>', '</think>'] } } as const
    const body = { max_tokens: 99, messages: [USER], tools: [TOOL] }
    const { json } = await post(served(saying(says), options), PATH, body)
    expect(json.content).toMatchObject([
      { type: 'thinking', thinking: 'hm' },
      { type: 'text', text: 'Four.' },
    ])
    const { text } = await post(served(saying(says), options), PATH, { ...body, stream: true })
    const deltas = eventsOf(text).flatMap(({ type, delta }) => (type === 'content_block_delta' ? [delta as Json] : []))
    expect(deltas.map((delta) => delta.thinking ?? '').join('')).toBe('hm')
    expect(deltas.map((delta) => delta.text ?? '').join('')).toBe('Four.')
  })

  it('reads systems, results of tools and unfinished answers as the template shows them', async () => {
    const engine = scripted()
    const app = served(engine, withTools)
    const messages = [
      USER,
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'Look' },
          { type: 'tool_use', id: 't', name: 'weather', input: {} },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 't', content: [{ type: 'text', text: 'rain' }] },
          { type: 'text', text: 'So?' },
        ],
      },
    ]
    const system = [{ type: 'text', text: 'Be brief.' }]
    expect((await post(app, PATH, { max_tokens: 9, system, messages, tools: [TOOL] })).status).toBe(200)
    const prompt = tokenizer.decode(engine.seen.at(-1)!.prompt, 'keep')
    const between = [USER, { role: 'system', content: [{ type: 'text', text: 'It is Monday.' }] }]
    expect((await post(app, PATH, { max_tokens: 9, messages: between })).status).toBe(200)
    expect(tokenizer.decode(engine.seen.at(-1)!.prompt, 'keep')).toMatch(/user\nhi[\s\S]*system\nIt is Monday\./)
    for (const part of ['system\nBe brief.', 'tool\nrain', 'user\nSo?', '<tool_call>{"name": "weather"'])
      expect(prompt).toContain(part)
    await post(app, PATH, { max_tokens: 9, messages: [USER, { role: 'assistant', content: 'It' }] })
    expect(tokenizer.decode(engine.seen.at(-1)!.prompt, 'keep')).toMatch(/assistant\nIt$/)
  })

  it('that cannot be is refused in the form of Anthropic', async () => {
    const app = served(saying('x'), { access: { apiKeys: ['k'] } })
    const key = { 'x-api-key': 'k' }
    const image = { role: 'user', content: [{ type: 'image', source: {} }] }
    const refused = [
      [await post(app, PATH, { messages: [USER] }, key), 400, 'invalid_request_error', 'max_tokens'],
      [
        await post(app, PATH, { max_tokens: 1, messages: [image] }, key),
        400,
        'invalid_request_error',
        'messages.0.content.0',
      ],
      [await post(app, PATH, { max_tokens: 1, messages: [USER], model: 'dog' }, key), 404, 'not_found_error', 'dog'],
      [await post(app, PATH, { max_tokens: 1, messages: [USER] }), 401, 'authentication_error', 'Unauthorized'],
    ] as const
    for (const [{ status, json }, expected, type, text] of refused) {
      expect([status, json]).toEqual([
        expected,
        { type: 'error', error: { type, message: expect.stringContaining(text) } },
      ])
    }
  })

  it('that is cut has no arguments, and counts its tokens', async () => {
    const cut = await post(served(saying(CALL), withTools), PATH, { max_tokens: 60, messages: [USER], tools: [TOOL] })
    expect(cut.json).toMatchObject({ stop_reason: 'max_tokens', usage: { output_tokens: 60 } })
    const counted = await post(served(saying('x')), `${PATH}/count_tokens`, { messages: [USER] })
    expect(counted.json.input_tokens).toBeGreaterThan(3)
  })
})

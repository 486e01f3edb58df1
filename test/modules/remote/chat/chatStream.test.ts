/** Streamed answers of chat servers: as those without streaming, however a server writes them. */
import type { ServerResponse } from 'node:http'
import { keyFromSeed } from '@tandem-rl/base'
import { History, message, textOf } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { data } from '../../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import { OpenAIWrapper } from '../../../../src/modules/remote/chat/openAIWrapper.js'
import { leftOf, rightOf } from '../../../kit/results.js'
import { startServer, transportTo } from '../../../kit/transports.js'

type Answering = (response: ServerResponse, attempt: number) => void

/** A policy over a server with this answer, which counts the requests. */
const over = async (answer: Answering) => {
  let requests = 0
  const url = await startServer((_, response) => answer(response, requests++))
  const policy = OpenAIWrapper({ model: 'm', baseUrl: `${url}/v1`, transport: transportTo(url) })
  const prompt = TensorDict({ history: { prompt: data([History([message('user', 'hi')])]) } }, [1])
  const texts: string[] = []
  const onText = (_: number, text: string): void => void texts.push(text)
  return {
    streamed: policy.act(prompt, keyFromSeed(1), { onText }),
    whole: policy.act(prompt, keyFromSeed(1)),
    texts,
    requests: () => requests,
  }
}

type Asked = Awaited<ReturnType<typeof over>>['streamed']

const messageOf = async (asked: Asked) => get(await rightOf(asked), 'history', 'response').items.get(0)!

const sends =
  (body: string | Uint8Array, type = 'text/event-stream'): Answering =>
  (response) =>
    void response.writeHead(200, { 'content-type': type }).end(body)

const frame = (delta: object, finish: string | null = null): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}`

/** A stream of these deltas, with a last frame and `[DONE]`. */
const stream = (...deltas: readonly object[]): string =>
  [...deltas.map((delta) => frame(delta)), frame({}, 'stop'), 'data: [DONE]', ''].join('\n\n')

const part = (fields: object, name: string | null, args: string | null): object => ({
  tool_calls: [{ ...fields, function: { ...(name !== null && { name }), ...(args !== null && { arguments: args }) } }],
})

const callsOf = async (body: string) => {
  const { toolCalls, content } = await messageOf((await over(sends(body))).streamed)
  expect(content).toEqual([])
  return toolCalls.map(({ name, arguments: args }) => [name, args])
}

describe('tool calls of a stream', () => {
  it.each(['', null, '{"a": 1}', '{"a"'])('with arguments %j that ran into the limit are malformed', async (args) => {
    const body = [frame(part({ index: 0, id: 'c1' }, 'delete_all', args)), frame({}, 'length'), 'data: [DONE]', '']
    const action = await rightOf((await over(sends(body.join('\n\n')))).streamed)
    expect(get(action, 'history', 'response').items.get(0)!.toolCalls).toEqual([])
    expect(get(action, 'answer').items.get(0)!.malformedCalls).toHaveLength(1)
  })

  it('with arguments as an object keep their numbers, also without streaming', async () => {
    const called = '{"tool_calls":[{"id":"c1","function":{"name":"f","arguments":{"id":2512292042121000001,"f":1.0}}}]}'
    const call = { id: 'c1', name: 'f', arguments: { id: '2512292042121000001', f: 1 } }
    const expected = [{ ...call, written: '{"id":2512292042121000001,"f":1.0}' }]
    const body = [`data: {"choices":[{"index":0,"delta":${called}}]}`, frame({}, 'stop'), 'data: [DONE]', '']
    expect((await messageOf((await over(sends(body.join('\n\n')))).streamed)).toolCalls).toEqual(expected)
    const answer = `{"choices":[{"message":${called},"finish_reason":"tool_calls"}]}`
    expect((await messageOf((await over(sends(answer, 'application/json'))).whole)).toolCalls).toEqual(expected)
  })

  it('with null before the text of their arguments have that text', async () => {
    const body = stream(
      part({ index: 0, id: 'c1' }, 'f', null),
      { tool_calls: [{ index: 0, function: { arguments: null } }] },
      part({ index: 0 }, null, '{"a": 1}'),
    )
    expect(await callsOf(body)).toEqual([['f', { a: 1 }]])
  })

  it.each([
    [
      'whole calls without an index',
      stream(part({ id: 'a1' }, 'f', '{"x":1}'), part({ id: 'a2' }, 'g', '{}')),
      [
        ['f', { x: 1 }],
        ['g', {}],
      ],
    ],
    [
      'calls of one index and two ids',
      stream(part({ index: 0, id: 'a1' }, 'f', '{}'), part({ index: 0, id: 'a2' }, 'f', '{"y":2}')),
      [
        ['f', {}],
        ['f', { y: 2 }],
      ],
    ],
    [
      'whole calls without ids',
      stream(part({}, 'f', '{}'), part({}, 'g', '{}')),
      [
        ['f', {}],
        ['g', {}],
      ],
    ],
    [
      'a name in every part',
      stream(part({ index: 0, id: 'a1' }, 'f', '{"x"'), part({ index: 0, id: 'a1' }, 'f', ':1}')),
      [['f', { x: 1 }]],
    ],
    [
      'a name in every part, and the id in the first',
      stream(part({ index: 0, id: 'a1' }, 'f', ''), part({ index: 0 }, 'f', '{"x":1}'), part({ index: 0 }, 'f', '')),
      [['f', { x: 1 }]],
    ],
    [
      'a name in pieces',
      stream(part({ index: 0, id: 'a' }, 'get_', null), part({ index: 0 }, 'time', '{}')),
      [['get_time', {}]],
    ],
    [
      'arguments as an object',
      stream({ tool_calls: [{ id: 'a', function: { name: 'f', arguments: { x: 1 } } }] }),
      [['f', { x: 1 }]],
    ],
    [
      'the legacy field',
      stream({ function_call: { name: 'f', arguments: '' } }, { function_call: { arguments: '{"x":1}' } }),
      [['f', { x: 1 }]],
    ],
    [
      'both fields',
      stream({ function_call: { name: 'f', arguments: '{}' }, ...part({ index: 0, id: 'a' }, 'f', '{}') }),
      [['f', {}]],
    ],
  ])('are read from %s', async (_, body, expected) => {
    expect(await callsOf(body)).toEqual(expected)
  })

  it('of the legacy field are read without streaming, too', async () => {
    const choice = {
      message: { content: null, function_call: { name: 'f', arguments: '{"x": 1}' } },
      finish_reason: 'function_call',
    }
    const { whole } = await over(sends(JSON.stringify({ choices: [choice] }), 'application/json'))
    const action = await rightOf(whole)
    expect(get(action, 'history', 'response').items.get(0)).toMatchObject({
      toolCalls: [{ name: 'f', arguments: { x: 1 } }],
    })
    expect(get(action, 'answer').items.get(0)!.finish).toBe('tool-calls')
  })
})

const written = fc.record({
  content: fc.array(fc.string({ maxLength: 5, unit: 'grapheme' }), { maxLength: 4 }),
  calls: fc.array(
    fc.record({
      name: fc.constantFrom('f', 'g', 'h'),
      arguments: fc.dictionary(fc.constantFrom('a', 'b'), fc.string()),
    }),
    { maxLength: 3 },
  ),
  /** Indices of calls, and the parts with id and name. */
  indices: fc.constantFrom('own', 'none', 'zero'),
  named: fc.constantFrom('first', 'all'),
  cuts: fc.array(fc.nat(20), { maxLength: 2 }),
  lineEnd: fc.constantFrom('\n', '\r\n', '\r'),
  last: fc.constantFrom(['data: [DONE]', '', ''], ['data: [DONE]', ''], ['data: [DONE]'], ['da'], []),
  bytes: fc.integer({ min: 1, max: 60 }),
})

const piecesOf = (text: string, cuts: readonly number[]): readonly string[] => {
  const places = [0, ...cuts.filter((cut) => cut < text.length).sort((a, b) => a - b), text.length]
  return places.slice(1).map((to, i) => text.slice(places[i], to))
}

describe('a streamed answer', () => {
  it('is the same with all line ends, indices, repeated names, pieces and ends', async () => {
    let body: readonly Uint8Array[] = []
    const { streamed } = await over(async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      for (const piece of body) await new Promise((resolve) => response.write(piece, resolve))
      response.end()
    })
    await fc.assert(
      fc.asyncProperty(written, async ({ content, calls, indices, named, cuts, lineEnd, last, bytes }) => {
        const parts = calls.flatMap(({ name, arguments: args }, i) =>
          piecesOf(JSON.stringify(args), cuts).map((piece, k) => {
            const id = named === 'all' || k === 0 ? { id: `id${i}` } : {}
            const index = indices === 'none' ? {} : { index: indices === 'own' ? i : 0 }
            return part({ ...id, ...index }, named === 'all' || k === 0 ? name : null, piece)
          }),
        )
        const lines = [...content.map((text) => ({ content: text })), ...parts].flatMap((delta) => [frame(delta), ''])
        const text = Buffer.from(
          [...lines, frame({}, 'stop'), ...(last[0] === undefined ? [''] : ['', ...last])].join(lineEnd),
        )
        body = Array.from({ length: Math.ceil(text.length / bytes) }, (_, i) =>
          text.subarray(i * bytes, (i + 1) * bytes),
        )
        const got = await messageOf(streamed)
        expect(textOf(got)).toBe(content.join(''))
        expect(got.toolCalls).toEqual(calls.map((each, i) => ({ id: `id${i}`, ...each })))
        expect(got.isComplete).toBe(true)
      }),
      { numRuns: 60 },
    )
  })

  it.each([
    ['the last frame ends after its line', `${frame({ content: 'four' })}\n\n${frame({}, 'stop')}\n`],
    ['the last frame has no line end', `${frame({ content: 'four' })}\n\n${frame({}, 'stop')}`],
    ['[DONE] has no line end', `${frame({ content: 'four' }, 'stop')}\n\ndata: [DONE]`],
    ['a rest follows the finish reason', `${frame({ content: 'four' }, 'stop')}\n\n{"usage`],
  ])('is whole if %s', async (_, body) => {
    expect(textOf(await messageOf((await over(sends(body))).streamed))).toBe('four')
  })

  it('that ends in the middle of its last frame is cut off', async () => {
    const { streamed } = await over(sends(`${frame({ content: 'four' })}\n\n${frame({}, 'stop').slice(0, -3)}`))
    expect((await leftOf(streamed)).reason).toContain('the stream ends in the middle of an event')
  })

  it('has thoughts as parts of its content, as without streaming', async () => {
    const thinking = (text: string): object => ({ content: [{ type: 'thinking', thinking: [{ type: 'text', text }] }] })
    const body = stream(thinking('Two '), thinking('and two.'), { content: [{ type: 'text', text: '4' }] })
    const { streamed, texts } = await over(sends(body))
    expect(await messageOf(streamed)).toEqual(message('assistant', '4', { reasoning: 'Two and two.' }))
    expect(texts).toEqual(['4'])
  })

  it('may come as JSON, which is not requested again', async () => {
    const choice = { message: { content: 'four', tool_calls: null }, finish_reason: 'stop' }
    const { streamed, texts, requests } = await over(sends(JSON.stringify({ choices: [choice] }), 'application/json'))
    expect(textOf(await messageOf(streamed))).toBe('four')
    expect([texts, requests()]).toEqual([['four'], 1])
  })

  it.each(['text/html', 'application/octet-stream'])('of the type %s fails after one request', async (type) => {
    const { streamed, requests } = await over(sends('<p>', type))
    expect((await leftOf(streamed)).reason).toContain(`answered with ${type} instead of a stream`)
    expect(requests()).toBe(1)
  })
})

describe('an error with status 200', () => {
  it.each([
    ['a message', { error: { message: 'CUDA out of memory' } }, 'infrastructure'],
    ['the code of a wrong request', { error: { message: 'too long', code: 400 } }, 'asked'],
    ['a code as text', { error: { message: 'too long', code: '422' } }, 'asked'],
    ['a text', { error: 'CUDA out of memory' }, 'infrastructure'],
    ['the fields of old vLLM', { object: 'error', message: 'too long', type: 'BadRequestError', code: 400 }, 'asked'],
    [
      'choices beside it',
      { error: { message: 'provider died', code: 502 }, choices: [{ delta: {}, finish_reason: 'error' }] },
      'infrastructure',
    ],
  ])('in a stream is reported with %s', async (_, error, kind) => {
    const { streamed, requests } = await over(
      sends(`${frame({ content: 'a' })}\n\ndata: ${JSON.stringify(error)}\n\ndata: [DONE]\n\n`),
    )
    const failure = await leftOf(streamed)
    expect(failure.kind).toBe(kind)
    expect(failure.reason).toMatch(/CUDA out of memory|too long|provider died/)
    expect(requests()).toBe(1)
  })

  it.each(['streamed', 'whole'] as const)('whose code is 429 is requested again: %s', async (way) => {
    const answers = [
      { error: { message: 'rate limit', code: 429 } },
      { choices: [{ message: { content: 'four' }, finish_reason: 'stop' }] },
    ]
    const asked = await over((response, attempt) =>
      sends(JSON.stringify(answers[attempt]), 'application/json')(response, attempt),
    )
    expect(textOf(await messageOf(asked[way]))).toBe('four')
    expect(asked.requests()).toBe(2)
  })

  it.each(['streamed', 'whole'] as const)(
    'of a request that is refused is the failure of its code: %s',
    async (way) => {
      const asked = await over(
        sends('{"error": {"message": "the prompt is too long", "code": 400}}', 'application/json'),
      )
      const failure = await leftOf(asked[way])
      expect(failure).toMatchObject({ kind: 'asked', cause: { kind: 'status', status: 400 } })
      expect(failure.reason).toContain('the prompt is too long')
      expect(asked.requests()).toBe(1)
    },
  )

  it('without a code, or as the end of a choice, is reported with its message', async () => {
    const plain = await over(sends('{"error": {"message": "no capacity"}}', 'application/json'))
    expect((await leftOf(plain.whole)).reason).toContain('no capacity')
    const choice = { message: { content: '' }, finish_reason: 'error', error: { message: 'provider died', code: 502 } }
    const ended = await over(sends(JSON.stringify({ choices: [choice] }), 'application/json'))
    expect(await leftOf(ended.whole)).toMatchObject({
      kind: 'infrastructure',
      reason: expect.stringContaining('provider died'),
    })
  })
})

it('a byte order mark before JSON or events is skipped', async () => {
  const choice = { message: { content: 'four' }, finish_reason: 'stop' }
  const json = await over(sends(`\ufeff${JSON.stringify({ choices: [choice] })}`, 'application/json'))
  expect(textOf(await messageOf(json.whole))).toBe('four')
  const events = await over(sends(`\ufeff${stream({ content: 'four' })}`))
  expect(textOf(await messageOf(events.streamed))).toBe('four')
})

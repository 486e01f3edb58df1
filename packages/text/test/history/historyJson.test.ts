import { orThrow } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { anyRichHistory } from '../../../../test/kit/historyArbitraries.js'
import { History, message, sameHistory, textOf, toolResult } from '../../src/history/history.js'
import { historyFromJson, historyToJson } from '../../src/history/historyJson.js'
import { historyFromOpenAi, historyToOpenAi } from '../../src/history/openAiChat.js'

const reasonOf = (result: E.Either<{ readonly reason: string }, unknown>): string =>
  E.isLeft(result) ? result.left.reason : `read ${JSON.stringify(result.right)}`

describe('historyToJson and historyFromJson', () => {
  it('what is written is read back equal, through text', () => {
    const law = fc.property(anyRichHistory, (history) => {
      const text = JSON.stringify(historyToJson(history))
      const again = orThrow(historyFromJson(JSON.parse(text)))
      expect(sameHistory(again, history)).toBe(true)
      expect(JSON.stringify(historyToJson(again))).toBe(text)
    })
    fc.assert(law)
  })

  it('reports every problem with its path', () => {
    const bad = [
      { role: 1, content: 'x', toolCalls: [], isComplete: true },
      {
        role: 'user',
        content: [{ type: 'text' }],
        toolCalls: [{ name: 'a', arguments: [] }],
        isComplete: 'yes',
        extra: 1,
      },
    ]
    const reason = reasonOf(historyFromJson(bad))
    for (const path of [
      '0.role',
      '0.content',
      '1.content.0.text',
      '1.toolCalls.0.arguments',
      '1.isComplete',
      'extra',
    ]) {
      expect(reason).toContain(path)
    }
  })

  it('any JSON is a conversation or a failure, never an exception', () => {
    const law = fc.property(fc.jsonValue(), (json) => {
      expect(['Left', 'Right']).toContain(historyFromJson(json)._tag)
      expect(['Left', 'Right']).toContain(historyFromOpenAi(json)._tag)
    })
    fc.assert(law)
  })

  it('keeps a key named __proto__, and the order of the arguments', () => {
    const call = JSON.parse('{"name": "a", "arguments": {"z": 1, "__proto__": {"x": 1}, "b": null}}') as object
    const json = [{ role: 'assistant', content: [], toolCalls: [call], isComplete: true }]
    expect(JSON.stringify(historyToJson(orThrow(historyFromJson(json))))).toBe(JSON.stringify(json))
  })
})

describe('the chat format of OpenAI', () => {
  it('what can be said in it is read back equal; the rest is refused', () => {
    let said = 0
    const law = fc.property(anyRichHistory, (history) => {
      const messages = historyToOpenAi(history)
      if (E.isLeft(messages)) return
      said += 1
      const again = orThrow(historyFromOpenAi(JSON.parse(JSON.stringify(messages.right))))
      expect(sameHistory(again, history)).toBe(true)
    })
    fc.assert(law, { numRuns: 300 })
    expect(said).toBeGreaterThan(30)
  })

  it('a conversation with a tool has the known form', () => {
    const call = { id: 'c1', name: 'add', arguments: { a: 1 } }
    const history = History([
      message('user', [
        { type: 'text', text: 'What?' },
        { type: 'image', source: { base64: 'AAAA', mediaType: 'image/png' } },
      ]),
      message('assistant', [], { toolCalls: [call], reasoning: 'Hm.' }),
      toolResult(call, '2'),
    ])
    expect(historyToOpenAi(history)).toEqual(
      E.right([
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What?' },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
          ],
        },
        {
          role: 'assistant',
          content: null,
          reasoning_content: 'Hm.',
          tool_calls: [{ id: 'c1', type: 'function', function: { name: 'add', arguments: '{"a":1}' } }],
        },
        { role: 'tool', name: 'add', content: '2', tool_call_id: 'c1' },
      ]),
    )
  })

  it('a video and a file have the known form', () => {
    const history = History([
      message('user', [
        { type: 'video', source: { url: 'https://a.b/c.mp4' } },
        { type: 'file', source: { base64: 'AAAA', mediaType: 'application/pdf' }, name: 'a.pdf' },
      ]),
    ])
    const content = [
      { type: 'video_url', video_url: { url: 'https://a.b/c.mp4' } },
      { type: 'file', file: { file_data: 'data:application/pdf;base64,AAAA', filename: 'a.pdf' } },
    ]
    expect(historyToOpenAi(history)).toEqual(E.right([{ role: 'user', content }]))
    expect(sameHistory(orThrow(historyFromOpenAi([{ role: 'user', content }])), history)).toBe(true)
    const other = { type: 'file', source: { base64: 'AAAA', mediaType: 'application/pdf' }, name: 'b.pdf' } as const
    expect(sameHistory(History([message('user', [other])]), history)).toBe(false)
  })

  it('refuses a file by its id on a server, and writes no URL of a file', () => {
    const byId = [{ role: 'user', content: [{ type: 'file', file: { file_id: 'file-1' } }] }]
    expect(reasonOf(historyFromOpenAi(byId))).toContain('0.content')
    const byUrl = History([message('user', [{ type: 'file', source: { url: 'https://a.b/c.pdf' } }])])
    expect(reasonOf(historyToOpenAi(byUrl))).toBe('0.content.0: the format does not allow file URLs')
  })

  it('reads what servers answer, with fields that say nothing', () => {
    const answer = {
      role: 'assistant',
      content: 'Hi',
      refusal: null,
      annotations: [],
      audio: null,
      function_call: null,
      tool_calls: null,
    }
    expect(textOf(orThrow(historyFromOpenAi([answer])).messages.first()!)).toBe('Hi')
  })

  it("reads thinking parts, as Mistral's models write them, as the reasoning of a message", () => {
    const thinking = [
      { type: 'text', text: 'Let me ' },
      { type: 'text', text: 'see.' },
    ]
    const content = [
      { type: 'thinking', thinking, closed: true },
      { type: 'text', text: 'It is 4.' },
    ]
    const [said] = orThrow(historyFromOpenAi([{ role: 'assistant', content }])).messages
    expect(said).toEqual(
      orThrow(
        historyFromOpenAi([
          {
            role: 'assistant',
            content: [{ type: 'text', text: 'It is 4.' }],
            reasoning_content: 'Let me see.',
          },
        ]),
      ).messages.first(),
    )
  })

  it('reads messages of other clients: unknown fields are ignored on every level', () => {
    const known = ['role', 'content', 'name', 'audio', 'refusal', 'reasoning', 'type', 'text', 'url', 'id']
    const extra = fc.dictionary(
      fc.string({ maxLength: 6 }).filter((name) => !known.includes(name) && name !== '__proto__'),
      fc.jsonValue({ maxDepth: 1 }),
      { maxKeys: 2 },
    )
    const named = fc.subarray([
      ['cache_control', { type: 'ephemeral' }],
      ['detail', 'high'],
      ['index', 0],
      ['weight', 1],
      ['provider_specific_fields', { a: [1] }],
    ] as const)
    const widened = (value: unknown, fields: object): unknown =>
      Array.isArray(value)
        ? value.map((each) => widened(each, fields))
        : typeof value === 'object' && value !== null
          ? {
              ...fields,
              ...Object.fromEntries(Object.entries(value).map(([key, each]) => [key, widened(each, fields)])),
            }
          : value
    const law = fc.property(anyRichHistory, extra, named, (history, unknown, agents) => {
      const messages = historyToOpenAi(history)
      if (E.isLeft(messages)) return
      const wide = widened(messages.right, { ...unknown, ...Object.fromEntries(agents) })
      expect(sameHistory(orThrow(historyFromOpenAi(wide)), history)).toBe(true)
    })
    fc.assert(law)
  })

  it('reads arguments as an object, and null or empty text as none', () => {
    const argumentsOf = (args: unknown): unknown => {
      const calls = [{ index: 0, id: 'c1', function: { name: 'a', ...(args !== undefined && { arguments: args }) } }]
      return orThrow(historyFromOpenAi([{ role: 'assistant', tool_calls: calls }])).messages.first()!.toolCalls[0]!
        .arguments
    }
    expect([{ a: 1 }, '{"a": 1}', null, '', undefined].map(argumentsOf)).toEqual([{ a: 1 }, { a: 1 }, {}, {}, {}])
  })

  it('reads the reasoning under both names, a refusal as the text, and a call in the legacy field', () => {
    const first = (fields: object): unknown =>
      orThrow(historyFromOpenAi([{ role: 'assistant', ...fields }])).messages.first()
    expect(first({ content: 'x', reasoning: 'Hm.' })).toEqual(message('assistant', 'x', { reasoning: 'Hm.' }))
    expect(first({ content: null, refusal: 'No.' })).toEqual(message('assistant', 'No.'))
    expect(first({ content: [{ type: 'refusal', refusal: 'No.' }] })).toEqual(message('assistant', 'No.'))
    const called = first({ content: null, function_call: { name: 'a', arguments: '{"b":1}' } })
    expect(called).toEqual(message('assistant', [], { toolCalls: [{ name: 'a', arguments: { b: 1 } }] }))
  })

  it('refuses arguments that are no JSON object, and content that would be lost, each with its path', () => {
    const call = (text: string): object => ({
      role: 'assistant',
      content: null,
      tool_calls: [{ function: { name: 'a', arguments: text } }],
    })
    const reason = reasonOf(
      historyFromOpenAi([call('{"a": '), call('[1]'), { role: 'user', content: 'x', audio: { id: 'a' } }]),
    )
    expect(reason).toMatch(/0\.tool_calls\.0\.function\.arguments: not JSON/)
    expect(reason).toMatch(/1\.tool_calls\.0\.function\.arguments: the arguments are not a JSON object/)
    expect(reason).toMatch(/2\.audio: is not supported and would be lost/)
  })

  it('refuses to write what it cannot say, all of it', () => {
    const history = History([
      message('assistant', 'x', { isComplete: false }),
      message('user', [{ type: 'audio', source: { url: 'https://a.b/c.wav' } }]),
    ])
    expect(reasonOf(historyToOpenAi(history))).toBe(
      '0: the message is incomplete, which the format cannot express; 1.content.0: the format does not allow audio URLs',
    )
  })
})

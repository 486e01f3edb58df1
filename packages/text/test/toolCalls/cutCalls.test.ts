/** Calls that were cut off, and arguments that are not an object, in every format. */

import { callsOfText } from '@tandem-rl/tools'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { cut, joinedDeltas } from '../../../../test/kit/toolCalls.js'
import { message, type ToolCall } from '../../src/history/history.js'
import { messageOfCalls, messageOfText } from '../../src/toolCalls/callMessage.js'
import { deepSeekTag, TOOL_CALL_FORMATS, type ToolCallFormat } from '../../src/toolCalls/format.js'
import type { WrittenCall } from '../../src/toolCalls/machine.js'
import { readToolCalls, toolCallReader } from '../../src/toolCalls/reader.js'
import { writeToolCalls } from '../../src/toolCalls/write.js'

const value = fc.oneof(
  fc.constantFrom('}', '"}}', '</tool_call>', '```', ']', ')', 'x', ''),
  fc.integer(),
  fc.constantFrom<unknown>(null, true, [], {}, { a: [{ b: '}' }] }),
)

const call: fc.Arbitrary<ToolCall> = fc.record({
  name: fc.constantFrom('delete_all', 'send_mail'),
  arguments: fc.dictionary(fc.stringMatching(/^[a-z]{1,3}$/), value, { maxKeys: 2, noNullPrototype: true }),
})

const calls = fc.array(call, { minLength: 1, maxLength: 3 })

/** Schemas, so that the values of `qwen3_coder` are read as they were written. */
const tools = ['delete_all', 'send_mail'].map((name) => ({ type: 'function', function: { name } }))

const written = (list: readonly ToolCall[], format: ToolCallFormat): string => {
  const result = writeToolCalls(list, format)
  if (E.isLeft(result)) throw new Error(result.left.reason)
  return result.right
}

const whole = (list: readonly WrittenCall[]): readonly WrittenCall[] =>
  list.filter(({ problem }) => problem === undefined)

describe('a call that was cut off', () => {
  it.each(TOOL_CALL_FORMATS)('%s: no strict prefix of a call is run, whole or in pieces', (format) => {
    fc.assert(
      fc.property(calls, fc.array(fc.nat(), { maxLength: 4 }), fc.boolean(), (list, cuts, isComplete) => {
        const text = written(list, format)
        const all = readToolCalls(text, format, { tools }).calls
        expect(whole(all)).toHaveLength(list.length)
        for (let end = 0; end < text.length; end++) {
          const prefix = text.slice(0, end)
          const read = readToolCalls(prefix, format, { tools, isComplete })
          const run = whole(read.calls)
          expect(run.length).toBeLessThan(list.length)
          expect(run).toEqual(all.slice(0, run.length))
          const pieces = cut(
            prefix,
            cuts.map((each) => each % (end + 1)),
          )
          expect(joinedDeltas(toolCallReader(format, { tools }), pieces, isComplete)).toEqual(read)
        }
      }),
      { numRuns: 8 },
    )
  })

  it.each(TOOL_CALL_FORMATS)('%s: is malformed, and no plain text', (format) => {
    const list = [{ name: 'delete_all', arguments: { a: 'b' } }]
    const text = written(list, format)
    for (let end = text.indexOf('delete_all') + 1; end <= text.length; end++) {
      const reply = message('assistant', text.slice(0, end), { isComplete: false })
      const { calls: run, malformed } = callsOfText(format, { tools })(reply, undefined)
      expect([run, malformed.length]).toEqual([[], 1])
      const read = messageOfText(text.slice(0, end), { format, tools }, { isComplete: false })
      expect(read.message.toolCalls).toEqual([])
      expect(read.malformedCalls).toHaveLength(1)
    }
  })

  it.each(TOOL_CALL_FORMATS)('%s: a call that has ended is run, unless an incomplete reply ends with it', (format) => {
    const text = written([{ name: 'delete_all', arguments: { a: 'b' } }], format)
    const read = (isComplete: boolean) =>
      callsOfText(format, { tools })(message('assistant', text, { isComplete }), undefined)
    expect(read(true)).toMatchObject({ calls: [{ name: 'delete_all', arguments: { a: 'b' } }], malformed: [] })
    expect(read(false)).toMatchObject({ calls: [], malformed: [expect.stringContaining('cut off')] })
  })

  it('keeps the calls before it', () => {
    const text = '[TOOL_CALLS][{"name": "a", "arguments": {}}, {"name": "delete_all"'
    const { message: read, malformedCalls } = messageOfText(text, { format: 'mistral' }, { isComplete: false })
    expect(read.toolCalls).toEqual([{ name: 'a', arguments: {} }])
    expect(malformedCalls).toEqual(["the call of 'delete_all': the text ends before the call does"])
  })

  it('is the last one of an incomplete message with calls of its own', () => {
    const call = { name: 'delete_all', arguments: '' }
    const { message: read, malformedCalls } = messageOfCalls('', [call], { isComplete: false })
    expect([read.toolCalls, malformedCalls]).toEqual([[], ["the call of 'delete_all': the reply was cut off here"]])
    expect(messageOfCalls('', [call], { isComplete: true }).message.toolCalls).toHaveLength(1)
    expect(messageOfCalls('', [call, call], { isComplete: false }).message.toolCalls).toHaveLength(1)
  })

  it('before a text that was cut off is run', () => {
    const text = '<tool_call>{"name": "f", "arguments": {}}</tool_call> And th'
    expect(messageOfText(text, { format: 'hermes' }, { isComplete: false }).message.toolCalls).toHaveLength(1)
  })
})

/** A call of each format that writes arguments as JSON. */
const withArguments: Readonly<Partial<Record<ToolCallFormat, (args: string) => string>>> = {
  hermes: (args) => `<tool_call>{"name": "f", "arguments": ${args}}</tool_call>`,
  llama3_json: (args) => `{"name": "f", "parameters": ${args}}`,
  mistral: (args) => `[TOOL_CALLS][{"name": "f", "arguments": ${args}}]`,
  deepseek_v31: (args) =>
    `${deepSeekTag('tool calls begin')}${deepSeekTag('tool call begin')}f${deepSeekTag('tool sep')}${args}${deepSeekTag('tool call end')}${deepSeekTag('tool calls end')}`,
  granite: (args) => `<|tool_call|>[{"name": "f", "arguments": ${args}}]`,
  phi4_mini_json: (args) => `functools[{"arguments": ${args}, "name": "f"}]`,
  internlm: (args) => `<|action_start|><|plugin|>{"name": "f", "parameters": ${args}}<|action_end|>`,
  cohere_command3: (args) => `<|START_ACTION|>[{"parameters": ${args}, "tool_name": "f"}]<|END_ACTION|>`,
  xml_block: (args) => `<tool name="f">${args}</tool>`,
  json_block: (args) => `\`\`\`json\n{"arguments": ${args}, "name": "f"}\n\`\`\``,
  json_call: (args) => `{"message": "", "tools": [{"tool": "f", "args": ${args}}]}`,
}

describe('arguments that are not an object', () => {
  const formats = Object.entries(withArguments)

  it.each(formats)('%s: are malformed, and leave no text', (format, write) => {
    for (const args of ['[1]', '5', '-1.5e3', 'true', '"x"', '""', 'null', '"{\\"x\\": 5}"']) {
      const { text, calls: found } = readToolCalls(write(args), format as ToolCallFormat) // a key of the table
      expect([args, text, found.map(({ problem }) => typeof problem)]).toEqual([args, '', ['string']])
    }
    expect(readToolCalls(write('{"x": 5}'), format as ToolCallFormat).calls).toEqual([
      { name: 'f', arguments: '{"x": 5}' },
    ])
  })
})

describe('data that looks like a call', () => {
  it.each(['llama3_json', 'json_block'] as const)(
    '%s: is text without arguments and without a tool of its name',
    (format) => {
      const wrap = (json: string): string => (format === 'json_block' ? `\`\`\`json\n${json}\n\`\`\`` : json)
      const data = wrap('{"name": "Alice", "age": 30}')
      expect(readToolCalls(data, format)).toEqual({ text: data, calls: [] })
      expect(readToolCalls(data, format, { tools })).toEqual({ text: data, calls: [] })
      const now = wrap('{"name": "send_mail"}')
      expect(readToolCalls(now, format, { tools }).calls).toEqual([{ name: 'send_mail', arguments: '{}' }])
      expect(readToolCalls(wrap('{"name": "Alice", "parameters": {}}'), format, { tools }).calls).toHaveLength(1)
      expect(readToolCalls(wrap('{"name": "Alice", "arguments": 5}'), format).calls).toMatchObject([
        { problem: expect.any(String) },
      ])
    },
  )
})

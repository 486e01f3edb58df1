/** Texts that want to crash, to stall or to hide something. */
import { describe, expect, it } from 'vitest'
import { messageOfCalls } from '../../src/toolCalls/callMessage.js'
import { deepSeekTag, TOOL_CALL_FORMATS } from '../../src/toolCalls/format.js'
import { readToolCalls, toolCallReader } from '../../src/toolCalls/reader.js'

const OPENERS = [
  ...[
    '<tool_call>',
    '<tool_call>{"name": "f", "arguments": ',
    '<|python_tag|>{"name": "f", "parameters": ',
    '[f(a=',
    '<|python_start|>[f(a=',
  ],
  ...[
    '[TOOL_CALLS][{"name": "f", "arguments": ',
    '[TOOL_CALLS]f[ARGS]',
    '<tool_call>\n<function=f>\n<parameter=a>\n',
    '<tool name="f">',
  ],
  ...[
    `${deepSeekTag('tool calls begin')}${deepSeekTag('tool call begin')}function${deepSeekTag('tool sep')}f\n\`\`\`json\n`,
  ],
  ...[
    '<|tool_call|>[',
    'functools[',
    '<|action_start|><|plugin|>',
    '<|START_ACTION|>[',
    '```json\n',
    '{"tools": [{"tool": "f", "args": ',
  ],
]

const N = 3_000
/** Text after an opener that has no end. */
const FLOODS = [
  '{',
  '[',
  '{"a":',
  '[[{"a":',
  '"',
  "'",
  '\\',
  ' ',
  '\n',
  '<',
  '```',
  '((',
  '"a',
  'x',
  '-',
  '9',
  '\ud800',
  '</tool',
  '"a": "',
].map((each) => each.repeat(N / each.length))

describe('a hostile text', () => {
  it.each(TOOL_CALL_FORMATS)('%s: is read in time, whatever opener is flooded with whatever', (format) => {
    for (const opener of OPENERS) {
      for (const flood of FLOODS) {
        if (
          opener !== '' &&
          toolCallReader(format)
            .push(opener)
            .deltas.some(({ _tag }) => _tag === 'Text')
        )
          continue // not this format's
        const { text, calls } = readToolCalls(opener + flood, format)
        expect(calls.length).toBeLessThanOrEqual(1)
        if (calls.length === 0) expect(text.length).toBe(opener.length + flood.length)
      }
    }
  })

  it.each(TOOL_CALL_FORMATS)('%s: is read in time, if an opener comes again and again', (format) => {
    for (const opener of OPENERS) {
      const many = opener.repeat(Math.ceil(N / opener.length))
      const { text, calls } = readToolCalls(many, format)
      if (calls.length === 0) expect(text).toBe(many)
    }
  })

  it('a hundred thousand brackets are no call that has arguments', () => {
    for (const bracket of ['{"a":', '[']) {
      const { calls } = readToolCalls(
        `<tool_call>{"name": "f", "arguments": {"a": ${bracket.repeat(100_000)}`,
        'hermes',
      )
      expect(messageOfCalls('', calls, { isComplete: false }).malformedCalls).toHaveLength(1)
    }
  })

  it('arguments of any depth that came from elsewhere are malformed and no crash', () => {
    const deep = `{"a": ${'['.repeat(100_000)}${']'.repeat(100_000)}}`
    const { message, malformedCalls } = messageOfCalls('', [{ name: 'f', arguments: deep }], { isComplete: true })
    expect(message.toolCalls).toEqual([])
    expect(malformedCalls).toEqual(["the call of 'f': nested more than 128 levels"])
    const { calls } = readToolCalls(`<tool name="f">${deep}</tool>`, 'xml_block')
    expect(messageOfCalls('', calls, { isComplete: true }).malformedCalls).toHaveLength(1)
  })
})

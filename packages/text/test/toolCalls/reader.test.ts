/** Calls of tools in texts that arrive in any pieces. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cut, joinedDeltas } from '../../../../test/kit/toolCalls.js'
import { deepSeekTag, TOOL_CALL_FORMATS, type ToolCallFormat, toolCallFormatOf } from '../../src/toolCalls/format.js'
import { type ReadText, readToolCalls, toolCallReader } from '../../src/toolCalls/reader.js'

const read = (format: ToolCallFormat, text: string): ReadText => {
  const pieces = joinedDeltas(toolCallReader(format), [text])
  expect(readToolCalls(text, format)).toEqual(pieces)
  return pieces
}

/** Pieces that calls are made of, whole, broken and mixed up. */
const fragments = fc.constantFrom(
  ...[
    '<tool_call>',
    '</tool_call>',
    '<tool_',
    '<',
    '\n',
    ' ',
    ';',
    '<|python_tag|>',
    '{',
    '}',
    '"name": "f"',
    ', ',
    '"',
  ],
  ...[
    '"arguments": {"a": [1, "}"]}',
    '"parameters": {}',
    '"arguments": "x"',
    'text',
    '\\u00e9',
    '{"name": "g", "arguments": {}}',
  ],
  ...[
    '{"arguments": {"x": 1}, "name": "h"}',
    '{"name": "k"}',
    'true',
    '-1e5',
    '[',
    ']',
    ':',
    '{"name": "", "arguments": {}}',
  ],
  ...['<|python_start|>', '<|python_end|>', 'f(', 'a=', ')', '(1, 2)', "'it\\'s'", 'None', '""', "'"],
  ...['[TOOL_CALLS]', '[ARGS]', '[CALL_ID]', 'functools', '```json', '```', '<|tool_call|>', '<|/tool_call|>'],
  ...['tool calls begin', 'tool call begin', 'tool sep', 'tool call end', 'tool calls end'].map(deepSeekTag),
  ...['function', '\n```json\n', '\n```', '<|START_ACTION|>', '<|END_ACTION|>', '{"tool_name": "c", "parameters": {}}'],
  ...[
    '<|action_start|>',
    '<|plugin|>',
    '<|action_end|>',
    '<function=f>',
    '<parameter=a>',
    '</parameter>',
    '</function>',
  ],
  ...[
    '<tool name="f">',
    '<tool name="f" tag="t">',
    '</tool>',
    '{"tool": "f", "args": {}}',
    '"message": "m"',
    '"tools": ',
  ],
)

const texts = fc.array(fragments, { maxLength: 14 }).map((parts) => parts.join(''))

/** A text and two ways to cut it. */
const cutTexts = texts.chain((text) =>
  fc.record({ text: fc.constant(text), cuts: fc.array(fc.nat({ max: text.length }), { maxLength: 8 }) }),
)

/** A JSON answer with a message and no call has only the text of its message. */
const isMessage = (text: string, format: ToolCallFormat): boolean =>
  format === 'json_call' && /^\s*\{.*"(?:message|tools)".*\}/s.test(text)

describe('reading calls', () => {
  it.each(TOOL_CALL_FORMATS)('%s: however a text is cut, the reading is the same', (format) => {
    fc.assert(
      fc.property(cutTexts, ({ text, cuts }) => {
        const whole = read(format, text)
        expect(joinedDeltas(toolCallReader(format), cut(text, cuts))).toEqual(whole)
        expect(joinedDeltas(toolCallReader(format), text.split(''))).toEqual(whole)
      }),
      { numRuns: 80 },
    )
  })

  it.each(TOOL_CALL_FORMATS)('%s: a text without calls stays as it is', (format) => {
    fc.assert(
      fc.property(fc.oneof(texts, fc.string()), (text) => {
        const reading = read(format, text)
        if (reading.calls.length === 0 && !isMessage(text, format)) expect(reading.text).toBe(text)
      }),
      { numRuns: 80 },
    )
  })

  it('llama3_json: one call, several calls, a tag before, other keys', () => {
    expect(read('llama3_json', '{"name": "f", "parameters": {"x": 1}}')).toEqual({
      text: '',
      calls: [{ name: 'f', arguments: '{"x": 1}' }],
    })
    const several =
      '<|python_tag|>{"type": "function", "name": "f", "parameters": {}}; {"name": "g", "arguments": {"a": "}"}}'
    expect(read('llama3_json', several).calls).toEqual([
      { name: 'f', arguments: '{}' },
      { name: 'g', arguments: '{"a": "}"}' },
    ])
  })

  it('emits a call when something follows it or the text ends', () => {
    const start = toolCallReader('hermes').push(
      'Look:\n<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</',
    )
    expect(start.deltas).toEqual([{ _tag: 'Text', text: 'Look:\n' }])
    const call = { _tag: 'Call', call: { name: 'weather', arguments: '{"city": "Oslo"}' } }
    const closed = start.reader.push('tool_call>')
    expect(closed.deltas).toEqual([])
    expect(closed.reader.end({ isComplete: true })).toEqual([call])
    expect(closed.reader.push('\n<tool_call>\n{').deltas).toEqual([call])
    expect(closed.reader.push(' So').deltas).toEqual([call, { _tag: 'Text', text: ' So' }])
  })

  it.each([
    ['a tag without JSON', '<tool_call>hello</tool_call>'],
    ['half a tag', 'a <tool_ca'],
    ['a tag at the end', 'a <tool_call>'],
  ])('hermes: %s stays text', (_, text) => {
    expect(read('hermes', text)).toEqual({ text, calls: [] })
  })

  it.each([
    ['an answer in JSON', '{"answer": 5}'],
    ['an answer in words', 'The name is {"name": "f"}'],
    ['a JSON list', '[1, 2]'],
  ])('llama3_json: %s stays text', (_, text) => {
    expect(read('llama3_json', text)).toEqual({ text, calls: [] })
  })

  it('hermes: a broken tag does not hide the call after it', () => {
    const text = '<tool_call><tool_call>{"name": "f", "arguments": {}}</tool_call>'
    expect(read('hermes', text)).toEqual({ text: '<tool_call>', calls: [{ name: 'f', arguments: '{}' }] })
  })

  it('hermes: a malformed call ends with its closing tag, and hides neither text nor calls after it', () => {
    const good = '<tool_call>{"name": "g", "arguments": {}}</tool_call>'
    const { text, calls } = read('hermes', `A <tool_call>{"name": "f", "arguments": {"a": oops}</tool_call> B ${good}`)
    expect(text).toBe('A  B ')
    expect(calls).toEqual([
      { name: 'f', arguments: '{"a": oops}', problem: expect.any(String) },
      { name: 'g', arguments: '{}' },
    ])
    expect(read('hermes', `<tool_call>{"name": ${good}`).calls.map(({ name }) => name)).toEqual(['', 'g'])
    expect(read('hermes', `<tool_call>{"name": "f", "arguments": {}} ${good}`).calls).toEqual([
      { name: 'f', arguments: '{}', problem: expect.any(String) },
      { name: 'g', arguments: '{}' },
    ])
  })

  it('a call without arguments has none', () => {
    expect(read('hermes', '<tool_call>{"name": "now"}</tool_call>').calls).toEqual([{ name: 'now', arguments: '{}' }])
  })
})

describe('toolCallFormatOf', () => {
  it('detects the format from the template', () => {
    expect(toolCallFormatOf({ source: '{{ "<tool_call>" }}' })).toBe('hermes')
    expect(toolCallFormatOf({ source: '{% if tools %}{{ \'{"name": name, "parameters": x}\' }}{% endif %}' })).toBe(
      'llama3_json',
    )
    expect(toolCallFormatOf({ source: '{{ messages }}' })).toBe('none')
  })
})

describe('arguments of qwen3_coder', () => {
  it.each([
    ['float', '0.5', 0.5],
    ['double', '1e3', 1000],
    ['int', '3', 3],
    ['int64', '3', 3],
    ['bool', 'True', true],
    ['dict', '{"a": [1]}', { a: [1] }],
    ['Dict[str, int]', '{"a": 1}', { a: 1 }],
    ['list[int]', '[1, 2]', [1, 2]],
    ['tuple', '[1]', [1]],
    ['NoneType', 'None', null],
    ['str', '3', '3'],
    ['interval', '3', '3'],
    [['float', 'null'], '2', 2],
  ])('have the type that a schema names %s', (type, text, value) => {
    const tools = [{ type: 'function', function: { name: 'f', parameters: { properties: { a: { type } } } } }]
    const written = `<tool_call>\n<function=f>\n<parameter=a>\n${text}\n</parameter>\n</function>\n</tool_call>`
    const { calls } = readToolCalls(written, 'qwen3_coder', { tools })
    expect(calls.map(({ arguments: args }) => JSON.parse(args))).toEqual([{ a: value }])
  })
})

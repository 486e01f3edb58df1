/** Calls of tools in texts that arrive in any pieces. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ToolDelta } from '../../../src/data/toolCalls/callObject.js'
import { type ToolCallFormat, toolCallFormatOf } from '../../../src/data/toolCalls/format.js'
import { readToolCalls, toolCallReader } from '../../../src/data/toolCalls/reader.js'

/** What all deltas together say. */
interface Reading {
  readonly text: string
  readonly calls: readonly { readonly name: string; readonly arguments: string }[]
}

const summed = (deltas: readonly ToolDelta[]): Reading => {
  const calls: { name: string; arguments: string }[] = []
  let text = ''
  for (const delta of deltas) {
    if (delta._tag === 'Text') text += delta.text
    else if (delta._tag === 'Call') {
      expect(delta.index).toBe(calls.length)
      calls.push({ name: delta.name, arguments: '' })
    } else calls[delta.index]!.arguments += delta.text
  }
  return { text, calls }
}

const readPieces = (format: ToolCallFormat, pieces: readonly string[]): Reading => {
  let reader = toolCallReader(format)
  const deltas: ToolDelta[] = []
  for (const piece of pieces) {
    const step = reader.push(piece)
    deltas.push(...step.deltas)
    reader = step.reader
  }
  return summed([...deltas, ...reader.end()])
}

const read = (format: ToolCallFormat, text: string): Reading => {
  const pieces = readPieces(format, [text])
  expect(readToolCalls(text, format)).toEqual(pieces)
  return pieces
}

const FORMATS: readonly ToolCallFormat[] = ['hermes', 'llama3_json']

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
)

const texts = fc.array(fragments, { maxLength: 14 }).map((parts) => parts.join(''))

/** A text and two ways to cut it. */
const cutTexts = texts.chain((text) =>
  fc.record({ text: fc.constant(text), cuts: fc.array(fc.nat({ max: text.length }), { maxLength: 8 }) }),
)

const cut = (text: string, cuts: readonly number[]): readonly string[] => {
  const places = [0, ...[...cuts].sort((a, b) => a - b), text.length]
  return places.slice(1).map((end, i) => text.slice(places[i], end))
}

describe('reading calls', () => {
  it.each(FORMATS)('%s: however a text is cut, the reading is the same', (format) => {
    fc.assert(
      fc.property(cutTexts, ({ text, cuts }) => {
        expect(readPieces(format, cut(text, cuts))).toEqual(read(format, text))
        expect(readPieces(format, [...text])).toEqual(read(format, text))
      }),
      { numRuns: 500 },
    )
  })

  it.each(FORMATS)('%s: a text without calls stays as it is', (format) => {
    fc.assert(
      fc.property(fc.oneof(texts, fc.string()), (text) => {
        const reading = read(format, text)
        if (reading.calls.length === 0) expect(reading.text).toBe(text)
      }),
      { numRuns: 500 },
    )
  })

  it('hermes: calls that were written are read back, with the text before them', () => {
    const call = fc.record({
      name: fc.string({ minLength: 1 }),
      arguments: fc.dictionary(fc.string(), fc.jsonValue() as fc.Arbitrary<unknown>),
    })
    const prose = fc.string().filter((text) => !text.includes('<'))
    fc.assert(
      fc.property(prose, fc.array(call, { minLength: 1, maxLength: 3 }), (before, calls) => {
        const written = calls.map((each) => `<tool_call>\n${JSON.stringify(each)}\n</tool_call>`).join('\n')
        const reading = read('hermes', before + written)
        expect(reading.text).toBe(before)
        expect(reading.calls).toEqual(
          calls.map((each) => ({ name: each.name, arguments: JSON.stringify(each.arguments) })),
        )
      }),
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

  it('tells the name before the arguments, and arguments as they come', () => {
    const first = toolCallReader('hermes').push('Look:\n<tool_call>\n{"name": "weather", "arguments": {"ci')
    expect(first.deltas).toEqual([
      { _tag: 'Text', text: 'Look:\n' },
      { _tag: 'Call', index: 0, name: 'weather' },
      { _tag: 'Arguments', index: 0, text: '{"ci' },
    ])
    const second = first.reader.push('ty": "Oslo"}}\n</tool_')
    expect(second.deltas).toEqual([{ _tag: 'Arguments', index: 0, text: 'ty": "Oslo"}' }])
    expect(second.reader.push('call>').reader.end()).toEqual([])
  })

  it.each([
    ['a tag without JSON', '<tool_call>hello</tool_call>'],
    ['JSON without a name', '<tool_call>{"arguments": {}}</tool_call>'],
    ['arguments that are no object', '<tool_call>{"arguments": "x", "name": "f"}</tool_call>'],
    ['an empty name', '<tool_call>{"name": "", "arguments": {}}</tool_call>'],
    ['a tag that is not closed', '<tool_call>{"na'],
    ['half a tag', 'a <tool_ca'],
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

  it('hermes: what breaks off after the name keeps its call, and the rest is text', () => {
    expect(read('hermes', '<tool_call>{"name": "f", "arguments": {"a": oops}</tool_call>')).toEqual({
      text: '}</tool_call>',
      calls: [{ name: 'f', arguments: '{"a": oops' }],
    })
  })

  it('a call without arguments has none', () => {
    expect(read('hermes', '<tool_call>{"name": "now"}</tool_call>').calls).toEqual([{ name: 'now', arguments: '{}' }])
  })
})

describe('toolCallFormatOf', () => {
  it('tells the format from what the template says', () => {
    expect(toolCallFormatOf('{{ "<tool_call>" }}')).toBe('hermes')
    expect(toolCallFormatOf('{% if tools %}{{ \'{"name": name, "parameters": x}\' }}{% endif %}')).toBe('llama3_json')
    expect(toolCallFormatOf('{{ messages }}')).toBe('none')
  })
})

/** Calls that are written and read back. */
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { cut, joinedDeltas } from '../../../../test/kit/toolCalls.js'
import type { ToolCall } from '../../src/history/history.js'
import { deepSeekTag, TOOL_CALL_FORMATS, type ToolCallFormat } from '../../src/toolCalls/format.js'
import { type ReadText, readToolCalls, toolCallReader } from '../../src/toolCalls/reader.js'
import { writeToolCalls } from '../../src/toolCalls/write.js'

/** Markers that strings in arguments may imitate. */
const TAGS = [
  ...[
    '<tool_call>',
    '</tool_call>',
    '<|python_tag|>',
    '[TOOL_CALLS]',
    '[ARGS]',
    '<|tool_call|>',
    'functools[',
    '```',
    '\n```json\n',
  ],
  ...[
    '<function=f>',
    '<parameter=a>',
    '</function>',
    '<|START_ACTION|>',
    '<|END_ACTION|>',
    '<|action_end|>',
    '<tool name="f">',
    '</tool>',
  ],
  ...['tool calls begin', 'tool sep', 'tool call end', 'tool calls end'].map(deepSeekTag),
  ...[
    '{',
    '}',
    '[',
    ']',
    '"',
    "'",
    '\\',
    '"""',
    ')',
    '\n',
    '\u2028',
    '\u{1f600}',
    'h\u00e9',
    '\0',
    '</',
    '\ud83d',
    '\ude00x',
  ],
]

const text = fc
  .array(fc.oneof(fc.constantFrom(...TAGS), fc.string({ maxLength: 4 }), fc.string({ unit: 'binary', maxLength: 3 })), {
    maxLength: 4,
  })
  .map((parts) => parts.join(''))

const number = fc.oneof(
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.constantFrom(-0, 1e300, 5e-324),
)

const { value } = fc.letrec<{ readonly value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.oneof(text, number, fc.boolean(), fc.constant(null)),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(text, tie('value'), { maxKeys: 3, noNullPrototype: true }),
  ),
}))

const identifier = fc.stringMatching(/^[a-z_][a-zA-Z0-9_]{0,6}$/)
/** Names that every format can write. */
const call: fc.Arbitrary<ToolCall> = fc.record({
  name: identifier,
  arguments: fc.dictionary(identifier, value, { maxKeys: 4, noNullPrototype: true }),
})

const typeOf = (each: unknown): string => (each === null ? 'null' : Array.isArray(each) ? 'array' : typeof each)

/** Schemas that say of each argument what it is; names of tools are made different for it. */
const toolsOf = (calls: readonly ToolCall[]): readonly object[] =>
  calls.map(({ name, arguments: args }) => ({
    type: 'function',
    function: {
      name,
      parameters: {
        properties: Object.fromEntries(Object.entries(args).map(([key, each]) => [key, { type: typeOf(each) }])),
      },
    },
  }))

/** The calls, each of another tool; for Qwen's text without the strings that it cannot hold. */
const calls = (format: ToolCallFormat): fc.Arbitrary<readonly ToolCall[]> =>
  fc
    .array(call, { minLength: 1, maxLength: 3 })
    .map((list) => list.map((each, i) => ({ ...each, name: `${each.name}${i}` })))
    .filter((list) => E.isRight(writeToolCalls(list, format)))

const values = ({ calls: read }: ReadText): readonly unknown[] =>
  read.map(({ name, arguments: args }) => ({ name, arguments: JSON.parse(args) as unknown }))

const written = (list: readonly ToolCall[], format: ToolCallFormat): string => {
  const result = writeToolCalls(list, format)
  if (E.isLeft(result)) throw new Error(result.left.reason)
  return result.right
}

describe('calls that were written', () => {
  it.each(TOOL_CALL_FORMATS)('%s: are read back equal, with no text, in one piece and in any others', (format) => {
    fc.assert(
      fc.property(calls(format), fc.array(fc.nat(), { maxLength: 5 }), (list, cuts) => {
        const tools = toolsOf(list)
        const all = written(list, format)
        const read = readToolCalls(all, format, { tools })
        expect(values(read)).toEqual(list)
        expect(read.text).toBe('')
        const pieces = cut(
          all,
          cuts.map((each) => each % (all.length + 1)),
        )
        expect(joinedDeltas(toolCallReader(format, { tools }), pieces)).toEqual(read)
      }),
      { numRuns: 25 },
    )
  })

  it.each([
    'hermes',
    'mistral',
    'deepseek_v3',
    'qwen3_coder',
    'granite',
    'cohere_command3',
    'xml_block',
    'json_block',
  ] as const)('%s: text before and after them stays text', (format) => {
    const list: readonly ToolCall[] = [{ name: 'f', arguments: { a: '}' } }]
    const all = `Let me see.\n${written(list, format)}\nDone < [now]`
    const read = readToolCalls(all, format)
    expect(values(read)).toEqual(list)
    expect(read.text).toBe('Let me see.\n\nDone < [now]')
  })

  it.each([
    'hermes',
    'llama3_json',
    'mistral',
    'granite',
    'phi4_mini_json',
    'internlm',
    'cohere_command3',
    'json_block',
    'json_call',
  ] as const)('%s: every name can be written', (format) => {
    fc.assert(
      fc.property(
        text.filter((name) => name !== ''),
        (name) => {
          expect(values(readToolCalls(written([{ name, arguments: {} }], format), format))).toEqual([
            { name, arguments: {} },
          ])
        },
      ),
      { numRuns: 20 },
    )
  })

  it.each([
    ['mistral', { id: 'abcdefghi', name: 'f', arguments: {} }],
    ['xml_block', { id: 'first', name: 'f', arguments: {} }],
    ['json_call', { id: 'first "one"', name: 'f', arguments: {} }],
  ] as const)('%s: an id is written and read', (format, each) => {
    expect(readToolCalls(written([each], format), format).calls[0]?.id).toBe(each.id)
  })
})

describe('what cannot be written', () => {
  it.each<readonly [ToolCallFormat, ToolCall, string]>([
    ['hermes', { name: '', arguments: {} }, 'a call has no name'],
    [
      'pythonic',
      { name: 'get-it', arguments: { 'a b': 1 } },
      '"get-it" cannot be written as a name; "a b" cannot be written as a name',
    ],
    ['deepseek_v3', { name: 'a\nb', arguments: {} }, '"a\\nb" cannot be written as a name'],
    ['xml_block', { id: 'a"b', name: 'f', arguments: {} }, '"a\\"b" cannot be written as a name'],
    ['qwen3_coder', { name: 'f', arguments: { a: 'x</parameter>' } }, "the text of 'a' would end its own tag"],
    ['hermes', { name: 'f', arguments: { a: Number.NaN } }, 'NaN is not a JSON number'],
    ['mistral', { name: 'f', arguments: { a: undefined } }, 'a undefined is not a JSON value'],
  ])('%s: %j is refused', (format, each, reason) => {
    expect(writeToolCalls([each], format)).toEqual(E.left({ _tag: 'FormatFailure', format, reason }))
  })

  it('arguments may have 120 levels and no more, and are read back so', () => {
    const nested = (levels: number): ToolCall => {
      let inner: unknown = 1
      for (let i = 1; i < levels; i++) inner = [inner]
      return { name: 'f', arguments: { a: inner } }
    }
    for (const format of TOOL_CALL_FORMATS) {
      const tools = toolsOf([nested(120)])
      expect(values(readToolCalls(written([nested(120)], format), format, { tools }))).toEqual([nested(120)])
      expect(E.isLeft(writeToolCalls([nested(100_000)], format))).toBe(true)
    }
  })

  it('no call is no text', () => {
    for (const format of TOOL_CALL_FORMATS) expect(writeToolCalls([], format)).toEqual(E.right(''))
  })
})

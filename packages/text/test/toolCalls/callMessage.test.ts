/** Ids of calls, and the types of their arguments. */
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { History, message } from '../../src/history/history.js'
import { callIds, callsInText } from '../../src/toolCalls/callMessage.js'
import { deepSeekTag, hasSpecialTags, TOOL_CALL_FORMATS, toolCallFormatOf } from '../../src/toolCalls/format.js'
import { readToolCalls } from '../../src/toolCalls/reader.js'
import { writeToolCalls } from '../../src/toolCalls/write.js'

const idsOf = (...given: Parameters<typeof callsInText>): readonly (string | undefined)[] =>
  callsInText(...given).calls.map(({ id }) => id)

const mistral = (...ids: readonly string[]): string =>
  `[TOOL_CALLS][${ids.map((id) => `{"name": "f", "arguments": {}, "id": "${id}"}`).join(', ')}]`

describe('the id of a call', () => {
  it('is what the text says, unless another call has it or the template would refuse it', () => {
    const text = mistral('abcdefghi', 'abcdefghi', 'short', 'taken0000')
    expect(idsOf(text, { format: 'mistral', index: 3, taken: new Set(['taken0000']) })).toEqual([
      ...['abcdefghi', '000030001', '000030002', '000030003'],
    ])
    const tagged = '<tool name="f" tag="A">{}</tool><tool name="f">{}</tool><tool name="f" tag="A">{}</tool>'
    expect(idsOf(tagged, { format: 'xml_block', index: 1 })).toEqual(['A', 'call_1_1', 'call_1_2'])
  })

  it('is told by a conversation', () => {
    const call = (id?: string) => ({ ...(id !== undefined && { id }), name: 'f', arguments: {} })
    const history = History([
      message('user', 'x'),
      message('assistant', '', { toolCalls: [call('a'), call(), call('b')] }),
    ])
    expect([...callIds(history)]).toEqual(['a', 'b'])
  })
})

describe('an argument without a type in its text', () => {
  const $defs = {
    P: { type: 'object' },
    L: { type: 'integer' },
    C: { $ref: '#/$defs/P' },
    E: { enum: [1, 2] },
    R: { anyOf: [{ $ref: '#/$defs/R' }] },
    'a/b': { type: 'integer' },
  }
  const text = (value: string): string =>
    `<tool_call><function=f><parameter=a>${value}</parameter></function></tool_call>`
  const read = (value: string, schema: object): unknown => {
    const parameters = { properties: { a: schema }, $defs, definitions: { D: { type: 'integer' } } }
    const tools = [{ type: 'function', function: { name: 'f', parameters } }]
    return (JSON.parse(readToolCalls(text(value), 'qwen3_coder', { tools }).calls[0]!.arguments) as { a: unknown }).a // one argument
  }

  it.each([
    ['5', { type: 'integer' }, 5],
    ['5.5', { type: 'integer' }, '5.5'],
    ['1e3', { type: 'number' }, 1000],
    ['True', { type: 'boolean' }, true],
    ['None', { type: ['string', 'null'] }, null],
    [' {"b": [1]} ', { anyOf: [{ type: 'object' }, { type: 'null' }] }, { b: [1] }],
    ['{} {}', { type: 'object' }, '{} {}'],
    ['[1,', { type: 'array' }, '[1,'],
    [`${'['.repeat(200)}${']'.repeat(200)}`, { type: 'array' }, `${'['.repeat(200)}${']'.repeat(200)}`],
    ['2', { enum: [1, 2] }, 2],
    ['2', { const: '2' }, '2'],
    ['2', { oneOf: [{ type: 'string' }, { type: 'integer' }] }, 2],
    ['007', { type: 'integer' }, '007'],
    ["{'x': True, 'y': [None]}", { type: 'object' }, { x: true, y: [null] }],
    ["['a', None]", { type: 'array' }, ['a', null]],
    ['(1, 2)', { type: 'array' }, [1, 2]],
    ["{'x': f()}", { type: 'object' }, "{'x': f()}"],
    ['{"x": 1}', { properties: { x: {} } }, { x: 1 }],
    ['[1]', { items: {} }, [1]],
    ['5', { allOf: [{ type: 'integer' }, { minimum: 1 }] }, 5],
    ['5', { anyOf: [{ oneOf: [{ type: 'null' }, { type: 'integer' }] }] }, 5],
    ['{"x": 1}', { $ref: '#/$defs/P' }, { x: 1 }],
    ['5', { $ref: '#/$defs/L' }, 5],
    ['{"x": 1}', { $ref: '#/$defs/C' }, { x: 1 }],
    ['{"x": 1}', { anyOf: [{ $ref: '#/$defs/P' }, { type: 'null' }] }, { x: 1 }],
    ['{"x": 1}', { allOf: [{ $ref: '#/$defs/P' }] }, { x: 1 }],
    ['2', { $ref: '#/$defs/E' }, 2],
    ['2', { $ref: '#/$defs/a~1b' }, 2],
    ['2', { $ref: '#/definitions/D' }, 2],
    ['2', { $ref: 'L' }, 2],
    ['2', { $ref: '#/$defs/R' }, '2'],
    ['2', { $ref: '#/$defs/none' }, '2'],
    ['2', {}, '2'],
    ['2', { type: 'string' }, '2'],
  ])('%s of %j is %j', (value, schema, expected) => {
    expect(read(value, schema)).toEqual(expected)
  })

  it('is a string where a schema is nested without end', () => {
    let schema: object = { type: 'integer' }
    for (let i = 0; i < 20_000; i++) schema = { anyOf: [schema] }
    expect(read('2', schema)).toBe('2')
  })

  it.each([[[]], [[{}]], [[{ name: 'f' }]], [[{ name: 'f', parameters: { properties: null } }]]])(
    'is a string without a schema: %j',
    (tools) => {
      expect(readToolCalls(text('5'), 'qwen3_coder', { tools }).calls[0]?.arguments).toBe('{"a": "5"}')
    },
  )
})

describe('the format', () => {
  it.each([
    [`${deepSeekTag('tool call begin')} ... \`\`\`json`, 'deepseek_v3'],
    [deepSeekTag('tool call begin'), 'deepseek_v31'],
    ['[TOOL_CALLS] [', 'mistral'],
    ['<tool_call>\n<function=a>\n<parameter=b>', 'qwen3_coder'],
    ['<|START_ACTION|>[', 'cohere_command3'],
    ['<|action_start|><|plugin|>', 'internlm'],
    ['functools[', 'phi4_mini_json'],
    ['<|tool_call|>', 'granite'],
    ['[func_name1(params_name1=params_value1)]', 'pythonic'],
    ['<|header_start|>[func_name1(param1=value1)]', 'llama4_pythonic'],
    ['<|python_start|>', 'llama3_json'],
    ['<tool name="x">', 'xml_block'],
    ['<tool_call>{name}\n<arg_key>', 'none'],
  ] as const)('of %s is %s', (source, format) => {
    expect(toolCallFormatOf({ source })).toBe(format)
  })

  it('has tags that a tokenizer may hold for special tokens, or none', () => {
    const all = { has: () => true }
    expect(TOOL_CALL_FORMATS.filter((format) => !hasSpecialTags(format, all))).toEqual([
      ...['llama3_json', 'pythonic', 'phi4_mini_json', 'xml_block', 'json_block', 'json_call'],
    ])
    expect(hasSpecialTags('hermes', new Map([['<|im_end|>', 1]]))).toBe(false)
  })
})

describe('a parameter of qwen3_coder without its closing tag', () => {
  const properties = { s: { type: 'string' }, n: { type: 'integer' } }
  const tools = [{ type: 'function', function: { name: 'f', parameters: { properties } } }]
  const read = (body: string) =>
    readToolCalls(`<tool_call>\n<function=f>\n${body}</function>\n</tool_call>`, 'qwen3_coder', { tools }).calls

  it('ends before the next parameter of its tool', () => {
    const [call] = read('<parameter=s>\nabc\n<parameter=n>\n5\n</parameter>\n')
    expect(call).toEqual({ name: 'f', arguments: '{"s": "abc", "n": 5}' })
    expect(read('<parameter=n>\n<parameter=s>\nx</parameter>\n')[0]?.arguments).toBe('{"n": "", "s": "x"}')
  })

  it.each([
    ['before a parameter of another tool', '<parameter=s>\nabc\n<parameter=zz>\n5\n</parameter>\n'],
    ['before the end of the function', '<parameter=s>\nabc\n'],
  ])('is malformed %s', (_, body) => {
    expect(read(body)).toMatchObject([{ name: 'f', problem: expect.any(String) }])
  })

  it('has text that is no such tag on a line of its own', () => {
    for (const text of ['a <parameter=n> b', '\n<parameter={n}>', '<parameter=\n</parameter', 'x </function>', '<'])
      expect(JSON.parse(read(`<parameter=s>\n${text}\n</parameter>\n`)[0]!.arguments)).toEqual({ s: text })
  })

  it('is not written', () => {
    for (const s of ['a\n<parameter=n>', '</function>', 'x</parameter>'])
      expect(E.isLeft(writeToolCalls([{ name: 'f', arguments: { s } }], 'qwen3_coder'))).toBe(true)
  })
})

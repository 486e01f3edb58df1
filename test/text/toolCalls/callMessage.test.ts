/** Ids of calls, and the types of their arguments. */
import { describe, expect, it } from 'vitest'
import { History, message } from '../../../src/text/history/history.js'
import { callIds, callsInText } from '../../../src/text/toolCalls/callMessage.js'
import { deepSeekTag, hasSpecialTags, TOOL_CALL_FORMATS, toolCallFormatOf } from '../../../src/text/toolCalls/format.js'
import { readToolCalls } from '../../../src/text/toolCalls/reader.js'

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
  const text = (value: string): string =>
    `<tool_call><function=f><parameter=a>${value}</parameter></function></tool_call>`
  const read = (value: string, schema: object): unknown => {
    const tools = [{ type: 'function', function: { name: 'f', parameters: { properties: { a: schema } } } }]
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
    ['2', {}, '2'],
    ['2', { type: 'string' }, '2'],
  ])('%s of %j is %j', (value, schema, expected) => {
    expect(read(value, schema)).toEqual(expected)
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
    expect(toolCallFormatOf(source)).toBe(format)
  })

  it('has tags that a tokenizer may hold for special tokens, or none', () => {
    const all = { has: () => true }
    expect(TOOL_CALL_FORMATS.filter((format) => !hasSpecialTags(format, all))).toEqual([
      ...['llama3_json', 'pythonic', 'phi4_mini_json', 'xml_block', 'json_block', 'json_call'],
    ])
    expect(hasSpecialTags('hermes', new Map([['<|im_end|>', 1]]))).toBe(false)
  })
})

/** Numbers in arguments keep their spelling where they are shown or passed on. */
import { orThrow } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { argumentsText, exactArguments, type ReadArguments, readArguments } from '../../src/history/argumentText.js'
import { History, message } from '../../src/history/history.js'
import { historyFromJson, historyToJson } from '../../src/history/historyJson.js'
import { historyFromOpenAi, historyToOpenAi } from '../../src/history/openAiChat.js'
import { chatTemplate, renderText } from '../../src/template/chatTemplate.js'
import { messageOfText } from '../../src/toolCalls/callMessage.js'
import { TOOL_CALL_FORMATS } from '../../src/toolCalls/format.js'
import { writeToolCalls } from '../../src/toolCalls/write.js'

const readOf = (text: string): ReadArguments => {
  const read = readArguments(text)
  if (E.isLeft(read)) throw new Error(read.left)
  return read.right
}

const callIn = (args: string) => ({
  role: 'assistant',
  content: null,
  tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: args } }],
})

const template = orThrow(
  chatTemplate(
    '{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }} {% for k, v in c.function.arguments | items %}{{ k }}={{ v }} {% endfor %}{% endfor %}{% endfor %}',
  ),
)

const rendered = (args: string): string =>
  orThrow(renderText(template, orThrow(historyFromOpenAi([callIn(args)])), { generationPrompt: 'omit' }))

const digits = fc.stringMatching(/^[1-9]\d{0,24}$/)

/** A number of JSON in any spelling within float64. */
const number = fc
  .tuple(
    fc.constantFrom('', '-'),
    fc.oneof(fc.constant('0'), digits),
    fc.constantFrom('', '.0', '.50', '.25'),
    fc.constantFrom('', 'e2', 'E-3', 'e+0'),
  )
  .map((parts) => parts.join(''))

const value: fc.Arbitrary<string> = fc.letrec<{ json: string }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 3 },
    number,
    fc.string({ maxLength: 4 }).map((text) => JSON.stringify(text)),
    fc.constantFrom('null', 'true', '{}', '[]'),
    fc.array(tie('json'), { maxLength: 3 }).map((items) => `[${items.join(',')}]`),
    fc.tuple(tie('json'), tie('json')).map(([a, b]) => `{"2":${a},"1":${b},"x y":0}`),
  ),
})).json

const object = fc.tuple(value, value).map(([a, b]) => `{"b":${a},"10":${b}}`)

describe('arguments', () => {
  it.each([
    ['{"f": 1.0}', '{"f":1.0}', '{"f": 1.0} f=1.0 '],
    [
      '{"id": 2512292042121000001}',
      '{"id":2512292042121000001}',
      '{"id": 2512292042121000001} id=2512292042121000001 ',
    ],
    ['{"z": -0.0}', '{"z":-0.0}', '{"z": -0.0} z=-0.0 '],
    ['{"z": 1e3, "a": [1.50]}', '{"z":1e3,"a":[1.50]}', '{"z": 1000.0, "a": [1.5]} z=1000.0 a=[1.5] '],
    ['{"b": 1, "2": 2, "1": 3}', '{"b":1,"2":2,"1":3}', '{"b": 1, "2": 2, "1": 3} b=1 2=2 1=3 '],
  ])('as %j are passed on as written, and rendered as Python prints them', (given, written, shown) => {
    const history = orThrow(historyFromOpenAi([callIn(given)]))
    expect(argumentsText(history.messages.first()!.toolCalls[0]!)).toBe(written)
    expect(orThrow(historyToOpenAi(history))[0]).toMatchObject({
      tool_calls: [{ function: { arguments: written } }],
    })
    expect(rendered(given)).toBe(shown)
    expect(orThrow(historyFromJson(historyToJson(history)))).toEqual(history)
  })

  it.each(TOOL_CALL_FORMATS)('%s: are written and read with the numbers of their text', (format) => {
    const read = readOf('{"f": 1.0, "id": 2512292042121000001, "z": -0.0}')
    const text = orThrow(writeToolCalls([{ name: 'f', ...read }], format))
    expect(text).toContain('2512292042121000001')
    const schema = { f: { type: 'number' }, id: { type: 'integer' }, z: { type: 'number' } }
    const tools = [{ type: 'function', function: { name: 'f', parameters: { properties: schema } } }]
    const { message: said } = messageOfText(text, { format, tools }, { isComplete: true })
    expect(said.toolCalls.map(argumentsText)).toEqual(['{"f":1.0,"id":2512292042121000001,"z":-0.0}'])
  })

  it('have integers beyond 2^53 as text, never as another integer', () => {
    const { arguments: args } = readOf('{"id": 2512292042121000001, "n": 9007199254740993, "m": 7}')
    expect(args).toEqual({ id: '2512292042121000001', n: '9007199254740993', m: 7 })
  })

  it('that are changed after they were read are written anew', () => {
    const call = { name: 'f', ...readOf('{"f": 1.0}') }
    expect(exactArguments({ ...call, arguments: { f: 2 } })).toEqual({ f: 2 })
    expect(argumentsText({ ...call, arguments: { f: 2 } })).toBe('{"f":2}')
  })

  it('are refused with the number that is too large', () => {
    expect(readArguments('{"x": 1e400}')).toMatchObject({
      left: expect.stringContaining('the number 1e400 is too large'),
    })
    const { malformedCalls } = messageOfText(
      '<tool_call>{"name": "f", "arguments": {"x": 1e400}}</tool_call>',
      { format: 'hermes' },
      { isComplete: true },
    )
    expect(malformedCalls[0]).toContain('the number 1e400 is too large')
    const long = `{"x": ${'9'.repeat(5000)}}`
    expect(readArguments(long)).toMatchObject({ left: expect.stringContaining('is too large') })
    expect(readArguments('[1]')).toEqual(E.left('the arguments are not a JSON object'))
  })

  it('keep every number, key order and text', () => {
    fc.assert(
      fc.property(object, (text) => {
        const read = readOf(text)
        const once = argumentsText({ name: 'f', ...read })
        expect(once).toBe(text)
        expect(readOf(once)).toEqual(read)
        const history = History([message('assistant', [], { toolCalls: [{ name: 'f', ...read }] })])
        expect(orThrow(historyFromOpenAi(orThrow(historyToOpenAi(history))))).toEqual(history)
      }),
    )
  })
})

/** Arguments that requests and answers have as objects keep their numbers. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { writtenArguments } from '../../src/history/writtenArguments.js'

const value = fc.letrec<{ json: unknown }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom<unknown>(1, 'a"}', '"input": {', null, '\\', 1.5),
    fc.array(tie('json'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('input', 'arguments', 'messages', 'a'), tie('json'), { maxKeys: 3 }),
  ),
})).json

/** Reads arguments that were written as text. */
const restored = (key: string, item: unknown): unknown =>
  (key === 'input' || key === 'arguments') && typeof item === 'string' && item.startsWith('{') && item.includes('.')
    ? (JSON.parse(item) as unknown)
    : item

describe('the arguments of calls in JSON', () => {
  it('become text if their numbers have another spelling', () => {
    const call = '{"messages": [{"tool_calls": [{"function": {"arguments": {"f": 1.0, "g": {"input": {}}}}}]}]}'
    expect(writtenArguments(call)).toBe(
      '{"messages": [{"tool_calls": [{"function": {"arguments": "{\\"f\\": 1.0, \\"g\\": {\\"input\\": {}}}"}}]}]}',
    )
    const block = '{ "messages" : [{"content": [{"input" : {"id": 2512292042121000001}}]}], "x": 1.0}'
    expect(JSON.parse(writtenArguments(block))).toEqual({
      messages: [{ content: [{ input: '{"id": 2512292042121000001}' }] }],
      x: 1,
    })
  })

  it.each([
    ['whole numbers', '{"messages": [{"input": {"a": 1}}], "temperature": 0.5}'],
    ['schemas of tools', '{"messages": [], "tools": [{"properties": {"input": {"default": 1.0}}}]}'],
    ['text of messages', '{"messages": [{"content": "\\"input\\": {1.0}"}]}'],
    ['arguments as text', '{"messages": [{"arguments": "{\\"f\\": 1.0}"}]}'],
    ['text that is not JSON', '{"messages": [{"input": {"f": 1'],
  ])('leave %s unchanged', (_, text) => {
    expect(writtenArguments(text)).toBe(text)
  })

  it('have the values that they had', () => {
    fc.assert(
      fc.property(value, value, (messages, other) => {
        const text = JSON.stringify({ messages, other })
        expect(JSON.parse(writtenArguments(text), restored)).toEqual(JSON.parse(text, restored))
      }),
    )
  })

  it('are found in linear time', () => {
    const timeOf = (size: number): number => {
      const start = performance.now()
      writtenArguments(`{"messages": [${'{"input": {"f": 1.0}},'.repeat(size)}"input" : {`)
      writtenArguments(`{"messages": [${'{"input": {'.repeat(size)} 1.0`)
      return performance.now() - start
    }
    timeOf(5000)
    expect(timeOf(80_000)).toBeLessThan(16 * Math.max(5, timeOf(20_000)))
  })
})

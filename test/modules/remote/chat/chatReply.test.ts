/** Server responses with content other than text. */
import { requireRight } from '@tandem-rl/testing'
import { textOf } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { chatReply, turnsOf } from '../../../../src/modules/remote/chat/chatReply.js'

const read = (message: object) => chatReply({ choices: [{ message, finish_reason: 'stop' }] })

const turnOf = (message: object) => {
  const reply = read(message)
  expect(E.isRight(reply)).toBe(true)
  if (E.isLeft(reply)) throw new Error(reply.left.reason)
  const turns = turnsOf(reply.right, { calls: 'native', index: 0 })
  if (E.isLeft(turns)) throw new Error(turns.left.reason)
  return turns.right[0]!.message
}

const text = (words: string) => ({ type: 'text', text: words })

describe('a call at the end of a reply', () => {
  const call = (args: unknown) => ({ id: 'c1', type: 'function', function: { name: 'delete_all', arguments: args } })

  const readAs = (finish_reason: string, calls: readonly object[]) => {
    const reply = chatReply({ choices: [{ message: { content: null, tool_calls: calls }, finish_reason }] })
    if (E.isLeft(reply)) throw new Error(reply.left.reason)
    const turns = turnsOf(reply.right, { calls: 'native', index: 0 })
    if (E.isLeft(turns)) throw new Error(turns.left.reason)
    const { message, answer } = turns.right[0]!
    return { calls: message.toolCalls.map(({ arguments: args }) => args), malformed: answer.malformedCalls.length }
  }

  it.each([
    ...['stop', 'end_turn', 'stop_sequence', 'eos', 'eos_token', 'tool_calls', 'tool_use', 'function_call'].map(
      (name) => [name, true] as const,
    ),
    ...['length', 'content_filter', 'recitation', 'pause_turn', ''].map((name) => [name, false] as const),
  ])('finish reason %j: the answer is complete: %s', (finish_reason, isComplete) => {
    const reply = requireRight(chatReply({ choices: [{ message: { content: 'Hi' }, finish_reason }] }))
    const turns = requireRight(turnsOf(reply, { calls: 'native', index: 0 }))
    expect(turns[0]!.message.isComplete).toBe(isComplete)
  })

  it.each(['length', 'content_filter', 'max_tokens', 'model_length'])(
    'that ended with %s is malformed, and the calls before it are not',
    (finish) => {
      for (const args of ['', null, '{}', '{"a": 1}', '{"a"', {}])
        expect(readAs(finish, [call(args)])).toEqual({ calls: [], malformed: 1 })
      expect(readAs(finish, [call('{"a": 1}'), call('')])).toEqual({ calls: [{ a: 1 }], malformed: 1 })
    },
  )

  it('that is complete is run, with empty arguments as an empty object', () => {
    for (const args of ['', null, '{}', {}])
      expect(readAs('tool_calls', [call(args)])).toEqual({ calls: [{}], malformed: 0 })
    expect(readAs('tool_calls', [call('{"a"')])).toEqual({ calls: [], malformed: 1 })
    expect(readAs('stop', [call('[1]')])).toEqual({ calls: [], malformed: 1 })
  })
})

describe('thinking parts, as Mistral writes them', () => {
  it.each([
    ['parts of text', [text('Let me '), text('see.')]],
    ['a text', 'Let me see.'],
    ['parts of other kinds among them', [text('Let me see.'), { type: 'reference', reference_ids: [1] }]],
  ])('with %s are the reasoning of the message, and no part of its text', (_, thinking) => {
    const message = turnOf({ content: [{ type: 'thinking', thinking }, text('It is '), text('4.')] })
    expect(textOf(message)).toBe('It is 4.')
    expect(JSON.stringify(message)).toContain('Let me see.')
    expect(turnOf({ content: 'It is 4.', reasoning_content: 'Let me see.' })).toEqual(message)
  })

  it('alone leave an empty text', () => {
    expect(textOf(turnOf({ content: [{ type: 'thinking', thinking: 'Hm.', closed: true }] }))).toBe('')
  })

  it('a part that would be lost is a failure still', () => {
    expect(read({ content: [{ type: 'image_url', image_url: 'data:' }] })).toMatchObject({ left: { kind: 'protocol' } })
  })
})

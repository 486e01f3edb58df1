import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  append,
  extend,
  History,
  lastMessage,
  type Message,
  message,
  sameHistory,
  textOf,
  truncate,
} from '../../src/data/history.js'
import { anyHistory, anyMessage } from '../../src/testing/arbitraries.js'

const empty = History([])
const messagesOf = (history: History): readonly Message[] => history.messages.toArray()

describe('message', () => {
  it('is a complete message of one text part without tool calls unless something else is said', () => {
    expect(message('user', 'Hello')).toEqual({
      role: 'user',
      content: [{ type: 'text', text: 'Hello' }],
      toolCalls: [],
      isComplete: true,
    })
    const call = { name: 'add', arguments: { a: 1 } }
    expect(message('assistant', '', { toolCalls: [call], isComplete: false })).toMatchObject({
      toolCalls: [call],
      isComplete: false,
    })
  })

  it('the text is all text parts together', () => {
    const parts = [
      { type: 'text', text: '2 + ' },
      { type: 'text', text: '2' },
    ] as const
    expect(textOf({ ...message('user', ''), content: parts })).toBe('2 + 2')
    expect(textOf({ ...message('user', ''), content: [] })).toBe('')
  })

  it('the text of a message is the text it was made of', () => {
    const law = fc.property(fc.string({ unit: 'binary' }), (text) => {
      expect(textOf(message('user', text))).toBe(text)
    })
    fc.assert(law)
  })
})

describe('append and extend', () => {
  it('append adds one message at the end', () => {
    const law = fc.property(anyHistory, anyMessage, (history, next) => {
      expect(messagesOf(append(history, next))).toEqual([...messagesOf(history), next])
      expect(lastMessage(append(history, next))).toBe(next)
    })
    fc.assert(law)
  })

  it('append is extend by a conversation of one message', () => {
    const law = fc.property(anyHistory, anyMessage, (history, next) => {
      expect(sameHistory(append(history, next), extend(history, History([next])))).toBe(true)
    })
    fc.assert(law)
  })

  it('extend is associative, and the empty conversation is its unit', () => {
    const law = fc.property(anyHistory, anyHistory, anyHistory, (a, b, c) => {
      expect(sameHistory(extend(extend(a, b), c), extend(a, extend(b, c)))).toBe(true)
      expect(sameHistory(extend(a, empty), a)).toBe(true)
      expect(sameHistory(extend(empty, a), a)).toBe(true)
    })
    fc.assert(law)
  })

  it('nothing changes the conversation it is given', () => {
    const law = fc.property(anyHistory, anyMessage, (history, next) => {
      const before = JSON.stringify(history)
      const frozen = Object.freeze({ ...history })
      append(frozen, next)
      extend(frozen, History([next]))
      truncate(frozen, 0)
      expect(JSON.stringify(frozen)).toBe(before)
    })
    fc.assert(law)
  })

  it('two conversations that go on from one beginning share its messages and do not see each other', () => {
    const law = fc.property(anyHistory, anyMessage, anyMessage, (history, left, right) => {
      const [a, b] = [append(history, left), append(history, right)]
      expect(lastMessage(a)).toBe(left)
      expect(lastMessage(b)).toBe(right)
      for (const [i, shared] of history.messages.entries()) {
        expect(a.messages.get(i)).toBe(shared)
        expect(b.messages.get(i)).toBe(shared)
      }
    })
    fc.assert(law)
  })

  it('a later change of the list that a conversation was made from does not reach it', () => {
    const list = [message('user', 'Hello')]
    const history = History(list)
    list.push(message('user', 'more'))
    expect(history.messages.size).toBe(1)
  })
})

describe('truncate', () => {
  it('takes back what was appended', () => {
    const law = fc.property(anyHistory, anyHistory, (a, b) => {
      expect(sameHistory(truncate(extend(a, b), a.messages.size), a)).toBe(true)
    })
    fc.assert(law)
  })

  it('the shorter of two cuts counts', () => {
    const law = fc.property(anyHistory, fc.nat(5), fc.nat(5), (history, m, n) => {
      const [short, long] = [Math.min(m, n), Math.max(m, n)]
      fc.pre(long <= history.messages.size)
      expect(sameHistory(truncate(truncate(history, long), short), truncate(history, short))).toBe(true)
    })
    fc.assert(law)
  })

  it.each([-1, 3, 0.5, Number.NaN])('refuses to keep %d of two messages', (count) => {
    const history = History([message('user', 'a'), message('assistant', 'b')])
    expect(() => truncate(history, count)).toThrow(
      new RangeError(`truncate: ${count} is not between 0 and the 2 messages there are`),
    )
  })
})

describe('lastMessage', () => {
  it('of an empty conversation is undefined', () => {
    expect(lastMessage(empty)).toBeUndefined()
  })
})

describe('sameHistory', () => {
  it('holds for conversations made twice from equal messages, and is symmetric', () => {
    const law = fc.property(anyHistory, anyHistory, (a, b) => {
      const copy = History(messagesOf(a).map((item) => structuredClone(item)))
      expect(sameHistory(a, copy)).toBe(true)
      expect(sameHistory(a, b)).toBe(sameHistory(b, a))
    })
    fc.assert(law)
  })

  const call = { name: 'add', arguments: { a: 1, b: 2 } }
  const base = message('assistant', 'x', { toolCalls: [call] })

  it.each<[string, Message]>([
    ['role', { ...base, role: 'user' }],
    ['text', message('assistant', 'y', { toolCalls: [call] })],
    ['completeness', { ...base, isComplete: false }],
    ['tool calls', { ...base, toolCalls: [] }],
    ['the arguments of a tool call', { ...base, toolCalls: [{ ...call, arguments: { a: 1, b: 3 } }] }],
    ['the id of a tool call', { ...base, toolCalls: [{ ...call, id: '1' }] }],
  ])('sees a difference of %s', (_, other) => {
    expect(sameHistory(History([base]), History([other]))).toBe(false)
  })

  it('the order and the number of messages matter', () => {
    const [a, b] = [message('user', 'a'), message('user', 'b')]
    expect(sameHistory(History([a, b]), History([b, a]))).toBe(false)
    expect(sameHistory(History([a]), History([a, a]))).toBe(false)
  })
})

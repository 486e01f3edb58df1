import { anyHistory, anyMessage } from '@tandem-rl/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { anyRichHistory, anyRichMessage } from '../../../../test/kit/historyArbitraries.js'
import {
  appendMessage,
  continueLast,
  extendHistory,
  History,
  hashHistory,
  lastMessage,
  type Message,
  message,
  replaceLast,
  sameHistory,
  sameMessage,
  textOf,
  toolCallProblems,
  toolResult,
  truncateHistory,
  withSystem,
} from '../../src/history/history.js'

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
      expect(messagesOf(appendMessage(history, next))).toEqual([...messagesOf(history), next])
      expect(lastMessage(appendMessage(history, next))).toBe(next)
    })
    fc.assert(law)
  })

  it('append is extend by a conversation of one message', () => {
    const law = fc.property(anyHistory, anyMessage, (history, next) => {
      expect(sameHistory(appendMessage(history, next), extendHistory(history, History([next])))).toBe(true)
    })
    fc.assert(law)
  })

  it('extend is associative, and the empty conversation is its unit', () => {
    const law = fc.property(anyHistory, anyHistory, anyHistory, (a, b, c) => {
      expect(sameHistory(extendHistory(extendHistory(a, b), c), extendHistory(a, extendHistory(b, c)))).toBe(true)
      expect(sameHistory(extendHistory(a, empty), a)).toBe(true)
      expect(sameHistory(extendHistory(empty, a), a)).toBe(true)
    })
    fc.assert(law)
  })

  it('nothing changes the conversation it is given', () => {
    const law = fc.property(anyHistory, anyMessage, (history, next) => {
      const before = JSON.stringify(history)
      const frozen = Object.freeze({ ...history })
      appendMessage(frozen, next)
      extendHistory(frozen, History([next]))
      truncateHistory(frozen, 0)
      expect(JSON.stringify(frozen)).toBe(before)
    })
    fc.assert(law)
  })

  it('two conversations that go on from one beginning share its messages and do not see each other', () => {
    const law = fc.property(anyHistory, anyMessage, anyMessage, (history, left, right) => {
      const [a, b] = [appendMessage(history, left), appendMessage(history, right)]
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
      expect(sameHistory(truncateHistory(extendHistory(a, b), a.messages.size), a)).toBe(true)
    })
    fc.assert(law)
  })

  it('the shorter of two cuts counts', () => {
    const law = fc.property(anyHistory, fc.nat(5), fc.nat(5), (history, m, n) => {
      const [short, long] = [Math.min(m, n), Math.max(m, n)]
      fc.pre(long <= history.messages.size)
      expect(sameHistory(truncateHistory(truncateHistory(history, long), short), truncateHistory(history, short))).toBe(
        true,
      )
    })
    fc.assert(law)
  })

  it.each([-1, 3, 0.5, Number.NaN])('refuses to keep %d of two messages', (count) => {
    const history = History([message('user', 'a'), message('assistant', 'b')])
    expect(() => truncateHistory(history, count)).toThrow(
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

describe('replaceLast, withSystem, continueLast', () => {
  it('replaceLast is truncate and append', () => {
    const law = fc.property(anyRichHistory, anyRichMessage, (history, last) => {
      fc.pre(history.messages.size > 0)
      const expected = appendMessage(truncateHistory(history, history.messages.size - 1), last)
      expect(sameHistory(replaceLast(history, last), expected)).toBe(true)
      expect(sameHistory(replaceLast(replaceLast(history, message('user', 'x')), last), expected)).toBe(true)
    })
    fc.assert(law)
    expect(() => replaceLast(empty, message('user', 'x'))).toThrow(RangeError)
  })

  it('withSystem puts one system message in front, and a second time replaces it', () => {
    const law = fc.property(anyRichHistory, fc.string(), fc.string(), (history, first, second) => {
      const once = withSystem(history, message('system', second))
      expect(
        sameHistory(withSystem(withSystem(history, message('system', first)), message('system', second)), once),
      ).toBe(true)
      expect(textOf(once.messages.first()!)).toBe(second)
      const hadOne = history.messages.first()?.role === 'system'
      expect(once.messages.size).toBe(history.messages.size + (hadOne ? 0 : 1))
    })
    fc.assert(law)
  })

  it('continueLast adds to the text of an incomplete message; two continuations are one', () => {
    const law = fc.property(anyRichHistory, anyRichMessage, fc.string(), fc.string(), (history, item, a, b) => {
      const open = appendMessage(history, { ...item, isComplete: false })
      const twice = continueLast(continueLast(open, a, { isComplete: false }), b)
      expect(sameHistory(twice, continueLast(open, a + b))).toBe(true)
      expect(textOf(lastMessage(twice)!)).toBe(textOf(item) + a + b)
    })
    fc.assert(law)
  })

  it('a complete message, or none, cannot be continued', () => {
    expect(() => continueLast(empty, 'x')).toThrow('continueLast: the conversation has no message')
    expect(() => continueLast(History([message('user', 'a')]), 'x')).toThrow(
      'continueLast: the last message is complete',
    )
  })
})

describe('sameMessage and hashHistory', () => {
  it('equal conversations have equal hashes, and a changed message is another', () => {
    const law = fc.property(anyRichHistory, anyRichMessage, anyRichMessage, (history, a, b) => {
      const copy = History(messagesOf(history).map((item) => structuredClone(item)))
      expect(hashHistory(copy)).toBe(hashHistory(history))
      expect(sameHistory(appendMessage(history, a), appendMessage(history, b))).toBe(sameMessage(a, b))
    })
    fc.assert(law)
  })

  it.each<[string, Message]>([
    ['thoughts', message('assistant', 'x', { reasoning: '' })],
    ['names', message('assistant', 'x', { name: 'a' })],
    ['ids of calls', message('assistant', 'x', { toolCallId: 'a' })],
    [
      'borders of parts',
      message('assistant', [
        { type: 'text', text: 'x' },
        { type: 'text', text: '' },
      ]),
    ],
    ['images', message('assistant', [{ type: 'image', source: { url: 'x' } }])],
  ])('a difference of %s is seen', (_, other) => {
    expect(sameMessage(message('assistant', 'x'), other)).toBe(false)
  })
})

describe('tool calls and their results', () => {
  const call = { id: 'c1', name: 'add', arguments: { a: 1 } }
  const calling = message('assistant', '', { toolCalls: [call] })

  it('a result names the call and the tool', () => {
    expect(toolResult(call, '2')).toMatchObject({ role: 'tool', toolCallId: 'c1', name: 'add' })
    expect('toolCallId' in toolResult({ name: 'add', arguments: {} }, '2')).toBe(false)
  })

  it('a call and its result have no problem; all that is wrong is told', () => {
    expect(toolCallProblems(History([calling, toolResult(call, '2')]))).toEqual([])
    const strange = toolResult({ ...call, id: 'c2' }, '3')
    expect(
      toolCallProblems(History([calling, toolResult(call, '2'), toolResult(call, '2'), calling, strange])),
    ).toEqual([
      "message 2 answers 'c1' again",
      "message 3: the call of 'add' has the id 'c1' again",
      "message 4 answers 'c2', which no message before it calls",
    ])
  })
})

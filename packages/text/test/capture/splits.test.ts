import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { anySession, callOf, completionOf, sessionOf } from '../../../../test/kit/capturedCalls.js'
import { cpuSeconds, expectLinear } from '../../../../test/kit/scaling.js'
import { sessionTrajectories } from '../../src/capture/trajectories.js'

const say = (role: string, content: string) => ({ role, content })
const said = (ids: readonly number[], text: string) => completionOf(ids, { answer: { text, calls: [] } })

const first = callOf(0, [1, 2], [said([3, 4], 'four')], { messages: [say('user', 'two')] })

const splitsOf = (prompt: readonly number[], messages: readonly object[]) =>
  sessionTrajectories(sessionOf([first, callOf(1, prompt, [said([9], 'nine')], { messages })]), {
    decode: (ids) => ids.join(' '),
  }).splits

describe('a call that does not go on from the tokens before', () => {
  const goesOn = [say('user', 'two'), say('assistant', 'four'), say('user', 'five')]

  it.each([
    ['retokenised', [1, 2, 34, 5], goesOn, { position: 2, expected: 3, got: 34 }],
    ['rerendered', [1, 7, 3, 4, 5], goesOn, { position: 1, expected: 2, got: 7 }],
    [
      'answer-edited',
      [1, 2, 8, 5],
      [say('user', 'two'), say('assistant', 'eight'), say('user', 'five')],
      { position: 2, expected: 3, got: 8 },
    ],
    [
      'history-edited',
      [6, 3, 4, 5],
      [say('user', 'summary'), say('assistant', 'four'), say('user', 'five')],
      { position: 0, expected: 1, got: 6 },
    ],
  ] as const)('is %s', (reason, prompt, messages, place) => {
    expect(splitsOf(prompt, messages)).toMatchObject([
      { call: 1, after: { call: 0, completion: 0 }, reason, ...place, gotText: prompt.slice(place.position).join(' ') },
    ])
  })

  it('has no texts without a decoder, instead of empty ones', () => {
    const second = callOf(1, [1, 2, 34, 5], [said([9], 'nine')], { messages: goesOn })
    const [split] = sessionTrajectories(sessionOf([first, second])).splits
    expect(split).toMatchObject({ expected: 3, got: 34 })
    expect(Object.keys(split!).filter((key) => key.endsWith('Text'))).toEqual([])
  })

  it('is told without messages where it leaves the tokens of an answer', () => {
    const calls = [callOf(0, [1, 2], [[3, 4]]), callOf(1, [1, 2, 3, 5], [[6]])]
    expect(sessionTrajectories(sessionOf(calls)).splits).toMatchObject([
      { call: 1, reason: 'retokenised', position: 3 },
    ])
  })

  it('is told of the deepest call that it should go on from, though it goes on from an earlier one', () => {
    const messages = [say('user', 'two'), say('assistant', 'four'), say('user', 'five')]
    const second = callOf(1, [1, 2, 3, 4, 5], [said([6, 7], 'seven')], { messages })
    const more = [...messages, say('assistant', 'seven'), say('user', 'eight')]
    const third = callOf(2, [1, 2, 3, 4, 5, 67, 8], [said([9], 'nine')], { messages: more })
    const { splits, trajectories } = sessionTrajectories(sessionOf([first, second, third]))
    expect(splits).toMatchObject([
      { call: 2, after: { call: 1 }, reason: 'retokenised', position: 5, expected: 6, got: 67 },
    ])
    expect(trajectories.map(({ turns }) => turns.map(({ call }) => call))).toEqual([[0, 1], [2]])
    expect(trajectories[1]!.shared).toEqual([{ start: 2, end: 4 }])
  })

  it('is no split where it begins another conversation, says the same again, or goes another way', () => {
    expect(splitsOf([1, 8], [say('user', 'eight')])).toEqual([])
    expect(splitsOf([1, 2], [say('user', 'two')])).toEqual([])
    expect(splitsOf([1, 2, 3, 4, 5], goesOn)).toEqual([])
  })

  it('never goes on from the call that it is said to be split from', () => {
    fc.assert(
      fc.property(anySession, (session) => {
        for (const { call, after, position, expected, got } of sessionTrajectories(session).splits) {
          const { prompt, completions } = session.calls[after.call]!
          const full = [...prompt, ...completions[after.completion]!.ids]
          expect(full.slice(0, position)).toEqual([...session.calls[call]!.prompt.slice(0, position)])
          expect([full[position] ?? null, session.calls[call]!.prompt[position] ?? null]).toEqual([expected, got])
          expect(expected).not.toBe(got)
        }
      }),
    )
  })
})

it('splits are found in time that grows as the messages of a conversation that goes on with other tokens', () => {
  const messagesOf = (turns: number) =>
    Array.from({ length: 2 * turns + 1 }, (_, i) => say(i % 2 === 0 ? 'user' : 'assistant', 'x'))
  const chain = (count: number) =>
    sessionOf(
      Array.from({ length: count }, (_, i) => callOf(i, [i + 1], [said([0], 'x')], { messages: messagesOf(i) })),
    )
  expectLinear((count) => {
    const session = chain(count)
    return cpuSeconds(() => sessionTrajectories(session)) / count // a message is in every later call
  }, 60)
})

/** Data sets of agents: AgentFly's JSON list, and what is wrong with bad rows. */

import { inputTasks } from '@tandem-rl/agents'
import { orThrow } from '@tandem-rl/base'
import { textOf } from '@tandem-rl/text'
import { describe, expect, it } from 'vitest'
import { AGENT_ROWS, agentTask } from '../../../src/data/datasets/agentRows.js'

const user = (content: string) => [{ role: 'user', content }]

describe('a row of an agent', () => {
  it.each(['prompt', 'question', 'instruction', 'problem', 'query'])('has its question in %s', (column) => {
    const task = orThrow(toFailure(agentTask({ [column]: 'Hi?', answer: 4, level: 'easy' }, 'a')))
    expect(task).toMatchObject({ id: 'a', query: 'Hi?', answer: '4', row: { level: 'easy' } })
    expect(task.messages?.map(textOf)).toEqual(['Hi?'])
  })

  it('has images as parts of its question', () => {
    const task = orThrow(
      toFailure(agentTask({ question: 'What?', image: 'https://a.test/b.png', images: ['aGk='] }, 'a')),
    )
    expect(task.messages?.[0]?.content).toEqual([
      { type: 'text', text: 'What?' },
      { type: 'image', source: { url: 'https://a.test/b.png' } },
      { type: 'image', source: { base64: 'aGk=', mediaType: 'image/png' } },
    ])
  })

  it('has messages with parts, also in the form of AgentFly', () => {
    const content = [
      { type: 'text', text: 'What?' },
      { type: 'image', image: 'https://a.test/b.png' },
    ]
    const task = orThrow(toFailure(agentTask({ messages: [{ role: 'user', content }] }, 'a')))
    expect(task.messages?.[0]?.content[1]).toEqual({ type: 'image', source: { url: 'https://a.test/b.png' } })
    expect(task.query).toBe('What?')
  })

  it('is refused with the reason', () => {
    const reason = (row: unknown) => AGENT_ROWS.schema.safeParse(row).error?.issues[0]?.message
    expect(reason({ text: 'a' })).toBe(
      'expected messages or one of prompt, question, instruction, problem, query; the row has text',
    )
    expect(reason({ question: ' ' })).toBe('question must be a text that is not empty, got string')
    expect(reason({ question: 'a', image: 3 })).toBe('image must be an address or base64, got number')
    expect(reason({ messages: [] })).toBe('messages must be a list of messages')
    expect(reason({ messages: [{ role: 7, content: 'a' }] })).toContain('role')
  })
})

describe('messages', () => {
  it('come in four shapes', () => {
    const queries = (input: Parameters<typeof inputTasks>[0]) => orThrow(inputTasks(input)).map(({ query }) => query)
    expect(queries(user('a'))).toEqual(['a'])
    expect(queries([user('a'), user('b')])).toEqual(['a', 'b'])
    expect(queries({ messages: user('a'), level: 1 })).toEqual(['a'])
    expect(queries([{ messages: user('a') }, { question: 'b' }])).toEqual(['a', 'b'])
  })
})

/** `agentTask` tells a reason; tests want it as a failure. */
function toFailure<T>(
  result: { readonly _tag: 'Left'; readonly left: string } | { readonly _tag: 'Right'; readonly right: T },
) {
  return result._tag === 'Right' ? result : ({ _tag: 'Left', left: { _tag: 'Row', reason: result.left } } as const)
}

/** Rows of conversations and of preference pairs: what is wrong with those of another form. */
import { parseJsonLines } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { CONVERSATION_ROW, PREFERENCE_ROW } from '../../../src/data/datasets/conversationRows.js'

const CHAT = { messages: [{ role: 'user', content: 'a' }] }
const PAIR = { prompt: 'a', chosen: 'b', rejected: 'c' }

const reasonOf = (schema: typeof CONVERSATION_ROW | typeof PREFERENCE_ROW, row: unknown): string => {
  const read = parseJsonLines<unknown>(JSON.stringify(row), { schema, source: 'rows.jsonl' })
  return E.isLeft(read) ? read.left.reason : 'accepted'
}

describe('rows of another form', () => {
  it('are refused with what is expected and what they have', () => {
    const answers = 'expected a text, or messages whose last one is the answer'
    expect(reasonOf(PREFERENCE_ROW, PAIR)).toBe('accepted')
    expect(reasonOf(PREFERENCE_ROW, CHAT)).toBe(
      `prompt: expected a text or messages; chosen: ${answers}; rejected: ${answers}; the row has messages`,
    )
    expect(reasonOf(CONVERSATION_ROW, PAIR)).toMatch(/^messages: .*; the row has prompt, chosen, rejected$/)
  })

  it('name few fields, without control characters, and none if no field is missing', () => {
    const wide = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`\u001b${i}`, i]))
    expect(reasonOf(CONVERSATION_ROW, wide)).toMatch(/the row has .*, \.\.\.$/)
    expect(reasonOf(CONVERSATION_ROW, wide)).not.toContain('\u001b')
    expect(reasonOf(CONVERSATION_ROW, { messages: 3, other: 1 })).not.toContain('the row has')
    expect(reasonOf(CONVERSATION_ROW, [])).not.toContain('the row has')
  })
})

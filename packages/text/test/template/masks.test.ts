import { orThrow } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { anyConversation } from '../../../../test/kit/historyArbitraries.js'
import { ownTemplate } from '../../../../test/kit/ownTemplates.js'
import { History, message, textOf } from '../../src/history/history.js'
import { type ChatTemplate, chatTemplate } from '../../src/template/chatTemplate.js'
import { type AssistantTextOptions, assistantText, hasGenerationTags, tokenMask } from '../../src/template/masks.js'

const written = (
  template: ChatTemplate,
  history: History,
  options: Omit<AssistantTextOptions, 'generationPrompt'>,
): readonly string[] => {
  const { text, ranges } = orThrow(assistantText(template, history, { ...options, generationPrompt: 'omit' }))
  return ranges.map(({ start, end }) => text.slice(start, end))
}

const chat = History([message('user', 'a'), message('assistant', 'b'), message('user', 'c'), message('assistant', 'd')])

describe('assistantText', () => {
  it('from tags and from spans are equal where the tags say what the policy samples', () => {
    const law = fc.property(
      anyConversation({ tools: 'some' }),
      fc.constantFrom('chatml', 'hermes'),
      (history, name) => {
        const template = ownTemplate(name)
        expect(written(template, history, { from: 'spans', endOfTurn: '<|im_end|>' })).toEqual(
          written(template, history, { from: 'tags' }),
        )
      },
    )
    fc.assert(law)
  })

  it('holds every answer with the end of its turn, and nothing else', () => {
    const law = fc.property(anyConversation(), (history) => {
      const answers = history.messages.filter(({ role }) => role === 'assistant').map(textOf)
      expect(written(ownTemplate('chatml'), history, { from: 'tags' })).toEqual(
        answers.map((text) => `${text}<|im_end|>`).toArray(),
      )
    })
    fc.assert(law)
  })

  it('without an end of turn the range goes to the end of the message', () => {
    expect(written(ownTemplate('chatml'), chat, { from: 'spans' })).toEqual(['b<|im_end|>\n', 'd<|im_end|>\n'])
  })

  it('needs tags if it is asked to use them', () => {
    expect(hasGenerationTags(ownTemplate('inst'))).toBe(false)
    expect(assistantText(ownTemplate('inst'), chat, { from: 'tags', generationPrompt: 'omit' })).toMatchObject({
      left: { reason: 'the chat template has no generation blocks' },
    })
  })

  it('refuses tags in a macro, whose position in the text is unknown', () => {
    const source =
      '{% macro show(m) %}>{% generation %}{{ m.content }}{% endgeneration %}{% endmacro %}{% for m in messages %}{{ show(m) }}{% endfor %}'
    const result = assistantText(orThrow(chatTemplate(source)), chat, { from: 'tags', generationPrompt: 'omit' })
    expect(result).toMatchObject({ left: { reason: expect.stringContaining('inside a macro') } })
  })

  // As GLM's: the token that ends a turn is the role of the next message.
  const roles = orThrow(
    chatTemplate(
      '[gMASK]<sop>{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}',
    ),
  )

  it('holds an end of turn that begins the next message', () => {
    const open = History([...chat.messages.pop(), message('assistant', 'd', { isComplete: false })])
    expect(written(roles, open, { from: 'spans', endOfTurn: '<|user|>' })).toEqual(['b<|user|>', 'd'])
    const closed = History([...chat.messages, message('user', 'e')])
    expect(written(roles, closed, { from: 'spans', endOfTurn: '<|user|>' })).toEqual(['b<|user|>', 'd<|user|>'])
  })

  it('refuses a complete answer without its end of turn, which a policy would never learn to write', () => {
    const refusalOf = (template: ChatTemplate, history: History, mode: 'omit' | 'continue' = 'omit') => {
      const found = assistantText(template, history, { from: 'spans', endOfTurn: '<|user|>', generationPrompt: mode })
      return E.isLeft(found) ? found.left.reason : undefined
    }
    expect(refusalOf(roles, chat)).toMatch(/^message 3 has no end of turn '<\|user\|>' .* or omit endOfTurn$/)
    expect(refusalOf(ownTemplate('chatml'), chat)).toMatch(/^message 1 has no end of turn/)
    expect(refusalOf(roles, chat, 'continue')).toBeUndefined()
  })

  it('does not take a text that an author wrote for the end of the turn', () => {
    const quoting = History([message('user', 'a'), message('assistant', 'ends with <|user|>, not here')])
    const options = { from: 'spans', endOfTurn: '<|user|>', generationPrompt: 'omit' } as const
    expect(E.isLeft(assistantText(roles, quoting, options))).toBe(true)
  })

  it('refuses spans whose answers do not begin with the generation prompt', () => {
    const source =
      '{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<think>{% endif %}'
    const result = assistantText(orThrow(chatTemplate(source)), chat, { from: 'spans', generationPrompt: 'omit' })
    expect(E.isLeft(result) && result.left.reason).toMatch(/message 1 does not begin with the generation prompt/)
  })
})

describe('tokenMask', () => {
  it('counts a token that has a character in a range, and no empty token', () => {
    expect(
      tokenMask(
        [{ start: 2, end: 4 }],
        [
          [0, 2],
          [1, 3],
          [3, 4],
          [4, 5],
          [3, 3],
        ],
      ),
    ).toEqual([0, 1, 1, 0, 0])
  })

  it('of characters counts the characters of the ranges', () => {
    const law = fc.property(fc.nat(9), fc.nat(9), (a, b) => {
      const range = { start: Math.min(a, b), end: Math.max(a, b) }
      const mask = tokenMask(
        [range],
        Array.from({ length: 10 }, (_, i) => [i, i + 1] as const),
      )
      expect(mask).toEqual(Array.from({ length: 10 }, (_, i) => (range.start <= i && i < range.end ? 1 : 0)))
    })
    fc.assert(law)
  })
})

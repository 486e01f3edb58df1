import { orThrow } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { NOW } from '../../../../test/kit/chatTemplates.js'
import { anyChatTemplate, anyConversation } from '../../../../test/kit/historyArbitraries.js'
import { ownTemplate, ownTemplates } from '../../../../test/kit/ownTemplates.js'
import { History, message, sameHistory, textOf, truncateHistory } from '../../src/history/history.js'
import { chatTemplate, type Rendered, render, renderSuffix, renderText } from '../../src/template/chatTemplate.js'
import { fromText } from '../../src/template/fromText.js'

const names = fc.constantFrom(...ownTemplates.keys())
const prompts = fc.constantFrom('add' as const, 'omit' as const)
const conversations = anyConversation({ tools: 'some' })

const isPartition = ({ text, spans }: Rendered): boolean =>
  spans.every(({ start, end }, i) => start === (spans[i - 1]?.end ?? 0) && end > start) &&
  (spans.at(-1)?.end ?? 0) === text.length

describe('render, for every own template', () => {
  it('has spans that partition the text of renderText, or a reason for their absence', () => {
    let told = 0
    const law = fc.property(names, conversations, prompts, (name, history, generationPrompt) => {
      const options = { generationPrompt, now: NOW }
      const text = renderText(ownTemplate(name), history, options)
      const rendered = render(ownTemplate(name), history, options)
      if (E.isLeft(text)) expect(E.isLeft(rendered)).toBe(true)
      else if (E.isRight(rendered)) {
        told += 1
        expect(rendered.right.text).toBe(text.right)
        expect(isPartition(rendered.right)).toBe(true)
      } else expect(rendered.left.reason).toMatch(/spans of this template cannot be determined|does not go through/)
    })
    fc.assert(law, { numRuns: 200 })
    expect(told).toBeGreaterThan(100)
  })

  it('finds the text of each answer in the span of its message', () => {
    const told = ['chatml', 'headers', 'inst', 'turns', 'bars', 'hermes', 'thoughts', 'parts']
    const law = fc.property(fc.constantFrom(...told), anyConversation(), (name, history) => {
      const { text, spans } = orThrow(render(ownTemplate(name), history, { generationPrompt: 'omit', now: NOW }))
      for (const [i, item] of history.messages.entries()) {
        if (item.role === 'system') continue // some templates put it into another turn
        const own = spans.filter((span) => span.message === i).map(({ start, end }) => text.slice(start, end))
        expect(own.join('')).toContain(textOf(item))
      }
    })
    fc.assert(law)
  })
})

describe('renderSuffix', () => {
  it('is what the later messages add: the beginning and the suffix are the whole, or it is refused', () => {
    let told = 0
    const law = fc.property(names, conversations, fc.nat(), prompts, (name, history, cut, generationPrompt) => {
      const from = cut % (history.messages.size + 1)
      const template = ownTemplate(name)
      const suffix = renderSuffix(template, history, { from, generationPrompt, now: NOW })
      if (E.isLeft(suffix)) return
      told += 1
      const earlier = renderText(template, truncateHistory(history, from), { generationPrompt: 'omit', now: NOW })
      const before = from === 0 ? '' : orThrow(earlier)
      expect(before + suffix.right).toBe(orThrow(renderText(template, history, { generationPrompt, now: NOW })))
    })
    fc.assert(law, { numRuns: 200 })
    expect(told).toBeGreaterThan(60)
  })

  it('of two suffixes, one after the other, is the suffix of both, for templates that only add', () => {
    const law = fc.property(anyChatTemplate, anyConversation(), fc.nat(), fc.nat(), (source, history, m, n) => {
      const template = orThrow(chatTemplate(source))
      const [first, second] = [m, n].map((x) => x % (history.messages.size + 1)).sort((a, b) => a - b) as [
        number,
        number,
      ]
      const suffix = (of: History, from: number): string =>
        orThrow(renderSuffix(template, of, { from, generationPrompt: 'omit' }))
      fc.pre(first > 0)
      expect(suffix(truncateHistory(history, second), first) + suffix(history, second)).toBe(suffix(history, first))
    })
    fc.assert(law)
  })

  it('refuses templates that drop old thoughts, with the reason', () => {
    const asked = History([
      message('user', 'One?'),
      message('assistant', 'Two.', { reasoning: 'One and one.' }),
      message('user', 'Three?'),
    ])
    expect(renderSuffix(ownTemplate('thoughts'), asked, { from: 2, generationPrompt: 'omit' })).toMatchObject({
      left: {
        reason:
          'the messages from 2 on change how the template renders those before them, so they cannot be rendered alone',
      },
    })
  })

  it('refuses an index that is not in the conversation', () => {
    expect(() => renderSuffix(ownTemplate('chatml'), History([]), { from: 9, generationPrompt: 'omit' })).toThrow(
      RangeError,
    )
  })
})

describe('fromText', () => {
  it('gives back the conversation, for templates that write fixed texts around contents', () => {
    const law = fc.property(anyChatTemplate, anyConversation(), prompts, (source, history, generationPrompt) => {
      const template = orThrow(chatTemplate(source))
      const text = orThrow(renderText(template, history, { generationPrompt }))
      const parsed = orThrow(fromText(template, text))
      expect(parsed.generationPrompt).toBe(generationPrompt)
      expect(sameHistory(parsed.history, history)).toBe(true)
    })
    fc.assert(law)
  })

  it('of any text is refused, or a conversation whose text it is', () => {
    const pieces = fc.array(
      fc.oneof(
        fc.constantFrom(
          '<|im_start|>',
          '<|im_end|>',
          'user\n',
          'assistant\n',
          '\n',
          '<tool_call>\n{"name": "a", "arguments": {}}\n</tool_call>',
        ),
        fc.string({ maxLength: 5 }),
      ),
      { maxLength: 12 },
    )
    const law = fc.property(pieces, fc.constantFrom('chatml', 'hermes', 'thoughts'), (parts, name) => {
      const template = ownTemplate(name)
      const parsed = fromText(template, parts.join(''))
      if (E.isLeft(parsed)) return
      const { history, generationPrompt } = parsed.right
      expect(orThrow(renderText(template, history, { generationPrompt }))).toBe(parts.join(''))
    })
    fc.assert(law)
  })

  it('gives back calls of tools and their results, once, without the ids that the text does not have', () => {
    const law = fc.property(conversations, (history) => {
      const template = ownTemplate('hermes')
      const bare = {
        ...history,
        messages: history.messages.map(({ name: _, toolCallId: __, ...item }) => item),
      }
      const parsed = orThrow(fromText(template, orThrow(renderText(template, bare, { generationPrompt: 'omit' }))))
      expect(sameHistory(parsed.history, bare)).toBe(true)
    })
    fc.assert(law)
  })
})

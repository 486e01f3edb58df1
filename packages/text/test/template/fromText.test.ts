import { orThrow } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { NOW } from '../../../../test/kit/chatTemplates.js'
import { ownTemplate } from '../../../../test/kit/ownTemplates.js'
import { appendMessage, History, message, sameHistory } from '../../src/history/history.js'
import { chatTemplate, renderText } from '../../src/template/chatTemplate.js'
import { fromText, inverseOf } from '../../src/template/fromText.js'

const chatMl = ownTemplate('chatml')
const chat = History([message('user', 'What is 2 + 2?'), message('assistant', '4')])

const reasonOf = (result: E.Either<{ readonly reason: string }, unknown>): string =>
  E.isLeft(result) ? result.left.reason : `read ${JSON.stringify(result.right)}`

describe('fromText', () => {
  it('a text that breaks off ends with an incomplete message', () => {
    const whole = orThrow(renderText(chatMl, chat, { generationPrompt: 'omit' }))
    const { history, generationPrompt } = orThrow(fromText(chatMl, whole.slice(0, -'<|im_end|>\n'.length)))
    expect(generationPrompt).toBe('continue')
    expect(
      sameHistory(
        history,
        appendMessage(History([chat.messages.get(0)!]), message('assistant', '4', { isComplete: false })),
      ),
    ).toBe(true)
  })

  it('a text that breaks off within the end of a turn is not read', () => {
    const whole = orThrow(renderText(chatMl, chat, { generationPrompt: 'omit' }))
    expect(reasonOf(fromText(chatMl, whole.slice(0, -1)))).toContain("would hold '<|im_end|>'")
  })

  it.each(['headers', 'turns', 'hermes', 'thoughts', 'bars'])('%s: reads what it renders', (name) => {
    const template = ownTemplate(name)
    const text = orThrow(renderText(template, chat, { generationPrompt: 'add', now: NOW }))
    const parsed = orThrow(fromText(template, text, { now: NOW }))
    expect(sameHistory(parsed.history, chat)).toBe(true)
    expect(parsed.generationPrompt).toBe('add')
  })

  it('two calls in one message, with a result for each', () => {
    const calls = [1, 2].map((a) => ({ name: 'add', arguments: { a, text: '"}{' } }))
    const history = History([
      message('user', 'x'),
      message('assistant', '', { toolCalls: calls }),
      message('tool', '1'),
      message('tool', '2'),
      message('assistant', 'Done.', { toolCalls: calls.slice(1) }),
    ])
    const template = ownTemplate('hermes')
    const text = orThrow(renderText(template, history, { generationPrompt: 'omit' }))
    expect(sameHistory(orThrow(fromText(template, text)).history, history)).toBe(true)
  })

  it('calls that are written in another way are refused, not left in the content', () => {
    const template = ownTemplate('bars')
    const call = { name: 'add', arguments: { a: 1 } }
    const history = History([message('user', 'x'), message('assistant', '', { toolCalls: [call] })])
    const text = orThrow(renderText(template, history, { generationPrompt: 'omit' }))
    expect(E.isLeft(fromText(template, text))).toBe(true)
  })

  it.each([
    ['that shows no contents', 'Hello', /does not show the contents/],
    [
      'that writes nothing between turns',
      '{% for m in messages %}{{ m.content }}{% endfor %}',
      /writes nothing between two turns/,
    ],
    [
      'whose turns depend on their place',
      '{% for m in messages %}<{{ loop.index }}>{{ m.content }}{% endfor %}',
      /depends on its position/,
    ],
  ])('refuses a template %s', (_, source, reason) => {
    expect(reasonOf(inverseOf(orThrow(chatTemplate(source))))).toMatch(reason)
  })

  it('refuses a text of another template', () => {
    expect(reasonOf(fromText(chatMl, '[INST] Hello [/INST]'))).toBe('the text does not begin like the chat template')
  })
})

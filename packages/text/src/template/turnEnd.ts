/** The token with which a chat template ends the assistant's turn. */
import * as E from 'fp-ts/lib/Either.js'
import { type History, History as historyOf, message } from '../history/history.js'
import { type ChatTemplate, render } from './chatTemplate.js'

const QUESTION = message('user', 'Hello')
const ANSWER = message('assistant', 'Tandem')
const ANSWER_TEXT = 'Tandem'

/** Letters after an answer in which the end of its turn is searched. */
const REACH = 256

/** Returns the text that the template writes after the answer in its message; '' if it fails. */
const textAfter = (template: ChatTemplate, history: History): string => {
  const rendered = render(template, history, { generationPrompt: 'omit' })
  if (E.isLeft(rendered)) return ''
  const { text, spans } = rendered.right
  const end = spans.findLast((span) => span.message === 1)?.end ?? 0
  const at = text.lastIndexOf(ANSWER_TEXT, end)
  return at < 0 ? '' : text.slice(at + ANSWER_TEXT.length, Math.min(end, at + ANSWER_TEXT.length + REACH))
}

/** Returns the first tokens of a text, as far as they follow each other without other text. */
const firstTokens = (text: string, tokens: readonly string[]): readonly string[] => {
  const places = tokens.map((token) => text.indexOf(token)).filter((at) => at >= 0)
  const run: string[] = []
  let at = Math.min(...places)
  while (at < text.length) {
    const next = tokens.find((token) => text.startsWith(token, at))
    if (next === undefined) break
    run.push(next)
    at += next.length
  }
  return run
}

/**
 * Returns the token with which a template ends the assistant's turn, or `undefined` if it writes
 * none: the last of the added tokens that follow an answer at every place, or else the first
 * one that follows an answer at the end of a conversation. Some templates write an `eos_token`
 * after the whole conversation, others end a last answer differently from one before it.
 *
 * Cost     two renderings with spans.
 */
export const turnEndOf = (
  template: ChatTemplate,
  added: readonly { readonly content: string }[],
): string | undefined => {
  const tokens = added
    .map(({ content }) => content)
    .filter((content) => content.trim() !== '')
    .toSorted((a, b) => b.length - a.length)
  const last = firstTokens(textAfter(template, historyOf([QUESTION, ANSWER])), tokens)
  const before = firstTokens(textAfter(template, historyOf([QUESTION, ANSWER, QUESTION])), tokens)
  const firstOther = last.findIndex((token, i) => token !== before[i])
  return firstOther < 0 ? last.at(-1) : last[Math.max(0, firstOther - 1)]
}

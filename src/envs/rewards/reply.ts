/** The text of a conversation that rewards read. */
import { type Message, textOf, withoutThoughts } from '@tandem-rl/text'
import type { Answered } from './reward.js'

/** Returns the text of a message, after its separate thoughts in a block `think`. */
const wholeText = (item: Message): string => {
  const { reasoning, isComplete } = item
  const text = textOf(item)
  if (reasoning === undefined) return text
  return `<think>${reasoning}${text === '' && !isComplete ? '' : '</think>'}${text}`
}

/**
 * Returns the reply of a conversation: the observation of the tool call that ended it, or the text
 * of the assistant's last message with its thoughts, or '' without either.
 */
export const replyOf = ({ history, finish }: Pick<Answered, 'history' | 'finish'>): string => {
  if (finish !== undefined) return finish
  const last = history.messages.findLast(({ role }) => role === 'assistant')
  return last === undefined ? '' : wholeText(last)
}

/** Returns the reply of a conversation without its thoughts, which are not an answer. */
export const answerIn = (answered: Pick<Answered, 'history' | 'finish'>): string => withoutThoughts(replyOf(answered))

/** Returns true if the reply is a message that was cut off, whose text is no answer. */
export const isCut = ({ history, finish }: Pick<Answered, 'history' | 'finish'>): boolean =>
  finish === undefined && history.messages.findLast(({ role }) => role === 'assistant')?.isComplete === false

/** Returns true if the assistant's last message has thoughts, closed and not empty. */
export const hasThoughts = ({ history }: Pick<Answered, 'history'>): boolean =>
  blockOf(replyOf({ history }), 'think') !== ''

/**
 * Returns the trimmed content of the first closed block of a tag, or ''.
 *
 * @example
 * blockOf('So <answer> 18 </answer>', 'answer') // '18'
 */
export const blockOf = (text: string, tag: string): string => {
  const [open, close] = [`<${tag}>`, `</${tag}>`]
  const start = text.indexOf(open)
  const end = start < 0 ? -1 : text.indexOf(close, start + open.length)
  return end < 0 ? '' : text.slice(start + open.length, end).trim()
}

/** The text of a conversation that rewards read. */
import { textOf } from '../../text/history/history.js'
import type { Answered } from './reward.js'

/**
 * Returns the answer of a conversation: the observation of the tool call that ended it, or the text
 * of the assistant's last message, or '' without either.
 */
export const replyOf = ({ history, finish }: Pick<Answered, 'history' | 'finish'>): string => {
  if (finish !== undefined) return finish
  const last = history.messages.findLast(({ role }) => role === 'assistant')
  return last === undefined ? '' : textOf(last)
}

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

/** What a reward reads of a conversation. */
import { textOf } from '../../text/history/history.js'
import type { Answered } from './reward.js'

/** The text of the assistant's last message; '' if there is none. */
export const replyOf = ({ history }: Pick<Answered, 'history'>): string => {
  const last = history.messages.findLast(({ role }) => role === 'assistant')
  return last === undefined ? '' : textOf(last)
}

/**
 * What the first block of a tag holds, trimmed; '' if there is none that is closed.
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

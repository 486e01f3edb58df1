/** Conversations of captured sessions as histories. */
import * as E from 'fp-ts/lib/Either.js'
import type { History } from '../history/history.js'
import { historyFromOpenAi } from '../history/openAiChat.js'
import type { CapturedCall } from './session.js'

/**
 * Returns the conversation of a call with one of its answers, or `null` if the call had no messages
 * or they cannot be read.
 */
export const callHistory = ({ messages, completions }: CapturedCall, completion = 0): History | null => {
  const sampled = completions[completion]
  if (messages === null || sampled === undefined) return null
  const { text, calls, reasoning } = sampled.answer
  const fields = {
    role: 'assistant',
    content: text,
    ...(reasoning !== undefined && { reasoning_content: reasoning }),
    ...(calls.length > 0 && { tool_calls: calls.map((call) => ({ type: 'function', function: call })) }),
  }
  const read = historyFromOpenAi([...messages, fields])
  return E.isRight(read) ? read.right : null
}

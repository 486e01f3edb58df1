/** Rows of conversations and of preference pairs, in the formats of data sets on the hub. */
import { History, message } from '@tandem-rl/text'
import { z } from 'zod'

const messages = z
  .array(z.object({ role: z.string(), content: z.string() }))
  .min(1)
  .transform((all) => History(all.map(({ role, content }) => message(role, content))))

/** A conversation with two answers, one of which was preferred. */
export interface PreferencePair {
  /** Ends before the assistant's turn. */
  readonly prompt: History
  readonly chosen: string
  readonly rejected: string
}

/** A row with `messages`, each with `role` and `content`, read as a conversation. */
export const CONVERSATION_ROW: z.ZodType<History> = z.object({ messages }).transform((row) => row.messages)

/** A text, or a list of messages whose last one is the answer. */
const answer = z.union(
  [
    z.string(),
    z
      .array(z.object({ content: z.string() }))
      .min(1)
      .transform((all) => all.at(-1)!.content),
  ],
  { error: 'expected a text, or messages whose last one is the answer' },
)

/**
 * A row with `prompt` (a text or messages), `chosen` and `rejected` (texts, or messages whose last
 * one is the answer).
 */
export const PREFERENCE_ROW: z.ZodType<PreferencePair> = z.object({
  prompt: z.union([z.string().transform((text) => History([message('user', text)])), messages], {
    error: 'expected a text or messages',
  }),
  chosen: answer,
  rejected: answer,
})

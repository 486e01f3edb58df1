/** The policy's messages in a step, from any view of its action. */
import { type Message, message, type TextTokenizer } from '@tandem-rl/text'
import * as tf from '@tensorflow/tfjs-core'
import { type Data, type Ragged, raggedRow } from '../../data/tensorDict/leaf.js'
import { type Entry, find, type TensorDict } from '../../data/tensorDict/tensorDict.js'

/** The view from which the completion is read: the message, its text, or its token ids. */
export type InputMode =
  | { readonly _tag: 'history' }
  | { readonly _tag: 'text' }
  | { readonly _tag: 'tokens'; readonly tokenizer: TextTokenizer }

export const HISTORY_MODE: InputMode = { _tag: 'history' }

/**
 * Returns the messages of an action; undefined if it lacks the view. Texts include special tokens.
 */
export const responsesOf = (action: TensorDict, mode: InputMode): readonly Message[] | undefined => {
  const entry: Entry | undefined = find(action, [mode._tag, 'response'])
  if (entry === undefined || entry instanceof tf.Tensor) return undefined
  const assistantMessage = (text: string): Message => message('assistant', text)
  // Casts: `history.response` holds messages and `text.response` strings, by the schemas of
  // `data/policy.ts`.
  if (mode._tag === 'history' && entry._tag === 'Data') return (entry as Data<Message>).items.toArray()
  if (mode._tag === 'text' && entry._tag === 'Data')
    return (entry as Data<string>).items.map(assistantMessage).toArray()
  if (mode._tag === 'tokens' && entry._tag === 'Ragged') {
    const rows = entry as Ragged<'int32'>
    const count = rows.offsets.length - 1
    return Array.from({ length: count }, (_, i) => assistantMessage(mode.tokenizer.decode(raggedRow(rows, i), 'keep')))
  }
  return undefined
}

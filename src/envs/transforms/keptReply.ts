/** How much of the policy's last reply stands, where an environment has changed the rest of it. */

import { dataSpec } from '../../data/spec.js'
import { type Data, data } from '../../data/tensorDict/leaf.js'
import { find, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import { type History, lastMessage } from '../../text/history/history.js'

/**
 * UTF-16 units of the reply's text, from its beginning; null for all of it. What follows in the
 * message is not the policy's. Whoever changes a reply says so in this entry: a template or a
 * tokenizer that meets another text where it is missing refuses to go on.
 */
export type KeptEntries = { readonly history: TensorDict<{ readonly kept: Data<number | null> }> }

export const KEPT_SPEC = dataSpec<number | null>('number | null')

/** Nothing is changed: the entry of a first state. */
export const allKept = (size: number): Data<number | null> => data(Array.from({ length: size }, () => null))

/** The entry of a state, where it has one. */
export const keptOf = (td: TensorDict): ((i: number) => number | null) => {
  const entry = find(td, ['history', 'kept'])
  // The cast is right by the schema of KeptEntries.
  const items =
    entry !== undefined && '_tag' in entry && entry._tag === 'Data' ? (entry as Data<number | null>).items : undefined
  return (i) => items?.get(i) ?? null
}

/** Whether the turn of a changed reply is open: the policy goes on in it. */
export const isOpen = (history: History, kept: number | null): boolean =>
  kept !== null && lastMessage(history)?.isComplete === false

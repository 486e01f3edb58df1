/** The kept part of the policy's last reply, where an environment has changed the rest. */
import { type History, lastMessage } from '@tandem-rl/text'
import { dataSpec } from '../../data/spec.js'
import { type Data, data } from '../../data/tensorDict/leaf.js'
import { findData, type TensorDict } from '../../data/tensorDict/tensorDict.js'

/**
 * The number of UTF-16 units of the reply's text that are kept, from its beginning; null for all.
 * The rest of the message is not the policy's. Every transform that changes a reply must set this
 * entry: templates and tokenizers fail on a changed text without it.
 */
export type KeptEntries = { readonly history: TensorDict<{ readonly kept: Data<number | null> }> }

export const KEPT_SPEC = dataSpec<number | null>('number | null')

/** Returns the entry of a first state, in which nothing is changed. */
export const allKept = (size: number): Data<number | null> => data(Array.from({ length: size }, () => null))

/** Returns the entry of a state, if it has one. */
export const keptOf = (td: TensorDict): ((i: number) => number | null) => {
  const items = findData<number | null>(td, ['history', 'kept'])
  return (i) => items?.[i] ?? null
}

/** Returns true if the turn of a changed reply is open, so that the policy continues it. */
export const isOpen = (history: History, kept: number | null): boolean =>
  kept !== null && lastMessage(history)?.isComplete === false

/** The segments of conversations whose context is folded. */
import type { History } from '@tandem-rl/text'
import type { Data } from '../../data/tensorDict/leaf.js'
import { find, type TensorDict } from '../../data/tensorDict/tensorDict.js'

/** The segments of conversations. */
export type SegmentEntries = {
  readonly history: TensorDict<{ readonly prompt: Data<History> }>
  /** The number of summaries so far. Texts and tokens are rendered anew when it grows. */
  readonly segment: Data<number>
  /** Turns since the last summary. */
  readonly segmentTurns: Data<number>
}

/** One of the entries of segments, row by row. Empty if the states have none. */
export const segmentNumbers = (td: TensorDict, key: 'segment' | 'segmentTurns'): readonly number[] => {
  const entry = find(td, [key])
  // The cast is right by the schema of `SegmentEntries`.
  return entry !== undefined && '_tag' in entry && entry._tag === 'Data' ? (entry as Data<number>).items.toArray() : []
}

/**
 * Returns a function that tests if a conversation was folded in a step, so that its prompt does not
 * continue the previous one.
 */
export const foldedRows = (previous: TensorDict, next: TensorDict): ((i: number) => boolean) => {
  const [before, after] = [segmentNumbers(previous, 'segment'), segmentNumbers(next, 'segment')]
  return (i) => before[i] !== after[i]
}

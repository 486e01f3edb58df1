/** The segments of conversations whose context is folded. */
import type { Data } from '../../data/tensorDict/leaf.js'
import { find, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { History } from '../../text/history/history.js'

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
 * Tells for each conversation of a step whether it was folded, so that its prompt does not continue
 * the prompt before.
 */
export const foldedRows = (previous: TensorDict, next: TensorDict): ((i: number) => boolean) => {
  const [before, after] = [segmentNumbers(previous, 'segment'), segmentNumbers(next, 'segment')]
  return (i) => before[i] !== after[i]
}

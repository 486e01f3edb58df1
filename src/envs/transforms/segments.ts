/** The segments of conversations whose context is folded. */
import type { History } from '@tandem-rl/text'
import type { Data } from '../../data/tensorDict/leaf.js'
import { findData, type TensorDict } from '../../data/tensorDict/tensorDict.js'

/** The segments of conversations. */
export type SegmentEntries = {
  readonly history: TensorDict<{ readonly prompt: Data<History> }>
  /** The number of summaries so far. Texts and tokens are rendered anew when it grows. */
  readonly segment: Data<number>
  /** Turns since the last summary. */
  readonly segmentTurns: Data<number>
}

/**
 * Returns a function that tests if a conversation was folded in a step, so that its prompt does not
 * continue the previous one.
 */
export const foldedRows = (previous: TensorDict, next: TensorDict): ((i: number) => boolean) => {
  const [before, after] = [findData(previous, 'segment'), findData(next, 'segment')]
  return (i) => before?.[i] !== after?.[i]
}

/** The off-policy correction of the rows of a batch. */
import { findData, type TensorDict } from '../data/tensorDict/tensorDict.js'
import type { AnyLoss } from '../objectives/loss.js'
import { type LossRows, withoutRows } from '../objectives/lossRows.js'
import {
  type CorrectionMetrics,
  type RolloutCorrectionOptions,
  rolloutCorrection,
} from '../objectives/rolloutCorrection.js'
import { correctStaleRows, tokenLags } from './staleRows.js'
import { correctedRows, rescoredRows } from './steps/correction.js'
/** The options for completions of another policy than the trained one. */
export interface OffPolicyOptions {
  /**
   * The log-probabilities in the denominator of the ratio: the sampler's, or the trainer's before
   * the update. `oldLogProbs.response` in a batch takes precedence. Default `sampled`.
   */
  readonly oldLogProbs?: 'sampled' | 'rescored'
  /** Weights and masks from the difference of both. Requires `rescored`. */
  readonly correction?: RolloutCorrectionOptions
  /** `mask` masks completions at the token limit out of the loss. Default `learn`. */
  readonly truncated?: 'learn' | 'mask'
  /**
   * `correct` reweights stale tokens by the trainer's current log-probabilities. Default `keep`.
   */
  readonly stale?: 'keep' | 'correct'
}

/** Throws RangeError for contradictory or invalid options, and for losses without a ratio. */
export const checkOffPolicy = (
  learner: string,
  { oldLogProbs, correction, ...rest }: OffPolicyOptions,
  { name, reads }: Pick<AnyLoss, 'name' | 'reads'>,
): void => {
  const isSet = [oldLogProbs, correction, ...Object.values(rest)].some((option) => option !== undefined)
  if (isSet && !reads.includes('logProbs.response'))
    throw new RangeError(`${learner}: offPolicy is for losses that read oldLogProbs, and the loss is ${name}`)
  if (correction === undefined) return
  if (oldLogProbs !== 'rescored')
    throw new RangeError(
      `${learner}: a correction compares the sampler with the trainer: set oldLogProbs to 'rescored'`,
    )
  rolloutCorrection([], [], correction) // throws for invalid limits
}

/** Returns the entries that the options require in addition to those of the loss. */
export const offPolicyReads = ({ truncated, stale }: OffPolicyOptions): readonly string[] => [
  ...(truncated === 'mask' ? ['stopReason'] : []),
  ...(stale === 'correct' ? ['policyVersion'] : []),
]

/** Rows to train on, and the statistics of the correction, or `null` without one. */
export interface PreparedRows {
  readonly rows: LossRows
  readonly correction: CorrectionMetrics | null
}

/** The context of preparing the rows of a batch. */
export interface Preparation {
  readonly options: OffPolicyOptions
  /** Number of updates of the learner. */
  readonly version: number
  /** Computes log-probabilities of completions with the current weights. */
  readonly score: (rows: LossRows) => readonly ArrayLike<number>[]
}

/**
 * Masks, rescores and corrects the rows of a batch. Throws RangeError if a token is newer than the
 * learner.
 */
export const preparedRows = (
  batch: TensorDict,
  given: LossRows,
  { options, version, score }: Preparation,
): PreparedRows => {
  const { oldLogProbs = 'sampled', correction, truncated = 'learn', stale = 'keep' } = options
  const stops = truncated === 'learn' ? [] : findData<string>(batch, 'stopReason')! // checked by `requireEntries`
  const rows =
    truncated === 'learn'
      ? given
      : withoutRows(
          given,
          stops.map((stop) => stop === 'length'),
        )
  if (rows.completions.length === 0) return { rows, correction: null }
  const { behaviorLogProbs } = rows.lists
  if (stale === 'correct' && correction === undefined) {
    const lags = tokenLags(batch as never, [...rows.completions.keys()], version) // only stamps are read
    if (!lags.flat().some((lag) => lag > 0)) return { rows, correction: null }
    const { rows: changed, metrics } = correctStaleRows(rows, { own: score(rows), lags })
    return { rows: changed, correction: metrics }
  }
  if (oldLogProbs === 'sampled' || (behaviorLogProbs !== undefined && correction === undefined))
    return { rows, correction: null }
  const rescored = behaviorLogProbs === undefined ? rescoredRows(rows, score(rows)) : rows
  if (correction === undefined) return { rows: rescored, correction: null }
  const { rows: changed, metrics } = correctedRows(rescored, correction)
  return { rows: changed, correction: metrics }
}

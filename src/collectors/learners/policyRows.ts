/** Rows of a policy loss from batches, with the off-policy correction. */
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import {
  type CorrectionMetrics,
  type RolloutCorrectionOptions,
  rolloutCorrection,
} from '../../objectives/rolloutCorrection.js'
import { correctStaleRows, tokenLags } from '../overlap/staleRows.js'
import { correctedRows, rescoredRows } from '../steps/correction.js'
import { type TrainingRows, withoutRows } from '../steps/stepRows.js'
import { batchRowsAt, findData, findRows, lossMasks, temperatureOf } from './batchEntries.js'

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

/** Throws RangeError for contradictory or invalid options. */
export const checkOffPolicy = (learner: string, { oldLogProbs, correction }: OffPolicyOptions): void => {
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

/** Sets log-probabilities to 0 where the mask is 0, because they may be NaN there. */
const known = (rows: readonly ArrayLike<number>[], masks: readonly ArrayLike<number>[] | undefined) =>
  masks === undefined ? rows : rows.map((row, i) => Array.from(row, (x, t) => (masks[i]![t] === 1 ? x : 0)))

/**
 * Returns the rows of a batch with `tokens`, `logProbs.response` and `advantage`, without copies.
 */
export const policyRows = (batch: TensorDict): TrainingRows => {
  const masks = lossMasks(batch)
  const sampled = known(batchRowsAt(batch, 'logProbs.response'), masks)
  const own = findRows(batch, 'oldLogProbs.response')
  const reference = findRows(batch, 'next.refLogProbs.response')
  const weights = findRows(batch, 'tokenWeights')
  return {
    prompts: batchRowsAt(batch, 'tokens.prompt'),
    completions: batchRowsAt(batch, 'tokens.response'),
    ...(own === undefined ? { oldLogProbs: sampled } : { oldLogProbs: known(own, masks), behaviorLogProbs: sampled }),
    ...(masks && { masks }),
    ...(reference && { refLogProbs: reference }),
    ...(weights && { weights }),
    advantages: batchRowsAt(batch, 'advantage'),
    temperature: temperatureOf(batch),
  }
}

/** Rows to train on, and the statistics of the correction, or `null` without one. */
export interface PreparedRows<R> {
  readonly rows: R
  readonly correction: CorrectionMetrics | null
}

/** The context of preparing the rows of a batch. */
export interface Preparation {
  readonly options: OffPolicyOptions
  /** Number of updates of the learner. */
  readonly version: number
  /** Computes log-probabilities of completions with the current weights. */
  readonly score: (rows: TrainingRows) => readonly ArrayLike<number>[]
}

/**
 * Masks, rescores and corrects the rows of a batch. Throws RangeError if a token is newer than the
 * learner.
 */
export const preparedRows = <R extends TrainingRows>(
  batch: TensorDict,
  given: R,
  { options, version, score }: Preparation,
): PreparedRows<R> => {
  const { oldLogProbs = 'sampled', correction, truncated = 'learn', stale = 'keep' } = options
  const stops = truncated === 'learn' ? [] : findData<string>(batch, 'stopReason')! // checked by `requireEntries`
  const rows =
    truncated === 'learn'
      ? given
      : {
          ...given,
          ...withoutRows(
            given,
            stops.map((stop) => stop === 'length'),
          ),
        }
  if (rows.completions.length === 0) return { rows, correction: null }
  if (stale === 'correct' && correction === undefined) {
    const lags = tokenLags(batch as never, [...rows.completions.keys()], version) // only stamps are read
    if (!lags.flat().some((lag) => lag > 0)) return { rows, correction: null }
    const { rows: changed, metrics } = correctStaleRows(rows, { own: score(rows), lags })
    return { rows: { ...rows, ...changed }, correction: metrics }
  }
  if (oldLogProbs === 'sampled' || (rows.behaviorLogProbs !== undefined && correction === undefined))
    return { rows, correction: null }
  const rescored = rows.behaviorLogProbs === undefined ? rescoredRows(rows, score(rows)) : rows
  if (correction === undefined) return { rows: { ...rows, ...rescored }, correction: null }
  const { rows: changed, metrics } = correctedRows(rescored, correction)
  return { rows: { ...rows, ...changed }, correction: metrics }
}

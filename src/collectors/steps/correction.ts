/** Corrects rows whose sampler differs from the trained policy, by rounding or staleness. */
import {
  type CorrectionMetrics,
  type RolloutCorrectionOptions,
  rolloutCorrection,
} from '../../objectives/rolloutCorrection.js'
import type { TrainingRows } from './stepRows.js'

/**
 * Replaces `oldLogProbs`, the denominator of the ratio, by the trainer's log-probabilities. The
 * sampler's are kept as `behaviorLogProbs`.
 */
export const rescoredRows = (rows: TrainingRows, logProbs: TrainingRows['oldLogProbs']): TrainingRows => ({
  ...rows,
  behaviorLogProbs: rows.behaviorLogProbs ?? rows.oldLogProbs,
  oldLogProbs: logProbs,
})

/**
 * Applies the weights and masks of `rolloutCorrection`, computed from the difference of
 * `oldLogProbs` and `behaviorLogProbs`. Existing weights are multiplied. Pass the rows of a whole
 * step, before they are split into micro-batches.
 *
 * Errors   throws RangeError if `behaviorLogProbs` are missing (`rescoredRows` adds them), limits
 *          are invalid, or lengths of rows differ.
 * Effects  none.
 *
 * @example
 * const rows = { prompts: [[1]], completions: [[2]], oldLogProbs: [[0]], behaviorLogProbs: [[-2]], advantages: [1], temperature: 1 }
 * correctedRows(rows, { weights: { level: 'token', limit: 3 } }).rows.weights // [[3]]
 */
export const correctedRows = (
  rows: TrainingRows,
  options: RolloutCorrectionOptions,
): { readonly rows: TrainingRows; readonly metrics: CorrectionMetrics } => {
  const { oldLogProbs, behaviorLogProbs: sampled } = rows
  if (sampled === undefined)
    throw new RangeError('correctedRows: the rows have no behaviorLogProbs; add them with rescoredRows')
  const masks = rows.masks ?? rows.completions.map((row) => Array.from(row, () => 1))
  const difference = oldLogProbs.map((row, i) => Array.from(row, (x, t) => x - (sampled[i]?.[t] ?? Number.NaN)))
  const { weights, mask, metrics } = rolloutCorrection(difference, masks, options)
  const before = rows.weights
  return {
    rows: {
      ...rows,
      masks: mask,
      weights: before === undefined ? weights : weights.map((row, i) => row.map((w, t) => w * before[i]![t]!)),
    },
    metrics,
  }
}

/** Rows whose sampler was not the policy that is trained: rounded otherwise, or older. */
import { aList, aRecord, checkOptions } from '../core/options.js'
import {
  type CorrectionMetrics,
  type RolloutCorrectionOptions,
  rolloutCorrection,
} from '../objectives/rolloutCorrection.js'
import type { TrainingRows } from './stepRows.js'

/** Rows with the trainer's own log-probabilities as those that the ratio is taken against; the sampler's stay beside them. */
export const rescoredRows = (rows: TrainingRows, logProbs: TrainingRows['oldLogProbs']): TrainingRows => ({
  ...rows,
  behaviorLogProbs: rows.behaviorLogProbs ?? rows.oldLogProbs,
  oldLogProbs: logProbs,
})

/**
 * Rows with the weights and masks of `rolloutCorrection`, from how far `oldLogProbs` are from `behaviorLogProbs`; weights that are there already are
 * multiplied. For the rows of a whole step, before they are cut into micro-batches.
 *
 * Errors   throws RangeError without `behaviorLogProbs` (`rescoredRows` makes them), for limits that make no sense, and for rows that do not
 *          fit each other.
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
  checkOptions('correctedRows', options, { weights: aRecord, reject: aList })
  const { oldLogProbs, behaviorLogProbs: sampled } = rows
  if (sampled === undefined)
    throw new RangeError("correctedRows: the rows have no behaviorLogProbs; give the trainer's own with rescoredRows")
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

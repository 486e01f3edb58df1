/** Corrects rows whose sampler differs from the trained policy, by rounding or staleness. */
import type { LossRows } from '../../objectives/lossRows.js'
import {
  type CorrectionMetrics,
  type RolloutCorrectionOptions,
  rolloutCorrection,
} from '../../objectives/rolloutCorrection.js'

/** The lists of numbers of tokens, which `completionRows` made. */
const tokenList = ({ lists }: LossRows, name: string): readonly ArrayLike<number>[] | undefined =>
  lists[name] as readonly ArrayLike<number>[] | undefined // by its name

/**
 * Replaces `oldLogProbs`, the denominator of the ratio, by the trainer's log-probabilities. The
 * sampler's are kept as `behaviorLogProbs`.
 */
export const rescoredRows = (rows: LossRows, logProbs: readonly ArrayLike<number>[]): LossRows => ({
  ...rows,
  lists: {
    ...rows.lists,
    behaviorLogProbs: rows.lists.behaviorLogProbs ?? rows.lists.oldLogProbs!, // rows of policy losses have them
    oldLogProbs: logProbs,
  },
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
 * const rows = { prompts: [[1]], completions: [[2]], temperature: 1, lists: { oldLogProbs: [[0]], behaviorLogProbs: [[-2]] } }
 * correctedRows(rows, { weights: { level: 'token', limit: 3 } }).rows.lists.weights // [[3]]
 */
export const correctedRows = (
  rows: LossRows,
  options: RolloutCorrectionOptions,
): { readonly rows: LossRows; readonly metrics: CorrectionMetrics } => {
  const [own, sampled] = [tokenList(rows, 'oldLogProbs'), tokenList(rows, 'behaviorLogProbs')]
  if (own === undefined || sampled === undefined)
    throw new RangeError('correctedRows: the rows have no behaviorLogProbs; add them with rescoredRows')
  const masks = rows.masks ?? rows.completions.map((row) => Array.from(row, () => 1))
  const difference = own.map((row, i) => Array.from(row, (x, t) => x - (sampled[i]?.[t] ?? Number.NaN)))
  const { weights, mask, metrics } = rolloutCorrection(difference, masks, options)
  const before = tokenList(rows, 'weights')
  const all = before === undefined ? weights : weights.map((row, i) => row.map((w, t) => w * before[i]![t]!))
  return { rows: { ...rows, masks: mask, lists: { ...rows.lists, weights: all } }, metrics }
}

/** Rows with tokens that older weights sampled than the ones being trained. */
import type { CollectedBatch } from '../collectors/rollouts/turnRows.js'
import type { Data, Ragged } from '../data/tensorDict/leaf.js'
import { raggedRow } from '../data/tensorDict/leaf.js'
import { find, get, type TensorDict } from '../data/tensorDict/tensorDict.js'
import type { LossRows } from '../objectives/lossRows.js'
import type { CorrectionMetrics, RolloutCorrectionOptions } from '../objectives/rolloutCorrection.js'
import { correctedRows, rescoredRows } from './steps/correction.js'

type Stamped = {
  readonly tokens: TensorDict<{ readonly response: Ragged<'int32'> }>
  readonly policyVersion: Data<number>
}

/**
 * Returns the staleness of each token in updates, for training version `version + 1`. Uses the
 * version of each token (`versions.response`, with `mixedVersions: 'each'`) if recorded, otherwise
 * the version of the row, which is that of its oldest token.
 *
 * Errors   throws RangeError for a token that is newer than `version`.
 */
export const tokenLags = <O>(
  batch: CollectedBatch<O>,
  rows: readonly number[],
  version: number,
): readonly (readonly number[])[] => {
  const td = batch as TensorDict as TensorDict<Stamped> // every action has them
  const each = find(td, ['versions', 'response'])
  const versions = get(td, 'policyVersion').items
  const stamps = (row: number): ArrayLike<number> =>
    each !== undefined && '_tag' in each && each._tag === 'Ragged'
      ? raggedRow(each, row)
      : Array.from(raggedRow(get(td, 'tokens', 'response'), row), () => versions.get(row)!)
  return rows.map((row) => {
    const lags = Array.from(stamps(row), (stamp) => version - stamp)
    const newest = lags.find((lag) => lag < 0)
    if (newest !== undefined)
      throw new RangeError(`tokenLags: row ${row} has a token of version ${version - newest}, newer than ${version}`)
    return lags
  })
}

/** Weights per token, truncated at 2, as in verl. */
const BY_TOKEN: RolloutCorrectionOptions = { weights: { level: 'token', limit: 2 } }

/** Data about the tokens of rows: one number for each token of each completion. */
export interface StaleTokens {
  /** The trainer's own log-probabilities, at the rows' temperature. Ignored where the lag is 0. */
  readonly own: readonly ArrayLike<number>[]
  /** Updates since each token was sampled: `tokenLags`. */
  readonly lags: readonly ArrayLike<number>[]
}

/**
 * Corrects the stale tokens of rows for the difference between the sampling weights and the current
 * ones. Their ratio is taken against the trainer's own log-probability `own`, and their loss is
 * weighted by `min(pi_own / pi_sampled, limit)`. Tokens of lag 0 keep weight 1 and their ratio, so
 * rows without stale tokens train exactly as without this correction, bit for bit.
 *
 * Errors   throws RangeError for lists that do not match the rows, and for invalid limits.
 * Effects  none.
 * Source   decoupled PPO: Hilton et al. 2022, arXiv:2110.00641; AReaL, arXiv:2505.24298, equation
 *          5.
 *
 * @example
 * const rows = { prompts: [[1]], completions: [[2, 3]], temperature: 1, lists: { oldLogProbs: [[-2, -2]] } }
 * correctStaleRows(rows, { own: [[-1.5, -1.9]], lags: [[1, 0]] }).rows.lists.oldLogProbs // [[-1.5, -2]]
 */
export const correctStaleRows = (
  rows: LossRows,
  { own, lags }: StaleTokens,
): { readonly rows: LossRows; readonly metrics: CorrectionMetrics } => {
  const { completions } = rows
  const oldLogProbs = rows.lists.oldLogProbs as readonly ArrayLike<number>[] // of policy losses
  const isShaped = (list: readonly ArrayLike<number>[]): boolean =>
    list.length === completions.length && list.every((row, i) => row.length === completions[i]!.length)
  if (!isShaped(own) || !isShaped(lags))
    throw new RangeError('correctStaleRows: own and lags must have a number for each token of each completion')
  const now = oldLogProbs.map((row, i) => Array.from(row, (x, t) => (lags[i]![t]! > 0 ? own[i]![t]! : x)))
  return correctedRows(rescoredRows(rows, now), BY_TOKEN)
}

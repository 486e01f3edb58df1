/** Rows of which some tokens were sampled by older weights than those that learn from them. */
import type { Data, Ragged } from '../../data/tensorDict/leaf.js'
import { raggedRow } from '../../data/tensorDict/leaf.js'
import { find, get, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { CorrectionMetrics, RolloutCorrectionOptions } from '../../objectives/rolloutCorrection.js'
import type { CollectedBatch } from '../rollouts/turnRows.js'
import { correctedRows, rescoredRows } from '../steps/correction.js'
import type { TrainingRows } from '../steps/stepRows.js'

type Stamped = {
  readonly tokens: TensorDict<{ readonly response: Ragged<'int32'> }>
  readonly policyVersion: Data<number>
}

/**
 * How many updates ago each token of some rows was sampled, for those who are about to learn version `version + 1`. Where the policy
 * stamped each token (`versions.response`: `mixedVersions` is `each`) by its own stamp, else by that of the row, which is its oldest token's.
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

/** Each token alone, its weight cut off at 2: as verl truncates. */
const BY_TOKEN: RolloutCorrectionOptions = { weights: { level: 'token', limit: 2 } }

/** What is known of the tokens of rows: a number for each token of each completion. */
export interface StaleTokens {
  /** The trainer's own log-probabilities, at the temperature of the rows. What they are where the lag is 0 does not matter. */
  readonly own: readonly ArrayLike<number>[]
  /** Updates since it was sampled: `tokenLags`. */
  readonly lags: readonly ArrayLike<number>[]
}

/**
 * Rows whose stale tokens count by what the trainer thinks of them now: their ratio is taken against the trainer's own log-probability `own`, and
 * they are weighted by `min(pi_own / pi_sampled, limit)`. Tokens of lag 0 are left as they are, with weight 1, so that rows without a stale
 * token train as they would without this, bit for bit.
 *
 * Errors   throws RangeError for lists that do not fit the rows, and for limits that make no sense.
 * Effects  none.
 * Source   decoupled PPO: Hilton et al. 2022, arXiv:2110.00641; AReaL, arXiv:2505.24298, equation 5.
 *
 * @example
 * const rows = { prompts: [[1]], completions: [[2, 3]], oldLogProbs: [[-2, -2]], advantages: [1], temperature: 1 }
 * correctStaleRows(rows, { own: [[-1.5, -1.9]], lags: [[1, 0]] }).rows.oldLogProbs // [[-1.5, -2]]
 */
export const correctStaleRows = (
  rows: TrainingRows,
  { own, lags }: StaleTokens,
  options: RolloutCorrectionOptions = BY_TOKEN,
): { readonly rows: TrainingRows; readonly metrics: CorrectionMetrics } => {
  const { completions, oldLogProbs } = rows
  const isShaped = (list: readonly ArrayLike<number>[]): boolean =>
    list.length === completions.length && list.every((row, i) => row.length === completions[i]!.length)
  if (!isShaped(own) || !isShaped(lags))
    throw new RangeError('correctStaleRows: own and lags must have a number for each token of each completion')
  const now = oldLogProbs.map((row, i) => Array.from(row, (x, t) => (lags[i]![t]! > 0 ? own[i]![t]! : x)))
  return correctedRows(rescoredRows(rows, now), options)
}

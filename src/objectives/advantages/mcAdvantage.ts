import { checkOptions } from '@tandem-rl/base'
import { MC_ADVANTAGE_OPTIONS } from '../optionKinds.js'
import type { Advantage } from './advantage.js'
import { batchAdvantage, type GroupRule } from './batchAdvantage.js'
import { checkGroupOptions, type GroupAdvantageOptions } from './groupAdvantage.js'
import { grpoAdvantage } from './outcome.js'

export interface MCAdvantageOptions extends GroupAdvantageOptions, GroupRule {
  /** Trajectories in a group. */
  readonly groupSize: number
}

/**
 * Computes group-relative Monte-Carlo advantages of a batch: every trained token of a trajectory
 * gets the advantage of its return in its group.
 *
 * Equation $A_{i,t} = A_i$ of `groupAdvantage` with $R_i$ the sum, the highest or the mean of the
 *          rewards of a trajectory; with bounds a group is kept where $b_l < \bar R < b_h$
 * When     the first choice, with several completions for each prompt. The bounds select groups as
 *          DAPO does: groups that all fail or all succeed have no learning signal.
 *          With `candidateGroupSize`, more trajectories are sampled than are learned from, so that
 *          more groups have a signal.
 * Used by  TorchRL `MCAdvantage`; the bounds: DAPO (arXiv:2503.14476), verl `filter_groups`
 * Shapes   see `RewardedTurns`; writes `advantage`, ragged over `tokens.response`.
 * Errors   throws RangeError unless `groupSize` is at least 1 and the bounds are in order. The
 *          advantage throws RangeError as those of `batchAdvantage`.
 * Source   TorchRL `MCAdvantage`, which groups by the text of the prompt, and keeps an internal
 *          queue of incomplete groups.
 *
 * @example
 * MCAdvantage({ groupSize: 8 }).groupSize // 8
 */
export const MCAdvantage = (options: MCAdvantageOptions): Advantage => {
  const { normalize, epsilon, epsilonRule, single, ...rule } = options
  checkOptions('MCAdvantage', options, MC_ADVANTAGE_OPTIONS)
  const settings = Object.fromEntries(
    Object.entries({ normalize, epsilon, epsilonRule, single }).filter(([, value]) => value !== undefined),
  )
  checkGroupOptions('MCAdvantage', settings)
  return batchAdvantage((rows) => grpoAdvantage(rows, settings), { ...rule, name: 'MCAdvantage', settings })
}

import { checkOptions } from '../../core/options.js'
import type { Advantage } from './advantage.js'
import { batchAdvantage, checkGroupRule, GROUP_RULE, type GroupRule } from './batchAdvantage.js'
import { checkGroupOptions, GROUP_SETTINGS, type GroupAdvantageOptions } from './groupAdvantage.js'
import { grpoAdvantage } from './outcome.js'

export interface MCAdvantageOptions extends GroupAdvantageOptions, GroupRule {
  /** Trajectories in a group. */
  readonly groupSize: number
}

/**
 * Computes group-relative Monte-Carlo advantages of a batch: every trained token of a trajectory
 * gets the advantage of its return in its group.
 *
 * Equation $A_{i,t} = A_i$ of `groupAdvantage`; with bounds a group is kept where
 *          $b_l < \bar R < b_h$
 * When     the first choice, with several completions for each prompt. The bounds select groups as
 *          DAPO does: groups that all fail or all succeed have no learning signal.
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
  const { groupSize, keepReturnBounds, ...settings } = options
  checkOptions('MCAdvantage', options, { ...GROUP_SETTINGS, ...GROUP_RULE })
  checkGroupOptions('MCAdvantage', settings)
  const rule: GroupRule = { groupSize, ...(keepReturnBounds && { keepReturnBounds }) }
  checkGroupRule('MCAdvantage', rule)
  return batchAdvantage((rows) => grpoAdvantage(rows, settings), {
    ...rule,
    name: 'MCAdvantage',
    settings: { ...settings },
  })
}

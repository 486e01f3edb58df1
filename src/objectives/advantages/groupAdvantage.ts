import { checkOptions, meanOf, normOf, notAWeight, refuse } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { GROUP_ADVANTAGE_OPTIONS } from '../optionKinds.js'

/** A group that cannot be used: it is empty, or a return is NaN or infinite. */
export interface DegenerateGroup {
  readonly _tag: 'DegenerateGroup'
  readonly reason: 'empty' | 'not-finite'
}

export interface GroupAdvantageOptions {
  /**
   * Divide by the standard deviation (GRPO), only subtract the mean (Dr. GRPO), or subtract the
   * mean of the others (RLOO). Default `mean-std`.
   */
  readonly normalize?: 'mean-std' | 'mean' | 'leave-one-out'
  /** Default 1e-6. */
  readonly epsilon?: number
  /**
   * With `floor`, the deviation is at least epsilon (TorchRL); with `add`, epsilon is added to it
   * (verl, TRL). Default `floor`.
   */
  readonly epsilonRule?: 'floor' | 'add'
  /** The advantage in a group of one: zero, or its return (verl). Default `zero`. */
  readonly single?: 'zero' | 'return'
}

/**
 * Throws RangeError for unknown or malformed settings, and for an epsilon that is negative or not a
 * number.
 */
export const checkGroupOptions = (name: string, options: GroupAdvantageOptions): void => {
  checkOptions(name, options, GROUP_ADVANTAGE_OPTIONS)
  refuse(name, [notAWeight('epsilon', options.epsilon ?? 0)])
}

/**
 * Computes the group-relative advantage of each completion of one prompt.
 *
 * `A_i = (R_i - mean(R)) / max(std(R), epsilon)`, where `std` divides by `G - 1`; `R_i - mean(R)`;
 * or `R_i - mean of the others`, which is `G / (G - 1)` times as much. Equal returns, or a group of
 * one, carry no signal: every advantage is 0.
 *
 * Equation $A_i = \frac{R_i - \bar R}{\max(\operatorname{std}(R), \epsilon)}$; `mean`:
 *          $R_i - \bar R$; `leave-one-out`: $R_i - \frac{1}{G - 1} \sum_{j \ne i} R_j$
 * When     `mean-std` is the first choice; `mean` if the difficulty of prompts must not be weighted
 *          (Dr. GRPO); `leave-one-out` for an unbiased gradient.
 * Used by  DeepSeek-R1 (arXiv:2501.12948); TorchRL `MCAdvantage`; TRL `scale_rewards`
 * Shapes   `returns` is `[G]`, one scalar per completion, `G >= 1`; the result is `[G]`, same
 *          order.
 * Units    `returns` in reward units; the result is a pure number (standard deviations), or reward
 *          units for `mean` and `leave-one-out`.
 * Errors   `Left(DegenerateGroup)` if `returns` is empty, or a return is NaN or infinite.
 * Effects  none. Cost: O(G).
 * Source   GRPO, Shao et al. 2024, arXiv:2402.03300, section 4.1; `G - 1` and the floor as in
 *          TorchRL `MCAdvantage`, whose group of one is NaN. `mean` is Dr. GRPO, arXiv:2503.20783.
 *          `leave-one-out` is RLOO, Ahmadian et al. 2024, arXiv:2402.14740, equation 8.
 *
 * @example
 * groupAdvantage([0, 1]) // right([-0.7071067811865475, 0.7071067811865475])
 * groupAdvantage([0, 1], { normalize: 'leave-one-out' }) // right([-1, 1])
 */
export const groupAdvantage = (
  returns: readonly number[],
  options: GroupAdvantageOptions = {},
): E.Either<DegenerateGroup, readonly number[]> => {
  checkGroupOptions('groupAdvantage', options)
  const { normalize = 'mean-std', epsilon = 1e-6, epsilonRule = 'floor', single = 'zero' } = options
  const size = returns.length
  if (size === 0) return E.left({ _tag: 'DegenerateGroup', reason: 'empty' })
  if (!returns.every(Number.isFinite)) return E.left({ _tag: 'DegenerateGroup', reason: 'not-finite' })
  if (size === 1) return E.right(single === 'zero' ? [0] : returns)
  const mean = meanOf(returns)
  const centered = returns.every((r) => r === returns[0]) ? returns.map(() => 0) : returns.map((r) => r - mean)
  if (normalize === 'mean') return E.right(centered)
  if (normalize === 'leave-one-out') return E.right(centered.map((d) => (d * size) / (size - 1)))
  const deviation = normOf(centered) / Math.sqrt(size - 1)
  const unit = epsilonRule === 'floor' ? Math.max(deviation, epsilon) : deviation + epsilon
  return E.right(centered.map((d) => d / unit))
}

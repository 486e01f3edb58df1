import * as E from 'fp-ts/lib/Either.js'

/** A group cannot be used: a return is NaN or infinite. */
export interface DegenerateGroup {
  readonly _tag: 'DegenerateGroup'
  readonly reason: 'empty' | 'not-finite'
}

export interface GroupAdvantageOptions {
  /** Divide by the standard deviation (GRPO), or only subtract the mean (Dr. GRPO). Default `mean-std`. */
  readonly normalize?: 'mean-std' | 'mean'
  /** The smallest standard deviation that is divided by. Default 1e-6. */
  readonly epsilon?: number
}

/**
 * Group-relative advantage of each completion of one prompt.
 *
 * `A_i = (R_i - mean(R)) / max(std(R), epsilon)`, where `std` divides by `G - 1`. Equal returns, or a group of one, carry no signal: every
 * advantage is 0.
 *
 * Shapes   `returns` is `[G]`, one scalar per completion, `G >= 1`; the result is `[G]`, same order.
 * Units    `returns` in reward units; the result is a pure number (standard deviations), or reward units for `mean`.
 * Errors   `Left(DegenerateGroup)` if there is no return, or one is NaN or infinite.
 * Effects  none. Cost: O(G).
 * Source   GRPO, Shao et al. 2024, arXiv:2402.03300, section 4.1; `G - 1` and the floor as in TorchRL `MCAdvantage`, whose group of one
 *          is NaN. `mean` is Dr. GRPO, arXiv:2503.20783.
 *
 * @example
 * groupAdvantage([0, 1]) // right([-0.7071067811865475, 0.7071067811865475])
 * groupAdvantage([1, 1]) // right([0, 0])
 */
export const groupAdvantage = (
  returns: readonly number[],
  options: GroupAdvantageOptions = {},
): E.Either<DegenerateGroup, readonly number[]> => {
  const { normalize = 'mean-std', epsilon = 1e-6 } = options
  const size = returns.length
  if (size === 0) return E.left({ _tag: 'DegenerateGroup', reason: 'empty' })
  if (!returns.every(Number.isFinite)) return E.left({ _tag: 'DegenerateGroup', reason: 'not-finite' })
  const mean = returns.reduce((sum, r) => sum + r, 0) / size
  const centered = returns.every((r) => r === returns[0]) ? returns.map(() => 0) : returns.map((r) => r - mean)
  if (normalize === 'mean' || size === 1) return E.right(centered)
  const variance = centered.reduce((sum, d) => sum + d * d, 0) / (size - 1)
  return E.right(centered.map((d) => d / Math.max(Math.sqrt(variance), epsilon)))
}

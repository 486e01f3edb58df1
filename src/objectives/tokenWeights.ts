/**
 * Weights that exclude tokens from the objective but not from the counts, for `policyLoss`'s
 * `weights`. Compute them over the whole mini-batch.
 */
import { checkShapes, lengthsOf, type TokenAdvantages, type TokenRows, underMask } from './advantages/rows.js'

/** Returns the `q` quantile of sorted numbers, with linear interpolation. */
const quantile = (sorted: readonly number[], q: number): number => {
  const place = q * (sorted.length - 1)
  const [low, high] = [sorted[Math.floor(place)]!, sorted[Math.ceil(place)]!]
  return low + (high - low) * (place - Math.floor(place))
}

/**
 * Returns 1 for the share of tokens with the highest entropy, and 0 for the others, so that only
 * tokens at which the policy decides are learned.
 *
 * A token is kept if its entropy is at least the `1 - share` quantile of those of all unmasked
 * tokens.
 *
 * Equation $u_t = [H_t \ge Q_{1 - share}(H)]$
 * When     for reasoning: most tokens only continue an earlier decision.
 * Used by  arXiv:2506.01939; TRL `top_entropy_quantile`
 * Shapes   rows of equal lengths; masked tokens have no effect and weight 0. Entropies in nats.
 * Errors   throws RangeError for a share outside (0, 1], or rows that do not fit each other.
 * Source   Wang et al. 2025, "Beyond the 80/20 Rule", arXiv:2506.01939, equation 5; TRL
 *          `top_entropy_quantile`.
 *
 * @example
 * highEntropyWeights([[0.1, 2, 0.2]], [[1, 1, 1]], 0.3) // [[0, 1, 0]]
 */
export const highEntropyWeights = (entropies: TokenRows, mask: TokenRows, share: number): TokenAdvantages => {
  if (!(share > 0 && share <= 1))
    throw new RangeError(`highEntropyWeights: share must be above 0 and at most 1, got ${share}`)
  checkShapes('highEntropyWeights', mask, { entropies })
  const counted = entropies.flatMap((row, b) => Array.from(row).filter((_, t) => mask[b]![t] !== 0))
  const threshold =
    counted.length === 0
      ? 0
      : quantile(
          counted.toSorted((a, b) => a - b),
          1 - share,
        )
  return entropies.map((row, b) => Array.from(row, (x, t) => (mask[b]![t] !== 0 && x >= threshold ? 1 : 0)))
}

/**
 * Returns 0 for completions with a negative advantage that the policy has moved away from, and 1
 * for all others, because bad completions that have become unlikely have no learning signal.
 *
 * A completion is excluded if its advantage is negative and the mean of `log pi_sampler - log pi`
 * over its tokens is above the limit.
 *
 * Equation $u_i = 0$ where $A_i < 0$ and
 *          $\operatorname{mean}_t(\log \pi_{sampler} - \log \pi) > limit$, else 1
 * When     for old batches, combined with any objective.
 * Used by  DeepSeek-V3.2 (arXiv:2512.02556); TRL `off_policy_mask_threshold`
 * Shapes   `difference`, `log pi - log pi_sampler`, and `mask` are rows of equal lengths,
 *          `advantages` one number for each row.
 * Errors   throws RangeError for rows that do not fit each other, or a limit that is NaN.
 * Source   DeepSeek-AI 2025, "DeepSeek-V3.2", arXiv:2512.02556, section 3.1; TRL
 *          `off_policy_mask_threshold`.
 *
 * @example
 * offPolicyWeights({ difference: [[-1, -3], [-1, -3]], advantages: [1, -1], mask: [[1, 1], [1, 1]] }, 0.5) // [[1, 1], [0, 0]]
 */
export const offPolicyWeights = (
  rows: { readonly difference: TokenRows; readonly advantages: readonly number[]; readonly mask: TokenRows },
  limit: number,
): TokenAdvantages => {
  const { difference, advantages, mask } = rows
  checkShapes('offPolicyWeights', mask, { difference })
  if (advantages.length !== mask.length || Number.isNaN(limit))
    throw new RangeError(
      `offPolicyWeights: ${advantages.length} advantages for ${mask.length} rows, and the limit is ${limit}`,
    )
  const lengths = lengthsOf(mask)
  return underMask(difference, mask).map((row, b) => {
    const divergence = -row.reduce((sum, x) => sum + x, 0) / Math.max(lengths[b]!, 1)
    const isKept = advantages[b]! >= 0 || divergence <= limit
    return Array.from(mask[b]!, (m) => (m !== 0 && isKept ? 1 : 0))
  })
}

/** The effective sample size of importance weights. */

/**
 * Computes the effective sample size as a share of the tokens, in (0, 1]: `(sum w)^2 / (n sum
 * w^2)`. Returns 0 without unmasked tokens.
 *
 * Equation $\frac{(\sum_t w_t)^2}{n \sum_t w_t^2}$
 * When     as a metric of the distance between a batch and the trained policy: near 1 on policy.
 * Used by  TorchRL `ESS` of `GRPOLoss`
 *
 * @example
 * essOf({ logSumWeights: Math.log(2), logSumSquaredWeights: Math.log(2), tokens: 2 }) // 1
 */
export const essOf = (parts: {
  readonly logSumWeights: number
  readonly logSumSquaredWeights: number
  readonly tokens: number
}): number => (parts.tokens === 0 ? 0 : Math.exp(2 * parts.logSumWeights - parts.logSumSquaredWeights) / parts.tokens)

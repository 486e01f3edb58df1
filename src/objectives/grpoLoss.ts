/** The clipped policy-gradient loss of GRPO with its metrics, in TorchRL's names. */
import { checkOptions, moduleExport, notAWeight, refuse } from '@tandem-rl/base'
import { plainSettings } from './loss.js'
import { GRPO_LOSS_OPTIONS } from './optionKinds.js'
import { type KLTerm, type PolicyLoss, policyLoss } from './policyLoss.js'
import { clippedSurrogate } from './tokenLosses/clippedSurrogate.js'
import type { ClipEpsilon } from './tokenLosses/clipRange.js'

export interface GRPOLossOptions {
  /**
   * The clip range of the ratio: `e` for `1 - e .. 1 + e`, or `[low, high]` for `1 - low .. 1 +
   * high`. Default 0.2.
   */
  readonly clipEpsilon?: ClipEpsilon
  /**
   * The mean over all tokens, or the mean over completions of their means. Default `token-mean`.
   */
  readonly aggregation?: 'token-mean' | 'prompt-mean'
  /** Weight of the entropy bonus. Default 0: none. */
  readonly entropyCoefficient?: number
  /** Weight of the KL divergence to the reference model (k3). Default 0: none. */
  readonly klToRefCoefficient?: number
  /** Weight of the KL divergence to the policy that sampled (k3). Default 0: none. */
  readonly klToInferenceCoefficient?: number
  /** Masks tokens with `(log pi - log pi_old)^2 / 2` above this threshold. */
  readonly klMaskThreshold?: number
}

export type GRPOLoss = PolicyLoss

const divergences = ({ klToRefCoefficient = 0, klToInferenceCoefficient = 0 }: GRPOLossOptions): readonly KLTerm[] => {
  const term = (to: KLTerm['to'], coefficient: number): readonly KLTerm[] =>
    coefficient === 0 ? [] : [{ to, coefficient, aggregation: 'token-mean' }]
  return [...term('reference', klToRefCoefficient), ...term('behavior', klToInferenceCoefficient)]
}

/**
 * Implements the loss of GRPO.
 *
 * Per token, with the ratio `w = pi / pi_old`: `J = min(w A, clip(w, 1 - low, 1 + high) A)`; the
 * loss is `-J`, aggregated over the unmasked tokens. If their coefficients are not 0, two terms are
 * added: `- entropyCoefficient * H` in the same aggregation, and k3 divergences to the reference
 * and to the sampling policy as means over tokens.
 *
 * Equation $L = \operatorname{agg}_t(\max(-w_t A_t, -\operatorname{clip}(w_t, 1 - \epsilon_l, 1 +
 *          \epsilon_h) A_t)) - c_H \operatorname{agg}_t(H_t) + \sum_q c_q
 *          \operatorname{mean}_t(k_3(\log \pi_t - \log q_t))$
 * Gradient of the first term $-w_t A_t$, and 0 where the clipped term is the larger one
 * When     for code ported from TorchRL: its names and its output. `policyLoss` has more settings.
 * Used by  TorchRL `GRPOLoss`; the method: DeepSeekMath (arXiv:2402.03300), DeepSeek-R1
 *          (arXiv:2501.12948)
 * Shapes   see `PolicyLossInput` and `PolicyLossOutput`.
 * Errors   throws RangeError for invalid settings, for shapes that do not fit (all named), or a
 *          term without its input.
 * Edges    without unmasked tokens, every loss and metric is 0 and so is the gradient; masked
 *          values have no effect.
 * Source   Shao et al. 2024, arXiv:2402.03300, equation 3; asymmetric clipping: Yu et al. 2025,
 *          arXiv:2503.14476 (DAPO), section 3.1; TorchRL `GRPOLoss`, undiluted.
 */
export const GRPOLoss = (options: GRPOLossOptions = {}): GRPOLoss => {
  checkOptions('GRPOLoss', options, GRPO_LOSS_OPTIONS)
  const { clipEpsilon, aggregation, entropyCoefficient, klMaskThreshold } = options
  const { klToRefCoefficient = 0, klToInferenceCoefficient = 0 } = options
  refuse('GRPOLoss', [
    notAWeight('klToRefCoefficient', klToRefCoefficient),
    notAWeight('klToInferenceCoefficient', klToInferenceCoefficient),
  ])
  const loss = policyLoss(
    {
      objective: clippedSurrogate(clipEpsilon === undefined ? {} : { clipEpsilon }),
      kl: divergences(options),
      ...(aggregation !== undefined && { aggregation }),
      ...(entropyCoefficient !== undefined && { entropyCoefficient }),
      ...(klMaskThreshold !== undefined && { klMaskThreshold }),
    },
    'GRPOLoss',
  )
  const module = moduleExport(import.meta.url, 'GRPOLoss', options)
  return { ...loss, name: 'GRPOLoss', options: plainSettings(options), module }
}

/** KL penalties in the reward, and controllers of their weight. */
import { checkOptions, notAWeight, refuse } from '@tandem-rl/base'
import { type RewardKLForm, rewardKL } from '../data/rewardKL.js'
import { checkShapes, type TokenAdvantages, type TokenRows, underMask } from './advantages/rows.js'
import { ADAPTIVE_KL_CONTROLLER_OPTIONS, KL_PENALIZED_REWARDS_OPTIONS } from './optionKinds.js'

export interface KLRewardOptions {
  /** Default k1. */
  readonly form?: RewardKLForm
  readonly coefficient: number
}

/**
 * Subtracts the divergence of each token from its reward, `r_t - coefficient * kl_t`, and returns
 * the mean divergence for a controller.
 *
 * Equation $r_t \leftarrow r_t - \beta k(\log \pi_t - \log q_t)$
 * When     if the divergence should be part of the return, as in PPO for preferences. Do not
 *          combine it with a KL term in the loss.
 * Used by  InstructGPT (arXiv:2203.02155); verl `use_kl_in_reward`; TorchRL `KLRewardTransform`
 * Shapes   rows of equal lengths; masked values are unchanged and not counted.
 * Errors   throws RangeError for rows that do not fit each other.
 * Source   Ziegler et al. 2019, arXiv:1909.08593, equation 2; verl `apply_kl_penalty`; TorchRL
 *          `KLComputation`.
 *
 * @example
 * klPenalizedRewards({ rewards: [[0, 1]], logProbs: [[-1, -1]], reference: [[-2, -1]], mask: [[1, 1]] }, { coefficient: 0.5 }).rewards // [[-0.5, 1]]
 */
export const klPenalizedRewards = (
  rows: {
    readonly rewards: TokenRows
    readonly logProbs: TokenRows
    readonly reference: TokenRows
    readonly mask: TokenRows
  },
  options: KLRewardOptions,
): { readonly rewards: TokenAdvantages; readonly kl: number } => {
  checkOptions('klPenalizedRewards', options, KL_PENALIZED_REWARDS_OPTIONS)
  const { form = 'k1', coefficient } = options
  refuse('klPenalizedRewards', [notAWeight('coefficient', coefficient)])
  const { rewards, logProbs, reference, mask } = rows
  checkShapes('klPenalizedRewards', mask, { rewards, logProbs, reference })
  const [policy, other] = [underMask(logProbs, mask), underMask(reference, mask)]
  const kl = policy.map((row, b) => row.map((x, t) => rewardKL(form, x - other[b]![t]!)))
  const tokens = mask.reduce((sum, row) => sum + Array.from(row).filter((m) => m !== 0).length, 0)
  const total = kl.reduce((sum, row) => sum + row.reduce((a, x) => a + x, 0), 0)
  return {
    rewards: rewards.map((row, b) => Array.from(row, (r, t) => (mask[b]![t] === 0 ? r : r - coefficient * kl[b]![t]!))),
    kl: tokens === 0 ? 0 : total / tokens,
  }
}

/** The weight of the divergence as a pure state machine: `update` returns the next one. */
export interface KLController {
  readonly coefficient: number
  /** Updates the weight. `kl` is the mean divergence that was observed over `count` completions. */
  readonly update: (kl: number, count: number) => KLController
}

/** Throws RangeError if the divergence is NaN, or the count is negative or not finite. */
const checkObserved = (name: string, kl: number, count: number): void =>
  refuse(name, [Number.isNaN(kl) && 'the divergence is NaN', notAWeight('the count of completions', count)])

/**
 * Creates a controller with a constant weight.
 *
 * Equation $\beta \leftarrow \beta$
 * When     the first choice.
 * Used by  verl `kl_ctrl.type=fixed`; TorchRL `ConstantKLController`
 * Errors   throws RangeError for a weight that is negative or not a number.
 *
 * @example
 * ConstantKLController(0.1).update(9, 256).coefficient // 0.1
 */
export const ConstantKLController = (coefficient: number): KLController => {
  refuse('ConstantKLController', [notAWeight('the coefficient', coefficient)])
  const controller: KLController = { coefficient, update: () => controller }
  return controller
}

export interface AdaptiveKLOptions {
  readonly initial: number
  /** The target divergence, in nats. */
  readonly target: number
  /**
   * The number of completions over which an error of 1 changes the weight by a factor of about e.
   */
  readonly horizon: number
}

/**
 * Creates a controller that tracks a target: `beta <- beta (1 + clip(kl / target - 1, -0.2, 0.2) n
 * / horizon)`.
 *
 * Equation $\beta \leftarrow \beta (1 + \operatorname{clip}(\frac{KL}{KL_{target}} - 1, -0.2, 0.2)
 *          \frac{n}{horizon})$
 * When     if the divergence should stay near a value over a long run.
 * Used by  arXiv:1909.08593; verl `kl_ctrl.type=adaptive`; TorchRL `AdaptiveKLController`
 * Errors   throws RangeError for a target or a horizon that is not positive, or a weight that is
 *          negative; `update` for a divergence that is NaN or a count that is negative.
 * Source   Ziegler et al. 2019, arXiv:1909.08593, section 2.2; TorchRL `AdaptiveKLController`.
 *
 * @example
 * AdaptiveKLController({ initial: 0.1, target: 6, horizon: 10000 }).update(9, 256).coefficient // 0.100512
 */
export const AdaptiveKLController = (options: AdaptiveKLOptions): KLController => {
  checkOptions('AdaptiveKLController', options, ADAPTIVE_KL_CONTROLLER_OPTIONS)
  const { initial, target, horizon } = options
  if (!(target > 0 && horizon > 0 && initial >= 0 && Number.isFinite(target + horizon + initial)))
    throw new RangeError(
      `AdaptiveKLController: target and horizon must be positive and initial not negative, got ${target}, ${horizon} and ${initial}`,
    )
  const at = (coefficient: number): KLController => ({
    coefficient,
    update: (kl, count) => {
      checkObserved('AdaptiveKLController', kl, count)
      const error = Math.min(0.2, Math.max(-0.2, kl / target - 1))
      return at(coefficient * (1 + (error * count) / horizon))
    },
  })
  return at(initial)
}

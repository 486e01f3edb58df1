/** Estimators of the KL divergence in the reward: plain numbers, without gradients. */

/**
 * An estimator. With `d = log pi - log q`: `k1` is `d`, `abs` is `|d|`, `k2` is `d^2 / 2`, `k3` is
 * `e^-d - 1 + d`, `k3-limited` is the same with `-d` limited to 20 and the value to 10.
 */
export type RewardKLForm = (typeof REWARD_KL_FORMS)[number]

export const REWARD_KL_FORMS = ['k1', 'abs', 'k2', 'k3', 'k3-limited'] as const

const LARGEST_LOG = 20
const LARGEST_VALUE = 10

/**
 * Estimates the divergence for one token that `pi` sampled, from `difference = log pi - log q`. In
 * nats.
 *
 * Source   Schulman 2020, "Approximating KL divergence"; verl `kl_penalty`, whose `low_var_kl` is
 *          `k3-limited`.
 *
 * @example
 * rewardKL('k2', 2) // 2
 */
export const rewardKL = (form: RewardKLForm, difference: number): number => {
  switch (form) {
    case 'k1':
      return difference
    case 'abs':
      return Math.abs(difference)
    case 'k2':
      return 0.5 * difference * difference
    case 'k3':
      return Math.expm1(-difference) + difference
    case 'k3-limited': {
      const x = Math.min(LARGEST_LOG, Math.max(-LARGEST_LOG, -difference))
      return Math.min(LARGEST_VALUE, Math.expm1(x) - x)
    }
  }
}

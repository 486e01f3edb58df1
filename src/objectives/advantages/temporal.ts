/**
 * Advantages that differ from token to token. Masked tokens are skipped: the next unmasked token
 * follows immediately.
 */
import { checkOptions } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import {
  GAE_OPTIONS,
  OPTIMAL_TOKEN_BASELINE_OPTIONS,
  REINFORCE_PLUS_PLUS_OPTIONS,
  V_TRACE_OPTIONS,
} from '../optionKinds.js'
import type { DegenerateGroup } from './groupAdvantage.js'
import {
  checkRows,
  finite,
  groupRows,
  type RewardedRows,
  type TokenAdvantages,
  type TokenRows,
  underMask,
  whiten,
} from './rows.js'

type Advantages = E.Either<DegenerateGroup, TokenAdvantages>

/** Throws RangeError for a number that is not in [0, 1]. */
const checkShare = (name: string, shares: Readonly<Record<string, number>>): void => {
  const wrong = Object.entries(shares).find(([, x]) => !(x >= 0 && x <= 1))
  if (wrong !== undefined) throw new RangeError(`${name}: ${wrong[0]} must be from 0 to 1, got ${wrong[1]}`)
}

/** Walks the unmasked tokens of each row backwards. `step` gets an index and the state after it. */
const backwards = <S>(
  mask: TokenRows,
  start: (row: number) => S,
  step: (row: number, place: number, after: S) => readonly [value: number, state: S],
): TokenAdvantages =>
  mask.map((row, b) => {
    const values = new Array<number>(row.length).fill(0)
    let state = start(b)
    for (let t = row.length - 1; t >= 0; t--) {
      if (row[t] === 0) continue
      const [value, next] = step(b, t, state)
      values[t] = value
      state = next
    }
    return values
  })

/** Returns the rewards to go, `G_t = r_t + gamma G_next`. */
const rewardsToGo = ({ rewards, mask }: RewardedRows, gamma: number): TokenAdvantages => {
  const clean = underMask(rewards, mask)
  return backwards(
    mask,
    () => 0,
    (b, t, after) => {
      const value = clean[b]![t]! + gamma * after
      return [value, value] as const
    },
  )
}

export interface GAEOptions {
  /** Default 1. */
  readonly gamma?: number
  /** Default 1. */
  readonly lambda?: number
  /** Default `yes`. */
  readonly whitened?: 'yes' | 'no'
}

/** Advantages, and the targets of the value function. */
export interface Estimated {
  readonly advantages: TokenAdvantages
  readonly returns: TokenAdvantages
}

/**
 * Computes generalized advantage estimates over the unmasked tokens, across all turns of a
 * conversation: `delta_t = r_t + gamma V_next - V_t`, `A_t = delta_t + gamma lambda A_next`;
 * returns are `A + V` before whitening.
 *
 * Equation $A_t = \delta_t + \gamma \lambda A_{t+1}$ with $\delta_t = r_t + \gamma V_{t+1} - V_t$;
 *          returns $A_t + V_t$
 * When     with a value function (`valueLoss`): credit by token, one completion for a prompt is
 *          enough.
 * Used by  PPO for InstructGPT (arXiv:2203.02155); verl `adv_estimator=gae`; TorchRL `GAE`
 * Shapes   rows as `RewardedRows`; `values` are as long.
 * Errors   `Left(DegenerateGroup)` for numbers that are NaN or infinite; throws RangeError for rows
 *          that do not fit, gamma or lambda not in [0, 1].
 * Source   Schulman et al. 2016, arXiv:1506.02438, equation 16; verl `gae`.
 *
 * @example
 * gae({ groups: ['a'], rewards: [[0, 1]], mask: [[1, 1]] }, [[0.5, 0.5]], { whitened: 'no' }) // right({ advantages: [[0.5, 0.5]], returns: [[1, 1]] })
 */
export const gae = (
  rows: RewardedRows,
  values: TokenRows,
  options: GAEOptions = {},
): E.Either<DegenerateGroup, Estimated> => {
  checkOptions('gae', options, GAE_OPTIONS)
  const { gamma = 1, lambda = 1, whitened = 'yes' } = options
  checkRows('gae', rows, { values })
  checkShare('gae', { gamma, lambda })
  const rewards = underMask(rows.rewards, rows.mask)
  const value = underMask(values, rows.mask)
  const raw = backwards(
    rows.mask,
    () => ({ advantage: 0, value: 0 }),
    (b, t, after) => {
      const delta = rewards[b]![t]! + gamma * after.value - value[b]![t]!
      const advantage = delta + gamma * lambda * after.advantage
      return [advantage, { advantage, value: value[b]![t]! }] as const
    },
  )
  return pipe(
    finite(raw),
    E.map((advantages) => ({
      advantages: whitened === 'yes' ? whiten(advantages, rows.mask) : advantages,
      returns: advantages.map((row, b) => row.map((a, t) => a + value[b]![t]!)),
    })),
  )
}

/**
 * Implements REINFORCE++: rewards to go, whitened over the tokens of the batch.
 *
 * Equation $A_t = \operatorname{whiten}(G_t)$ with $G_t = r_t + \gamma G_{t+1}$
 * When     with one completion for each prompt and no value function.
 * Used by  arXiv:2501.03262; verl `adv_estimator=reinforce_plus_plus`
 * Errors   as `gae`.
 * Source   Hu et al. 2025, arXiv:2501.03262, section 3; verl `reinforce_plus_plus`.
 *
 * @example
 * reinforcePlusPlus({ groups: ['a'], rewards: [[0, 0]], mask: [[1, 1]] }) // right({ advantages: [[0, 0]], returns: [[0, 0]] })
 */
export const reinforcePlusPlus = (
  rows: RewardedRows,
  options: { readonly gamma?: number } = {},
): E.Either<DegenerateGroup, Estimated> => {
  checkOptions('reinforcePlusPlus', options, REINFORCE_PLUS_PLUS_OPTIONS)
  const { gamma = 1 } = options
  checkRows('reinforcePlusPlus', rows)
  checkShare('reinforcePlusPlus', { gamma })
  return pipe(
    finite(rewardsToGo(rows, gamma)),
    E.map((returns) => ({ advantages: whiten(returns, rows.mask), returns })),
  )
}

/**
 * Implements ReMax: rewards to go minus the return of the greedy completion of the same prompt.
 *
 * Equation $A_t = G_t - R_{greedy}$
 * When     if a greedy completion is cheaper than a group.
 * Used by  arXiv:2310.10505; verl `adv_estimator=remax`
 * Shapes   `greedy` has one return for each row.
 * Errors   as `gae`.
 * Source   Li et al. 2024, arXiv:2310.10505, algorithm 1.
 *
 * @example
 * remaxAdvantage({ groups: ['a'], rewards: [[0, 1]], mask: [[1, 1]] }, [0.25]) // right([[0.75, 0.75]])
 */
export const remaxAdvantage = (rows: RewardedRows, greedy: readonly number[]): Advantages => {
  checkRows('remaxAdvantage', rows)
  if (greedy.length !== rows.mask.length)
    throw new RangeError(`remaxAdvantage: ${greedy.length} greedy returns for ${rows.mask.length} rows`)
  const toGo = rewardsToGo(rows, 1)
  return finite(toGo.map((row, b) => row.map((g, t) => (rows.mask[b]![t] === 0 ? 0 : g - greedy[b]!))))
}

/** Statistics of the sampler's distribution at each token. */
export interface TokenProbabilities {
  /** Probability of the token that was sampled. */
  readonly chosen: TokenRows
  /** Sum of the squared probabilities of all tokens. */
  readonly sumOfSquares: TokenRows
}

/** Floor of the denominator. */
const TINY = 1e-8

export interface OptimalTokenBaselineOptions {
  /**
   * The tokens of a group's members that are compared: those with the same number of unmasked
   * tokens before them, or those in the same column, as in verl's plain form, where gaps between
   * turns align tokens of different turns. Default `tokens`.
   */
  readonly align?: 'tokens' | 'columns'
}

/** The position of a token. */
interface TokenPlace {
  readonly row: number
  readonly place: number
}

/** Returns the sums of `w_t` over the unmasked tokens, up to each of them. */
const sumsOfSizes = (mask: TokenRows, { chosen, sumOfSquares }: TokenProbabilities): TokenAdvantages =>
  mask.map((row, b) => {
    let sum = 0
    return Array.from(row, (m, t) => {
      if (m !== 0) sum += 1 - 2 * chosen[b]![t]! + sumOfSquares[b]![t]!
      return sum
    })
  })

/** Returns the tokens of a group that share a baseline. */
const besides = (
  members: readonly number[],
  places: readonly (readonly number[])[],
  align: 'tokens' | 'columns',
): readonly (readonly TokenPlace[])[] => {
  const at = new Map<number, TokenPlace[]>()
  for (const row of members)
    for (const [j, place] of places[row]!.entries()) {
      const index = align === 'tokens' ? j : place
      at.set(index, [...(at.get(index) ?? []), { row, place }])
    }
  return [...at.values()]
}

/**
 * Subtracts the baseline with the least variance at each token, for groups of conversations with
 * several turns.
 *
 * With `w_t = 1 - 2 p_t + sum p^2`, the squared size of the gradient of the token's logits, and
 * `W_t` its sum up to t: `b_t = sum_g G W / sum_g W` over the members of the group that have a t-th
 * token, and `A_t = G_t - b_t`. Masked tokens are not counted. If only one member has a token, the
 * baseline is 0. With `align: 'columns'`, members are compared column by column; the baseline is 0
 * for a group of one, and for the longest member from the column equal to the number of tokens of
 * the second longest.
 *
 * Equation $A_{i,t} = G_{i,t} - \frac{\sum_j G_{j,t} W_{j,t}}{\sum_j W_{j,t}}$ with
 *          $W_t = \sum_{u \le t} (1 - 2 p_u + \sum_v p_{u,v}^2)$
 * When     with long completions, where the variance of the gradient grows with the length.
 * Used by  arXiv:2602.07078; verl `adv_estimator` `optimal_token_baseline` and
 *          `tir_optimal_token_baseline`
 * Errors   as `gae`.
 * Source   Li et al. 2026, "Optimal Token Baseline", arXiv:2602.07078; verl
 *          `tir_optimal_token_baseline`, and for columns `optimal_token_baseline`.
 */
export const optimalTokenBaseline = (
  rows: RewardedRows,
  probabilities: TokenProbabilities,
  options: OptimalTokenBaselineOptions = {},
): Advantages => {
  checkOptions('optimalTokenBaseline', options, OPTIMAL_TOKEN_BASELINE_OPTIONS)
  const { align = 'tokens' } = options
  checkRows('optimalTokenBaseline', rows, { ...probabilities })
  const toGo = rewardsToGo(rows, 1)
  const places = rows.mask.map((row) => Array.from(row).flatMap((m, t) => (m === 0 ? [] : [t])))
  const weights = sumsOfSizes(rows.mask, probabilities)
  const result = toGo.map((row) => [...row])
  for (const members of groupRows(rows.groups)) {
    const [longest = 0, second = 0] = members.map((b) => places[b]!.length).toSorted((a, b) => b - a)
    for (const tokens of besides(members, places, align)) {
      if (align === 'tokens' ? tokens.length < 2 : members.length < 2) continue
      const sum = (f: (row: number, place: number) => number): number =>
        tokens.reduce((total, { row, place }) => total + f(row, place), 0)
      const total = sum((b, t) => weights[b]![t]!)
      const weighted = sum((b, t) => weights[b]![t]! * toGo[b]![t]!)
      for (const { row, place } of tokens) {
        const isAlone = align === 'columns' && places[row]!.length === longest && longest > second && place >= second
        if (!isAlone) result[row]![place]! -= weighted / (total + TINY)
      }
    }
  }
  return finite(result)
}

export interface VTraceOptions {
  /** Default 1. */
  readonly gamma?: number
  /** Largest weight of a temporal difference. Default 1. */
  readonly largestRho?: number
  /** Largest weight that is passed to earlier tokens. Default 1. */
  readonly largestC?: number
}

/**
 * Implements V-trace: targets for the value function and advantages for the policy from completions
 * of an older one.
 *
 * `delta_t = rho_t (r_t + gamma V_next - V_t)`,
 * `v_t = V_t + delta_t + gamma c_t (v_next - V_next)`, `A_t = rho_t (r_t + gamma v_next - V_t)`,
 * with `rho_t = min(largestRho, pi / mu)` and `c_t = min(largestC, pi / mu)`. After the last token,
 * value and target are 0.
 *
 * Equation $A_t = \rho_t (r_t + \gamma v_{t+1} - V_t)$ with
 *          $v_t = V_t + \delta_t + \gamma c_t (v_{t+1} - V_{t+1})$,
 *          $\delta_t = \rho_t (r_t + \gamma V_{t+1} - V_t)$, $\rho_t = \min(\bar \rho, \pi / \mu)$,
 *          $c_t = \min(\bar c, \pi / \mu)$
 * When     with a value function and completions of an older policy.
 * Used by  IMPALA (arXiv:1802.01561); TorchRL `VTrace`
 * Shapes   `values` and `logRatios`, `log pi - log mu` in nats, are as long as the rows.
 * Errors   as `gae`.
 * Source   Espeholt et al. 2018, arXiv:1802.01561, equation 1 and section 4.2.
 *
 * @example
 * vTrace({ groups: ['a'], rewards: [[1]], mask: [[1]] }, { values: [[0.25]], logRatios: [[0]] }) // right({ advantages: [[0.75]], returns: [[1]] })
 */
export const vTrace = (
  rows: RewardedRows,
  given: { readonly values: TokenRows; readonly logRatios: TokenRows },
  options: VTraceOptions = {},
): E.Either<DegenerateGroup, Estimated> => {
  checkOptions('vTrace', options, V_TRACE_OPTIONS)
  const { gamma = 1, largestRho = 1, largestC = 1 } = options
  checkRows('vTrace', rows, given)
  checkShare('vTrace', { gamma })
  if (!(largestRho > 0 && largestC > 0)) throw new RangeError('vTrace: largestRho and largestC must be positive')
  const rewards = underMask(rows.rewards, rows.mask)
  const values = underMask(given.values, rows.mask)
  const ratios = underMask(given.logRatios, rows.mask).map((row) => row.map(Math.exp))
  const walk = (what: 'advantage' | 'target'): TokenAdvantages =>
    backwards(
      rows.mask,
      () => ({ value: 0, target: 0 }),
      (b, t, after) => {
        const [reward, value, ratio] = [rewards[b]![t]!, values[b]![t]!, ratios[b]![t]!]
        const rho = Math.min(largestRho, ratio)
        const delta = rho * (reward + gamma * after.value - value)
        const target = value + delta + gamma * Math.min(largestC, ratio) * (after.target - after.value)
        const advantage = rho * (reward + gamma * after.target - value)
        return [what === 'advantage' ? advantage : target, { value, target }] as const
      },
    )
  return pipe(
    E.Do,
    E.bind('advantages', () => finite(walk('advantage'))),
    E.bind('returns', () => finite(walk('target'))),
  )
}

/** Advantages from the return of whole completions: the same value for every token. */
import { checkOptions, meanOf, normOf, notAWeight, refuse } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import {
  GPG_ADVANTAGE_OPTIONS,
  OPO_ADVANTAGE_OPTIONS,
  PASS_K_ADVANTAGE_OPTIONS,
  REINFORCE_PLUS_PLUS_BASELINE_OPTIONS,
  RLOO_ADVANTAGE_OPTIONS,
} from '../optionKinds.js'
import {
  checkGroupOptions,
  type DegenerateGroup,
  type GroupAdvantageOptions,
  groupAdvantage,
} from './groupAdvantage.js'
import {
  checkRows,
  finite,
  groupRows,
  lengthsOf,
  type RewardedRows,
  returnsOf,
  spread,
  type TokenAdvantages,
  type TokenRows,
  whiten,
} from './rows.js'

type Advantages = E.Either<DegenerateGroup, TokenAdvantages>

/**
 * The treatment of a group of one, which has no other completion to compare with: advantage 0, or
 * its return.
 */
export interface SingleOptions {
  /** Default `zero`. */
  readonly single?: 'zero' | 'return'
}

/** Computes one number for each row from the returns and lengths of its group. */
type GroupRule = (group: {
  readonly returns: readonly number[]
  readonly lengths: readonly number[]
}) => readonly number[]

/** Applies a rule to each group, without the rows whose tokens are all masked. */
const byGroup = (rows: RewardedRows, rule: GroupRule): E.Either<DegenerateGroup, readonly number[]> => {
  const returns = returnsOf(rows)
  const lengths = lengthsOf(rows.mask)
  if (!returns.every(Number.isFinite)) return E.left({ _tag: 'DegenerateGroup', reason: 'not-finite' })
  const values = new Array<number>(returns.length).fill(0)
  for (const all of groupRows(rows.groups)) {
    const members = all.filter((i) => lengths[i]! > 0)
    if (members.length === 0) continue
    const group = { returns: members.map((i) => returns[i]!), lengths: members.map((i) => lengths[i]!) }
    for (const [place, value] of rule(group).entries()) values[members[place]!] = value
  }
  return E.right(values)
}

const reported = (rows: RewardedRows, values: E.Either<DegenerateGroup, readonly number[]>): Advantages =>
  pipe(
    values,
    E.map((each) => spread(each, rows.mask)),
  )

/**
 * Applies `groupAdvantage` to each row's return and assigns it to every unmasked token. The options
 * give GRPO, Dr. GRPO or token-level RLOO.
 *
 * Equation $A_{i,t} = A_i$ of `groupAdvantage` with $R_i = \sum_t m_{i,t} r_{i,t}$
 * When     for rows of tokens with one group of completions for each prompt.
 * Used by  verl `adv_estimator=grpo`, with `norm_adv_by_std_in_grpo`; TRL `GRPOTrainer`
 * Errors   `Left(DegenerateGroup)` for a return that is NaN or infinite; throws RangeError for rows
 *          that do not fit each other.
 * Edges    a row without unmasked tokens has no return: its group is compared without it.
 *
 * @example
 * grpoAdvantage({ groups: ['a', 'a'], rewards: [[0, 1], [0]], mask: [[1, 1], [1]] }, { normalize: 'mean' }) // right([[0.5, 0.5], [-0.5]])
 */
export const grpoAdvantage = (rows: RewardedRows, options: GroupAdvantageOptions = {}): Advantages => {
  checkGroupOptions('grpoAdvantage', options)
  checkRows('grpoAdvantage', rows)
  const rule: GroupRule = ({ returns }) => E.getOrElse((): readonly number[] => [])(groupAdvantage(returns, options)) // finite
  return reported(rows, byGroup(rows, rule))
}

/**
 * Implements RLOO: the return minus the mean return of the other members of the group.
 *
 * Equation $A_i = R_i - \frac{1}{G - 1} \sum_{j \ne i} R_j$
 * When     with few completions for each prompt, and if the gradient must be unbiased.
 * Used by  arXiv:2402.14740; verl `adv_estimator=rloo`; TRL `RLOOTrainer`
 * Errors   as `grpoAdvantage`.
 * Source   Ahmadian et al. 2024, arXiv:2402.14740, equation 8.
 *
 * @example
 * rlooAdvantage({ groups: ['a', 'a'], rewards: [[1], [0]], mask: [[1], [1]] }) // right([[1], [-1]])
 */
export const rlooAdvantage = (rows: RewardedRows, options: SingleOptions = {}): Advantages => {
  checkOptions('rlooAdvantage', options, RLOO_ADVANTAGE_OPTIONS)
  return grpoAdvantage(rows, { ...options, normalize: 'leave-one-out' })
}

/**
 * Implements OPO: the return minus a length-weighted baseline, `b = sum L R / sum L`, which has the
 * least variance if all tokens' gradients have the same size.
 *
 * Equation $A_i = R_i - \frac{\sum_j L_j R_j}{\sum_j L_j}$
 * When     on policy, with `policyGradient`, if lengths differ much.
 * Used by  arXiv:2505.23585; verl `adv_estimator=opo`
 * Errors   as `grpoAdvantage`.
 * Source   Hao et al. 2025, "On-Policy RL with Optimal Reward Baseline", arXiv:2505.23585, equation 6.
 *
 * @example
 * opoAdvantage({ groups: ['a', 'a'], rewards: [[0, 0, 3], [0]], mask: [[1, 1, 1], [1]] }) // right([[0.75, 0.75, 0.75], [-2.25]])
 */
export const opoAdvantage = (rows: RewardedRows, options: SingleOptions = {}): Advantages => {
  checkOptions('opoAdvantage', options, OPO_ADVANTAGE_OPTIONS)
  const { single = 'zero' } = options
  checkRows('opoAdvantage', rows)
  return reported(
    rows,
    byGroup(rows, ({ returns, lengths }) => {
      if (returns.length === 1) return single === 'zero' ? [0] : returns
      const tokens = lengths.reduce((sum, length) => sum + length, 0)
      const baseline = returns.reduce((sum, r, i) => sum + r * lengths[i]!, 0) / Math.max(tokens, 1)
      return returns.map((r) => r - baseline)
    }),
  )
}

/**
 * Implements GPG: `alpha (R - mean of the group)`, with `alpha` the number of rows divided by the
 * number of rows whose return is not 0, so that batches with few informative rows still have an
 * effect.
 *
 * Equation $A_i = \alpha (R_i - \bar R)$ with $\alpha = B / |\{ j : R_j \ne 0 \}|$, B the number of
 *          rows with unmasked tokens
 * When     on policy, with `policyGradient` and rewards that are mostly 0.
 * Used by  arXiv:2504.02546; verl `adv_estimator=gpg`
 * Errors   as `grpoAdvantage`.
 * Edges   all returns 0: all advantages 0.
 * Source   Chu et al. 2025, arXiv:2504.02546, section 3.2; verl `gpg`.
 *
 * @example
 * gpgAdvantage({ groups: ['a', 'a'], rewards: [[1], [0]], mask: [[1], [1]] }) // right([[1], [-1]])
 */
export const gpgAdvantage = (rows: RewardedRows, options: SingleOptions = {}): Advantages => {
  checkOptions('gpgAdvantage', options, GPG_ADVANTAGE_OPTIONS)
  const informative = returnsOf(rows).filter((r) => r !== 0).length
  const counted = lengthsOf(rows.mask).filter((length) => length > 0).length
  const alpha = informative === 0 ? 0 : counted / informative
  return pipe(
    grpoAdvantage(rows, { ...options, normalize: 'mean' }),
    E.map((all) => all.map((row) => row.map((a) => a * alpha))),
  )
}

/**
 * Implements the advantage for pass@k: the best completion of a group gets its lead over the
 * second, divided by the standard deviation or unscaled; the others get 0.
 *
 * Equation $A_i = \frac{R_{(1)} - R_{(2)}}{\operatorname{std}(R) + \epsilon}$ for the best of the
 *          group, 0 for the others
 * When     if one good answer in k is enough. Not for pass@1: most completions have no learning
 *          signal.
 * Used by  arXiv:2412.15287; verl `adv_estimator=grpo_passk`
 * Errors   as `grpoAdvantage`.
 * Edges   0 for a group of one and for a tie.
 * Source   Chow et al. 2024, arXiv:2412.15287; verl `grpo_passk`.
 *
 * @example
 * passKAdvantage({ groups: ['a', 'a'], rewards: [[1], [0]], mask: [[1], [1]] }, { normalize: 'none' }) // right([[1], [0]])
 */
export const passKAdvantage = (
  rows: RewardedRows,
  options: { readonly normalize?: 'std' | 'none'; readonly epsilon?: number } = {},
): Advantages => {
  checkOptions('passKAdvantage', options, PASS_K_ADVANTAGE_OPTIONS)
  const { normalize = 'std', epsilon = 1e-6 } = options
  refuse('passKAdvantage', [notAWeight('epsilon', epsilon)])
  checkRows('passKAdvantage', rows)
  return reported(
    rows,
    byGroup(rows, ({ returns }) => {
      if (returns.length === 1) return [0]
      const [first, second] = [...returns].sort((a, b) => b - a)
      const mean = meanOf(returns)
      const deviation = normOf(returns.map((r) => r - mean)) / Math.sqrt(returns.length - 1)
      const lead = (first! - second!) / (normalize === 'std' ? deviation + epsilon : 1)
      const best = returns.indexOf(first!)
      return returns.map((_, i) => (i === best ? lead : 0))
    }),
  )
}

/**
 * Implements REINFORCE++ with a baseline: the return minus the mean of its group, whitened over the
 * tokens of the batch.
 *
 * Equation $A_{i,t} = \operatorname{whiten}(R_i - \bar R)$ over the tokens of the batch
 * When     with groups, if dividing by the deviation of each small group is too noisy.
 * Used by  arXiv:2501.03262; verl `adv_estimator=reinforce_plus_plus_baseline`
 * Errors   as `grpoAdvantage`.
 * Source   Hu et al. 2025, arXiv:2501.03262, section 3.3; verl `reinforce_plus_plus_baseline`.
 */
export const reinforcePlusPlusBaseline = (rows: RewardedRows, options: SingleOptions = {}): Advantages => {
  checkOptions('reinforcePlusPlusBaseline', options, REINFORCE_PLUS_PLUS_BASELINE_OPTIONS)
  return pipe(
    grpoAdvantage(rows, { ...options, normalize: 'mean' }),
    E.map((all) => whiten(all, rows.mask)),
  )
}

/** One of several rewards, with its weight. */
export interface WeightedRewards {
  readonly rewards: TokenRows
  readonly weight: number
}

/**
 * Implements GDPO: each reward is compared in its groups separately (GRPO), then the advantages are
 * summed by their weights and whitened over the tokens of the batch, so that a reward with a large
 * range does not dominate the others.
 *
 * Equation $A_{i,t} = \operatorname{whiten}(\sum_k w_k A_i^{(k)})$ with $A^{(k)}$ of
 *          `groupAdvantage` for the k-th reward
 * When     with several rewards of different ranges.
 * Used by  arXiv:2601.05242; verl `adv_estimator=gdpo`
 * Errors   as `grpoAdvantage`.
 * Source   Liu et al. 2026, "GDPO", arXiv:2601.05242, equations 4 to 6; verl `gdpo`.
 */
export const gdpoAdvantage = (
  { groups, mask }: Omit<RewardedRows, 'rewards'>,
  parts: readonly WeightedRewards[],
  options: GroupAdvantageOptions = {},
): Advantages => {
  checkGroupOptions('gdpoAdvantage', options)
  refuse('gdpoAdvantage', [
    parts.length === 0 && 'there must be a reward',
    ...parts.map(
      ({ weight }, i) => !Number.isFinite(weight) && `the weight of reward ${i} must be finite, got ${weight}`,
    ),
  ])
  return pipe(
    parts,
    E.traverseArray(({ rewards, weight }) =>
      pipe(
        grpoAdvantage({ groups, mask, rewards }, options),
        E.map((all) => all.map((row) => row.map((a) => a * weight))),
      ),
    ),
    E.map((weighted) =>
      whiten(
        mask.map((row, b) => Array.from(row, (_, t) => weighted.reduce((sum, part) => sum + part[b]![t]!, 0))),
        mask,
      ),
    ),
    E.chain(finite),
  )
}

/**
 * Trajectories that were split into several rows, such as conversations with folded context:
 * rewards and advantages across the segments.
 */
import { checkOptions } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { SEGMENT_GAE_OPTIONS, SEGMENT_REWARDS_OPTIONS, SEGMENT_REWARDS_RULES } from '../optionKinds.js'
import type { DegenerateGroup } from './groupAdvantage.js'
import {
  checkRows,
  groupRows,
  type RewardedRows,
  returnsOf,
  type TokenAdvantages,
  type TokenRows,
  whiten,
} from './rows.js'
import { type Estimated, type GAEOptions, gae } from './temporal.js'

/**
 * The distribution of a trajectory's reward over its n segments, k from 0: all to the last one, all
 * to each, `R / n`, or by `geometric` below.
 */
export type SegmentRule = 'last' | 'each' | 'uniform' | { readonly geometric: number }

/**
 * Computes the reward of each segment of a trajectory.
 *
 * `geometric` g: `R g^(n - 1 - k) (1 - g) / (1 - g^n)`, so that later segments get more and the sum
 * is R.
 *
 * Equation `geometric`: $r_k = R g^{n - 1 - k} \frac{1 - g}{1 - g^n}$; `uniform`: $R / n$; `each`:
 *          $R$; `last`: $R$ for $k = n - 1$, else 0
 * When     for trajectories that were split into several rows.
 * Used by  AgentFly, for folded conversations
 * Errors   throws RangeError for a number of segments that is not an integer from 0, or a g that is
 *          not between 0 and 1.
 * Source   AgentFly, rewards of folded trajectories; its g is 0.9.
 *
 * @example
 * segmentRewards(1, 2, { geometric: 0.5 }) // [0.3333333333333333, 0.6666666666666666]
 */
export const segmentRewards = (reward: number, segments: number, rule: SegmentRule): readonly number[] => {
  if (!Number.isInteger(segments) || segments < 0)
    throw new RangeError(`segmentRewards: the segments must be a whole number from 0, got ${segments}`)
  const share = (f: (k: number) => number): readonly number[] => Array.from({ length: segments }, (_, k) => f(k))
  if (typeof rule === 'object') {
    checkOptions('segmentRewards', rule, SEGMENT_REWARDS_OPTIONS)
    const { geometric: g } = rule
    if (!(g > 0 && g < 1)) throw new RangeError(`segmentRewards: geometric must be between 0 and 1, got ${g}`)
    return share((k) => (reward * g ** (segments - 1 - k) * (1 - g)) / (1 - g ** segments))
  }
  checkOptions('segmentRewards', { rule }, SEGMENT_REWARDS_RULES)
  if (rule === 'uniform') return share(() => reward / segments)
  return share((k) => (rule === 'each' || k === segments - 1 ? reward : 0))
}

export interface SegmentGAEOptions extends GAEOptions {
  /**
   * `chained`: the first token of a segment follows the last one of the segment before.
   * `two-level`: each segment separately, and a second estimate over the segments. Default
   * `chained`.
   */
  readonly form?: 'chained' | 'two-level'
}

const numbers = (row: ArrayLike<number>): readonly number[] => Array.from(row)

/** Concatenates rows. */
const joined = (rows: TokenRows, members: readonly number[]): readonly number[] =>
  members.flatMap((b) => numbers(rows[b]!))

const cut = (row: readonly number[], members: readonly number[], rows: TokenRows): readonly (readonly number[])[] => {
  let start = 0
  return members.map((b) => {
    const end = start + rows[b]!.length
    const own = row.slice(start, end)
    start = end
    return own
  })
}

/** Estimates with one row for each trajectory, and splits the result into segments again. */
const chained = (rows: RewardedRows, values: TokenRows, options: GAEOptions): E.Either<DegenerateGroup, Estimated> => {
  const trajectories = groupRows(rows.groups)
  const whole = (each: TokenRows) => trajectories.map((members) => joined(each, members))
  const apart = (estimated: TokenAdvantages): TokenAdvantages => {
    const result = rows.mask.map((): readonly number[] => [])
    for (const [i, members] of trajectories.entries())
      for (const [k, own] of cut(estimated[i]!, members, rows.mask).entries()) result[members[k]!] = own
    return result
  }
  const given = { groups: trajectories.map((_, i) => String(i)), rewards: whole(rows.rewards), mask: whole(rows.mask) }
  return pipe(
    gae(given, whole(values), options),
    E.map(({ advantages, returns }) => ({ advantages: apart(advantages), returns: apart(returns) })),
  )
}

/** Returns the indices of the unmasked tokens of a row. */
const placesOf = (mask: ArrayLike<number>): readonly number[] => numbers(mask).flatMap((m, t) => (m === 0 ? [] : [t]))

/** Returns the start of the last contiguous run of unmasked tokens. */
const lastBlock = (mask: ArrayLike<number>): number => {
  const places = placesOf(mask)
  return places.reduceRight((start, t) => (start === t + 1 || start < 0 ? t : start), -1)
}

const twoLevel = (rows: RewardedRows, values: TokenRows, options: GAEOptions): E.Either<DegenerateGroup, Estimated> => {
  const { gamma = 1, whitened = 'yes' } = options
  const raw: GAEOptions = { ...options, whitened: 'no' }
  /** Segments without unmasked tokens are skipped. */
  const trajectories = groupRows(rows.groups).map((members) =>
    members.filter((b) => placesOf(rows.mask[b]!).length > 0),
  )
  const firstValue = (b: number): number => values[b]![placesOf(rows.mask[b]!)[0]!]!
  const after = new Map(
    trajectories.flatMap((members) => members.slice(1).map((b, k) => [members[k]!, firstValue(b)] as const)),
  )
  const rewards = rows.rewards.map((row, b) => {
    const last = placesOf(rows.mask[b]!).at(-1)
    return numbers(row).map((r, t) => (t === last ? r + gamma * (after.get(b) ?? 0) : r))
  })
  const returns = returnsOf(rows)
  const above: RewardedRows = {
    groups: trajectories.map((_, i) => String(i)),
    rewards: trajectories.map((members) => members.map((b) => returns[b]!)),
    mask: trajectories.map((members) => members.map(() => 1)),
  }
  return pipe(
    E.Do,
    E.bind('within', () => gae({ ...rows, rewards }, values, raw)),
    E.bind('over', () =>
      gae(
        above,
        trajectories.map((members) => members.map(firstValue)),
        raw,
      ),
    ),
    E.map(({ within, over }) => {
      const added = new Map(
        trajectories.flatMap((members, i) => members.slice(0, -1).map((b, k) => [b, over.advantages[i]![k]!] as const)),
      )
      const advantages = within.advantages.map((row, b) => {
        const start = lastBlock(rows.mask[b]!)
        return row.map((a, t) => (rows.mask[b]![t] !== 0 && t >= start ? a + (added.get(b) ?? 0) : a))
      })
      return {
        advantages: whitened === 'yes' ? whiten(advantages, rows.mask) : advantages,
        returns: within.returns,
      }
    }),
  )
}

/**
 * Computes generalized advantage estimates for trajectories of several segments.
 *
 * `chained` is `gae` of the whole trajectory: the last token of a segment is followed by the first
 * one of the next segment. `two-level` estimates each segment separately, with the first value of
 * the next segment after its last token. Then it runs `gae` over the segments, each with the sum of
 * its rewards and its first value, and adds the result to the last contiguous run of tokens of each
 * segment except the last. Later segments thus count twice in a segment.
 *
 * Equation `chained`: `gae` with the first token of segment $k + 1$ behind the last of segment $k$;
 *          `two-level`: $A_{k,t} = \operatorname{gae}_t(r_k) $ with the value of the next segment
 *          in place of the reward to come, plus an estimate over segments
 * When     with a value function and conversations with folded context.
 * Used by  AgentFly, for conversations with folded context
 * Shapes   rows of one group are the segments of one trajectory, in their order; `values` are as
 *          long as the rows.
 * Errors   as `gae`.
 * Edges    a segment without unmasked tokens is skipped.
 * Source   Schulman et al. 2016, arXiv:1506.02438, equation 16; `two-level` is AgentFly's estimator
 *          of folded trajectories.
 *
 * @example
 * segmentGAE({ groups: ['a', 'a'], rewards: [[0], [1]], mask: [[1], [1]] }, [[0.25], [0.5]], { whitened: 'no' }) // right({ advantages: [[0.75], [0.5]], returns: [[1], [1]] })
 */
export const segmentGAE = (
  rows: RewardedRows,
  values: TokenRows,
  options: SegmentGAEOptions = {},
): E.Either<DegenerateGroup, Estimated> => {
  checkOptions('segmentGAE', options, SEGMENT_GAE_OPTIONS)
  const { form = 'chained', ...estimator } = options
  checkRows('segmentGAE', rows, { values })
  return form === 'chained' ? chained(rows, values, estimator) : twoLevel(rows, values, estimator)
}

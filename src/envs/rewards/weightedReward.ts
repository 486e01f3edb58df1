/** Weighted sums of rewards. */
import { checkOptions, child } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { WEIGHTED_REWARD_OPTIONS, WEIGHTED_SERVICE_OPTIONS } from '../optionKinds.js'
import type { Answered, AnyReward, Reward, RewardFailure, RewardService, ScoreContext, Scored } from './reward.js'

export interface WeightedRewardOptions {
  /** Default: `weighted`. */
  readonly name?: string
  /** The rewards that decide if a task is solved. Default: the first alone. */
  readonly success?: 'first' | 'all' | 'any'
}

type Weighted<R> = readonly (readonly [weight: number, reward: R])[]

const checkWeights = (where: string, items: Weighted<AnyReward<never>>): void => {
  const names = items.map(([, { name }]) => name)
  const problems = [
    ...(items.length === 0 ? ['there must be a reward'] : []),
    ...items.flatMap(([weight, { name }]) =>
      Number.isFinite(weight) ? [] : [`the weight of ${name} must be a finite number, got ${weight}`],
    ),
    ...items.flatMap(([, { name, partNames }], i) => [
      ...(names.indexOf(name) < i ? [`there are two rewards with the name '${name}'`] : []),
      ...(partNames.includes('reward') ? [`${name} must not have a part named 'reward'`] : []),
    ]),
  ]
  if (problems.length > 0) throw new RangeError(`${where}: ${problems.join('; ')}`)
}

const rangeOf = (items: Weighted<Omit<AnyReward<never>, 'score'>>): Reward['range'] => {
  const ends = items.map(([weight, { range }]) => range.map((end) => weight * end))
  const total = (pick: (...ends: readonly number[]) => number): number =>
    ends.reduce((sum, pair) => sum + pick(...pair), 0)
  return [total(Math.min), total(Math.max)]
}

const described = <T extends Task>(
  items: Weighted<AnyReward<T>>,
  { name = 'weighted' }: WeightedRewardOptions,
): Omit<Reward<T>, 'score'> => ({
  name,
  partNames: items.flatMap(([, each]) => ['reward', ...each.partNames].map((part) => `${each.name}.${part}`)),
  range: rangeOf(items),
  ...(items.some(([, { extras }]) => extras === 'parts') && { extras: 'parts' as const }),
})

const combined = <T extends Task>(
  items: Weighted<AnyReward<T>>,
  scores: readonly Scored[],
  { success = 'first' }: WeightedRewardOptions,
): Scored => {
  const solved = scores.map((score) => score.success)
  const parts = scores.flatMap(({ reward, parts: own }, i) =>
    Object.entries({ reward, ...own }).map(([part, value]) => [`${items[i]![1].name}.${part}`, value] as const),
  )
  return {
    reward: scores.reduce((sum, { reward }, i) => sum + items[i]![0] * reward, 0),
    success:
      success === 'all' ? !solved.includes(false) : success === 'any' ? solved.includes(true) : solved[0] === true,
    parts: Object.fromEntries(parts),
  }
}

/**
 * Makes a weighted sum of rewards: `sum_i w_i r_i`. Its parts are those of all rewards, as
 * `NAME.PART`, and `NAME.reward` for each unweighted reward. The task is solved if the first reward
 * reports success, unless `success` is set.
 *
 * Units    the range is that of the sum: `sum_i` of the lower and of the higher end of `w_i
 *          range_i`.
 * Errors   throws RangeError that lists all problems: no rewards, weights that are not finite, and
 *          duplicate names.
 *
 * @example
 * weightedReward([[1, exactMatch()], [0.5, tokenF1Reward()]]).range // [0, 1.5]
 */
export const weightedReward = <T extends Task = Task>(
  items: Weighted<Reward<T>>,
  options: WeightedRewardOptions = {},
): Reward<T> => {
  checkOptions('weightedReward', options, WEIGHTED_REWARD_OPTIONS)
  checkWeights('weightedReward', items)
  return {
    ...described(items, options),
    score: (answered) =>
      combined(
        items,
        items.map(([, reward]) => reward.score(answered)),
        options,
      ),
  }
}

const requested = <T extends Task>(
  reward: AnyReward<T>,
  answered: Answered<T>,
  context: ScoreContext,
): TE.TaskEither<RewardFailure, Scored> => {
  const scored = reward.score(answered, context)
  return typeof scored === 'function' ? scored : TE.right(scored)
}

/**
 * Makes a weighted sum that may contain services, which are called concurrently, each with its own
 * key.
 *
 * Errors   throws as `weightedReward` does; `score` returns the failure of the first service that
 *          fails.
 *
 * @example
 * weightedService([[1, exactMatch()]]).name // 'weighted'
 */
export const weightedService = <T extends Task = Task>(
  items: Weighted<AnyReward<T>>,
  options: WeightedRewardOptions = {},
): RewardService<T> => {
  checkOptions('weightedService', options, WEIGHTED_SERVICE_OPTIONS)
  checkWeights('weightedService', items)
  return {
    ...described(items, options),
    score: (answered, { key, signal }) =>
      pipe(
        items.map(([, reward]) => requested(reward, answered, { key: child(key, reward.name), signal })),
        TE.sequenceArray,
        TE.map((scores) => combined(items, scores, options)),
      ),
  }
}

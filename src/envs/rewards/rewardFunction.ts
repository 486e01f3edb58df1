/** Rewards from plain functions. */
import * as E from 'fp-ts/lib/Either.js'
import { namedMessage } from '../../core/failure.js'
import { aNumber, aRecord, aText, checkOptions, unknownName } from '../../core/options.js'
import type { Task } from '../../data/task.js'
import type { History } from '../../text/history/history.js'
import { replyOf } from './reply.js'
import type { RewardFailure, RewardService, ScoreContext, Scored } from './reward.js'

/** Further arguments of a reward function, besides the answer and the task. */
export interface RewardScene extends ScoreContext {
  /** The whole conversation. The answer is the text of its last assistant message. */
  readonly history: History
}

/** A number, or one number for each named part. */
export type RewardValue<P extends string> = [P] extends [never] ? number : Readonly<Record<P, number>>

/** A reward as a plain function, synchronous or not. `P` are the names of its parts; without parts it returns the reward. */
export type RewardFunction<T extends Task = Task, P extends string = never> = (
  answer: string,
  task: T,
  scene: RewardScene,
) => RewardValue<P> | Promise<RewardValue<P>>

export interface RewardParts<P extends string> {
  /** The names of the parts and what each weighs in the reward: 0 for a part that is only reported. Default: no parts. */
  readonly parts?: Readonly<Record<P, number>>
  /** The reward from which on the task counts as solved. Default 1. */
  readonly solvedAt?: number
}

export interface RewardOfOptions<P extends string> extends RewardParts<P> {
  /** Default: the name of the function, or `reward`. */
  readonly name?: string
}

/** A number or a record of parts as a score; a string that says what is wrong with it. */
export const scoredValue = (
  value: unknown,
  { parts = {}, solvedAt = 1 }: { readonly parts?: Readonly<Record<string, number>>; readonly solvedAt?: number },
): E.Either<string, Scored> => {
  const names = Object.keys(parts)
  if (names.length === 0)
    return typeof value === 'number' && Number.isFinite(value)
      ? E.right({ reward: value, success: value >= solvedAt, parts: {} })
      : E.left(`it returned ${shown(value)}: expected a finite number, or a record with 'parts' set`)
  if (typeof value !== 'object' || value === null) {
    return E.left(`it returned ${shown(value)}: expected a record of its parts ${names.join(', ')}`)
  }
  const given: Readonly<Record<string, unknown>> = { ...value }
  const problems = [
    ...names.flatMap((name) =>
      typeof given[name] === 'number' && Number.isFinite(given[name])
        ? []
        : [`the part '${name}' must be a finite number, got ${shown(given[name])}`],
    ),
    ...Object.keys(given).flatMap((name) => (names.includes(name) ? [] : [unknownName('part', name, names)])),
  ]
  if (problems.length > 0) return E.left(problems.join('; '))
  const scores = given as Readonly<Record<string, number>> // checked: each is a number
  const reward = names.reduce((sum, name) => sum + parts[name]! * scores[name]!, 0)
  return E.right({ reward, success: reward >= solvedAt, parts: scores })
}

const shown = (value: unknown): string =>
  typeof value === 'number' || value === undefined || value === null ? String(value) : `a value of type ${typeof value}`

/**
 * Makes a reward of a plain function, for `rewardTransform`, `weightedService` and the law kits.
 *
 * The function returns the reward, or with `parts` a number for each part. The reward is then
 * $\sum_p w_p x_p$ with the given weights.
 *
 * Errors   `score` returns `Left(RewardFailure)` if the function throws, rejects, or returns an
 *          invalid value. Throws RangeError for unknown options.
 *
 * @example
 * rewardOf((answer, task) => ({ right: answer === task.answer ? 1 : 0, brief: answer.length < 9 ? 1 : 0 }), { parts: { right: 1, brief: 0.1 } }).partNames // ['right', 'brief']
 */
export const rewardOf = <T extends Task = Task, const P extends string = never>(
  f: RewardFunction<T, NoInfer<P>>,
  options: RewardOfOptions<P> = {},
): RewardService<T, P> => {
  if (typeof f !== 'function') throw new RangeError(`rewardOf: the reward must be a function, got ${typeof f}`)
  checkOptions('rewardOf', options, { name: aText, parts: aRecord, solvedAt: aNumber })
  const name = options.name ?? (f.name === '' ? 'reward' : f.name)
  const failed = (id: string, reason: string): E.Either<RewardFailure, never> =>
    E.left({ _tag: 'RewardFailure', rewardName: name, reason: `task ${id}: ${reason}` })
  return {
    name,
    partNames: Object.keys(options.parts ?? {}) as readonly string[] as readonly P[], // the keys of a record of P
    range: [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY],
    score:
      ({ task, history }, context) =>
      async () => {
        try {
          const value = await f(replyOf({ history }), task, { history, ...context })
          const scored = scoredValue(value, options)
          return E.isLeft(scored) ? failed(task.id, scored.left) : scored
        } catch (error) {
          return failed(task.id, `it threw ${namedMessage(error)}`)
        }
      },
  }
}

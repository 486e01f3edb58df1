/** Rewards from plain functions, whose arguments are found by name. */
import { checkOptions } from '@tandem-rl/base'
import { thrownText } from '@tandem-rl/base/host'
import type { Message, Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { SharedEnvironment } from '../base/episode.js'
import { REWARD_OPTIONS } from '../optionKinds.js'
import { answerIn } from './reply.js'
import type { Answered, RewardFailure, RewardService, ScoreContext, Scored } from './reward.js'
import { scoredValue } from './scoredValue.js'

/**
 * The arguments of a reward function that are not fields of the row. They hide fields of the same
 * name; `task` has those.
 */
export interface RewardArguments<T extends Task = Task, R = undefined> extends ScoreContext {
  /** The environment of the conversation, which it shares with the tools that hold the same one. */
  readonly environment: R
  /**
   * The text of the last assistant message without its thoughts, or the result of the tool call
   * that ended the episode.
   */
  readonly prediction: string
  /** The messages of the conversation, tool results included. */
  readonly trajectory: readonly Message[]
  /** The states of the tools, by name. */
  readonly tools: Readonly<Record<string, unknown>>
  /** The whole row. */
  readonly task: T
}

type RowOf<T> = T extends { readonly row: infer R } ? (R extends object ? R : unknown) : unknown

/**
 * The arguments of a reward function by name: those of every reward, the fields of the task, and
 * those of its `row`.
 */
export type RewardScene<T extends Task = Task, R = undefined> = RewardArguments<T, R> &
  Omit<T, keyof RewardArguments> &
  Omit<RowOf<T>, keyof RewardArguments | keyof T>

/** The reward, or a record with the reward and its named parts. */
export type RewardValue<P extends string> = [P] extends [never]
  ? number
  : { readonly reward: number } & Readonly<Record<P, number>>

/**
 * A reward as a plain function of named arguments, synchronous or not. `P` are the names of its
 * parts.
 */
export type RewardFunction<T extends Task = Task, P extends string = never, R = undefined> = (
  scene: RewardScene<T, R>,
) => RewardValue<P> | Promise<RewardValue<P>>

/** A reward, or a record of the reward and further numbers, which become parts. */
type OpenRewardValue = number | { readonly reward: number; readonly [part: string]: number }

/** A reward as a function that may return any parts. */
export type OpenRewardFunction<T extends Task = Task> = (
  scene: RewardScene<T>,
) => OpenRewardValue | Promise<OpenRewardValue>

export interface RewardParts<P extends string> {
  /** The names of the parts that the function returns beside `reward`. Default: none. */
  readonly parts?: readonly P[]
  /** The reward from which on the task counts as solved. Default 1. */
  readonly solvedAt?: number
  /**
   * Fields that rows may lack: they are `undefined` then. Default: none, and a missing field is a
   * failure.
   */
  readonly optional?: readonly string[]
}

export interface RewardOptions<P extends string, R = undefined> extends RewardParts<P> {
  /**
   * An environment of tools: the function gets that of its conversation as `environment`. Default:
   * none.
   */
  readonly environment?: SharedEnvironment<R>
  /**
   * Numbers that the function returns beside `reward` and `parts`. `parts`: they are parts too,
   * with any names but `success`. Default `refuse`.
   */
  readonly extras?: 'refuse' | 'parts'
  /** Default: the name of the function, or `reward`. */
  readonly name?: string
}

/** A reward function read a field that its row lacks. */
class MissingField extends Error {}

const hasField = (record: unknown, name: string): record is Readonly<Record<string, unknown>> =>
  typeof record === 'object' && record !== null && Object.hasOwn(record, name)

/**
 * The arguments by name. A name that is neither an argument nor a field throws, with the names of
 * the fields.
 */
const sceneOf = <T extends Task, R>(own: RewardArguments<T, R>, optional: readonly string[]): RewardScene<T, R> => {
  const { task } = own
  const row = 'row' in task ? task.row : undefined
  const holderOf = (name: string) => [own, task, row].find((each) => hasField(each, name))
  const scene = new Proxy(own, {
    has: (_, name) => typeof name === 'string' && holderOf(name) !== undefined,
    get: (_, name) => {
      if (typeof name !== 'string') return undefined
      const holder = holderOf(name)
      if (holder !== undefined) return (holder as Readonly<Record<string, unknown>>)[name] // it has this field
      if (optional.includes(name)) return undefined
      const fields = [
        ...new Set([task, row].flatMap((each) => (typeof each === 'object' ? Object.keys(each ?? {}) : []))),
      ]
      throw new MissingField(
        `the row has no field '${name}'; it has ${fields.join(', ')} (environments keep whole rows with keep: 'task')`,
      )
    },
  })
  return scene as unknown as RewardScene<T, R> // the proxy has the fields of the task as well
}

/**
 * Makes a reward of a plain function, for `rewardTransform`, `weightedService` and the law kits.
 * The function takes one record and picks its arguments by name: `prediction`, `trajectory`,
 * `tools`, `task`, `key`, `signal`, and every field of the row. It returns the reward, or a record
 * with `reward` and the declared `parts`.
 *
 * Errors   `score` returns `Left(RewardFailure)` if the function throws, rejects, returns an
 *          invalid value, or reads a field that the row lacks. A field that the row type lacks does
 *          not compile. Throws RangeError for unknown options.
 * Source   AgentFly `@reward`, whose arguments are matched by name as well.
 *
 * @example
 * reward(({ prediction, answer }) => (prediction === answer ? 1 : 0), { name: 'equal' }).name // 'equal'
 */
export const reward = <T extends Task = Task, const P extends string = never, R = undefined>(
  f: RewardFunction<T, NoInfer<P>, NoInfer<R>>,
  options: RewardOptions<P, R> = {},
): RewardService<T, P> => {
  if (typeof f !== 'function') throw new RangeError(`reward: the reward must be a function, got ${typeof f}`)
  checkOptions('reward', options, REWARD_OPTIONS)
  const { parts = [], optional = [], environment: held, name = f.name === '' ? 'reward' : f.name } = options
  const failed = (id: string, reason: string): E.Either<RewardFailure, never> =>
    E.left({ _tag: 'RewardFailure', rewardName: name, reason: `task ${id}: ${reason}` })
  const argumentsOf = (answered: Answered<T>, context: ScoreContext, environment: R): RewardArguments<T, R> => ({
    ...context,
    environment,
    prediction: answerIn(answered),
    trajectory: answered.history.messages.toArray(),
    tools: answered.tools ?? {},
    task: answered.task,
  })
  return {
    name,
    partNames: parts,
    ...(options.extras === 'parts' && { extras: options.extras }),
    range: [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY],
    score: (answered, context) => async () => {
      const { id } = answered.task
      const run = async (environment: R): Promise<E.Either<RewardFailure, Scored>> => {
        try {
          const value = await f(sceneOf(argumentsOf(answered, context, environment), optional))
          const scored = scoredValue(value, options)
          return E.isLeft(scored) ? failed(id, scored.left) : scored
        } catch (error) {
          return failed(id, error instanceof MissingField ? error.message : `it threw ${thrownText(error)}`)
        }
      }
      if (held === undefined) return run(undefined as R) // without an environment R is undefined
      const used = await held.use(context.episode, context.signal, run)
      return E.isLeft(used) ? failed(id, used.left.reason) : used.right
    },
  }
}

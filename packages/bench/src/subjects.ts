/** Subjects of benchmarks: collectors, environments, transforms and rewards. */
import { checkOptions, child, type Failure, FailureError, type Key } from '@tandem-rl/base'
import { discard } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Env, EnvFailure, Policy, PolicyFailure, Task } from 'tandem-rl'
import { endedRows, nextRequest } from 'tandem-rl/envs'
import type { Answered, AnyReward, Scored } from 'tandem-rl/rewards'
import { type Data, get, TensorDict } from 'tandem-rl/tensordict'
import {
  COLLECTOR_SUBJECT_OPTIONS,
  ENV_SUBJECT_OPTIONS,
  REWARD_SUBJECT_OPTIONS,
  TRANSFORM_SUBJECT_OPTIONS,
} from './optionKinds.js'
import type { RoundContext, Subject } from './subject.js'

const requireCount = (name: string, field: string, count: number): void => {
  if (!Number.isSafeInteger(count) || count < 1)
    throw new RangeError(`${name}: ${field} must be an integer of at least 1, got ${count}`)
}

export interface CollectorSubjectOptions {
  readonly name: string
  /**
   * Makes a new collector for each round, from a policy and an environment that the round times.
   */
  readonly collector: (round: RoundContext) => AsyncIterable<TensorDict<{ readonly trajectoryId: Data<string> }>>
  /** The number of trajectories to collect in a round. A collector may end earlier. */
  readonly rollouts: number
}

/**
 * Makes a subject of a collector. Its speed is in rollouts per second, over the whole round.
 *
 * The overhead of a rollout is the time in which no call of the policy or the environment is in
 * progress. With concurrent rollouts, work that happens while another call is pending is not part
 * of it: read the processor time, or let a `ScriptedPolicy` answer at once.
 *
 * Errors   a round returns the collector's failure. Throws RangeError for unknown options and for
 *          `rollouts` below 1.
 *
 * @example
 * const collector = (round: RoundContext) => LLMCollector({ env: round.timeEnv(env), policy: round.timePolicy(policy), key: round.key })
 * collectorSubject({ name: 'lockstep', collector, rollouts: 64 }).unit // 'rollouts'
 */
export const collectorSubject = (options: CollectorSubjectOptions): Subject => {
  checkOptions('collectorSubject', options, COLLECTOR_SUBJECT_OPTIONS)
  const { name, collector, rollouts } = options
  requireCount('collectorSubject', 'rollouts', rollouts)
  return {
    name,
    unit: 'rollouts',
    counts: 'all',
    run: (round) => async () => {
      const collected = new Set<string>()
      try {
        for await (const batch of collector(round)) {
          for (const id of get(batch, 'trajectoryId').items) collected.add(id)
          round.readMemory()
          if (collected.size >= rollouts) break
        }
      } catch (error) {
        if (error instanceof FailureError) return E.left(error.failure)
        throw error
      }
      return E.right(collected.size)
    },
  }
}

interface Play<O, B> {
  readonly env: Env<O, B>
  readonly policy: Policy<O, B>
  /** Steps of single elements. */
  readonly steps: number
  readonly key: Key
}

/** Plays episodes until so many elements have been stepped. Returns how many were. */
const playSteps =
  <O, B>({ env, policy, steps, key }: Play<O, B>): TaskEither<EnvFailure | PolicyFailure, number> =>
  async () => {
    const start = TensorDict({}, [env.batchSize])
    let [count, held]: [number, TensorDict] = [0, start]
    /** Takes over a state and frees the tensors that only the previous one has. */
    const hold = (next: TensorDict, action: unknown = []): void => {
      discard([held, action], next)
      held = next
    }
    try {
      for (let episode = 0; count < steps; episode++) {
        const own = child(key, episode)
        env.release?.(held)
        const first = await env.reset(episode === 0 ? start : nextRequest(held), child(own, 'reset'))()
        if (E.isLeft(first)) return first
        hold(first.right)
        for (let step = 0; count < steps && endedRows(held, 'done').includes(false); step++) {
          const state = held as unknown as TensorDict<O> // the result of `reset` or `step`
          const action = await policy.act(state, child(own, step))()
          if (E.isLeft(action)) return action
          count += endedRows(held, 'done').filter((ended) => !ended).length
          const next = await env.step(state, action.right)()
          if (E.isLeft(next)) {
            discard(action.right, held)
            return next
          }
          hold(next.right, action.right)
        }
      }
      return E.right(count)
    } finally {
      env.release?.(held)
      discard(held)
    }
  }

export interface EnvSubjectOptions<O, B> {
  /** Default: the name of the environment. */
  readonly name?: string
  readonly env: Env<O, B>
  /** Writes the actions. Its time is not counted. */
  readonly policy: Policy<O, B>
  /** The number of steps in a round, counted for each element of the batch. */
  readonly steps: number
}

/**
 * Makes a subject of an environment. Its speed is in steps of single elements per second spent in
 * `reset` and `step`. When all elements of a batch are done, the environment is reset.
 *
 * Errors   a round returns the failure of the environment or the policy. Throws RangeError for
 *          unknown options and for `steps` below 1.
 *
 * @example
 * const scripted = scriptedEnv([{ rewards: [0, 1] }])
 * envSubject({ env: scripted, policy: scriptedPolicy({ answers: () => [5] }), steps: 100 }).name // 'scriptedEnv'
 */
export const envSubject = <O, B>(options: EnvSubjectOptions<O, B>): Subject => {
  checkOptions('envSubject', options, ENV_SUBJECT_OPTIONS)
  const { env, policy, steps, name = env.name } = options
  requireCount('envSubject', 'steps', steps)
  return {
    name,
    unit: 'steps',
    counts: 'env',
    run: ({ key, timeEnv, timePolicy }) => playSteps({ env: timeEnv(env), policy: timePolicy(policy), steps, key }),
  }
}

export interface TransformSubjectOptions<O, A, P, B> {
  readonly name: string
  /** Puts the transform around an environment, such as `append(transform)`. */
  readonly transform: (env: Env<O, A>) => Env<P, B>
  /** The environment inside. Its time is not counted. */
  readonly env: Env<O, A>
  /** Writes the actions. Its time is not counted. */
  readonly policy: Policy<P, B>
  /** The number of rows in a round: one for each element and step. */
  readonly rows: number
}

/**
 * Makes a subject of a transform, or of a chain of them. Its speed is in rows per second spent
 * outside of the inner environment and the policy. This includes the composition by `append`;
 * compare with `append(identity)` to see what that costs alone.
 *
 * Errors   a round returns the failure of the environment or the policy. Throws RangeError for
 *          unknown options and for `rows` below 1, and Error if the transform does not fit.
 *
 * @example
 * const inner = scriptedEnv([{ rewards: [0, 1] }])
 * const policy = scriptedPolicy({ answers: () => [5] })
 * transformSubject({ name: 'counter', transform: append(StepCounter({ maxSteps: 5 })), env: inner, policy, rows: 100 }).unit // 'rows'
 */
export const transformSubject = <O, A, P, B>(options: TransformSubjectOptions<O, A, P, B>): Subject => {
  checkOptions('transformSubject', options, TRANSFORM_SUBJECT_OPTIONS)
  const { name, transform, env, policy, rows } = options
  requireCount('transformSubject', 'rows', rows)
  transform(env) // throws if it does not fit
  return {
    name,
    unit: 'rows',
    counts: 'rest',
    run: ({ key, timeEnv, timePolicy }) =>
      playSteps({ env: transform(timeEnv(env)), policy: timePolicy(policy), steps: rows, key }),
  }
}

export interface RewardSubjectOptions<T extends Task> {
  /** Default: the name of the reward. */
  readonly name?: string
  readonly reward: AnyReward<T>
  readonly answers: readonly Answered<T>[]
  /** Number of times that a round scores every answer. Default 1. */
  readonly passes?: number
}

/**
 * Makes a subject of a reward. Its speed is in answers per second. A reward service scores all
 * answers of a pass concurrently, as in a rollout.
 *
 * Errors   a round returns the failure of a reward service. Throws RangeError for unknown options,
 *          an empty list, and `passes` below 1.
 *
 * @example
 * const answers = [{ task: { id: 'a', query: '1 + 1?', answer: '#### 2' }, history: History([message('assistant', '<answer>2</answer>')]) }]
 * rewardSubject({ reward: gsm8kAnswerReward(), answers, passes: 100 }).unit // 'answers'
 */
export const rewardSubject = <T extends Task>(options: RewardSubjectOptions<T>): Subject => {
  checkOptions('rewardSubject', options, REWARD_SUBJECT_OPTIONS)
  const { reward, answers, passes = 1, name = reward.name } = options
  requireCount('rewardSubject', 'passes', passes)
  if (answers.length === 0) throw new RangeError('rewardSubject: answers must have at least one answer, got none')
  const { signal } = new AbortController() // never aborted
  const scoreOne = async (answer: Answered<T>, key: Key): Promise<E.Either<Failure, Scored>> => {
    const scored = reward.score(answer, { key, signal })
    return typeof scored === 'function' ? scored() : E.right(scored)
  }
  return {
    name,
    unit: 'answers',
    counts: 'all',
    run:
      ({ key }) =>
      async () => {
        for (let pass = 0; pass < passes; pass++) {
          const results = await Promise.all(answers.map((answer, i) => scoreOne(answer, child(child(key, pass), i))))
          const failed = results.find(E.isLeft)
          if (failed !== undefined) return failed
        }
        return E.right(passes * answers.length)
      },
  }
}

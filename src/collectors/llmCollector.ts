/** Collects batches of turns by playing episodes with a policy. */
import { type Clock, checkOptions, FailureError, type Key, type Timers } from '@tandem-rl/base'
import { liveClock } from '@tandem-rl/base/host'
import type { WeightFailure } from '@tandem-rl/text'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Absent, Needs, Unwritten } from '../data/needs.js'
import type { Policy, TokenAction } from '../data/policy.js'
import type { Env } from '../envs/base/env.js'
import {
  LLM_COLLECTOR_BATCHES_OPTIONS,
  LLM_COLLECTOR_CONCURRENT_OPTIONS,
  LLM_COLLECTOR_OPTIONS,
} from './optionKinds.js'
import { type CollectorPosition, type Played, playLockstep } from './rollouts/lockstep.js'
import type { EpisodeFailure } from './rollouts/rollout.js'
import type { RolloutsStopped } from './rollouts/rolloutBatch.js'
import { type RolloutRun, type RolloutRunOptions, rolloutRun } from './rollouts/rolloutRun.js'
import { type ConcurrentOptions, type RunRules, runRules, type TurnBatches } from './rollouts/settings.js'
import type { CollectedBatch } from './rollouts/turnRows.js'

/** A batch was requested after the last task. */
export interface CollectorEnded {
  readonly _tag: 'CollectorEnded'
  readonly reason: string
}

/** The failures of collecting. */
export type CollectorFailure = EpisodeFailure | RolloutsStopped | WeightFailure | CollectorEnded

/** A mutable replay buffer that receives every batch. */
export interface BatchSink<in B> {
  /** Adds a batch. The batch is freed later, so kept values must be owned. */
  readonly extend: (batch: B) => unknown
}

/** The weights of the policy, and the function that updates them. */
export interface CollectorWeights {
  /** Returns the current version, such as `learner.version`. */
  readonly version: () => number
  /** Pushes the weights of that version to the policy. */
  readonly push: TaskEither<WeightFailure, unknown>
}

/** The options of batches. */
export interface BatchOptions<B, Q> extends TurnBatches {
  /** Iteration ends after this many turns in total. Default: never. */
  readonly totalDialogTurns?: number
  /** Transforms each collected batch, for example to add advantages. */
  readonly postproc?: (batch: B) => Q
  /** Receives every batch, after `postproc`. */
  readonly replayBuffer?: BatchSink<Q>
  /** Pushes the weights before a batch is collected, if their version has changed. */
  readonly weightUpdater?: CollectorWeights
}

/** The options of all collectors. */
interface CommonOptions<B, Q> {
  readonly key: Key
  /** The initial position. Default: the beginning. */
  readonly start?: CollectorPosition
  /** An episode longer than this many turns fails. Default 64. */
  readonly maxTurns?: number
  readonly batches?: BatchOptions<B, Q>
  readonly time?: { readonly clock?: Clock; readonly timers?: Timers }
}

type PolicyOption<O, P> =
  | { readonly policy: Policy<O, P>; readonly policyFactory?: never }
  /** Makes the policy when the first batch is requested. */
  | { readonly policyFactory: () => Policy<O, P>; readonly policy?: never }

/** Plays the elements of one environment in lockstep, with one policy call per turn. */
export type LLMCollectorOptions<O, P = TokenAction, Q = CollectedBatch<O, P>> = CommonOptions<CollectedBatch<O, P>, Q> &
  PolicyOption<O, P> & { readonly env: Env<O, P>; readonly concurrent?: never }

/** Plays rollouts of many tasks concurrently. */
export type ConcurrentCollectorOptions<O, P = TokenAction, Q = CollectedBatch<O, P>> = CommonOptions<
  CollectedBatch<O, P>,
  Q
> &
  PolicyOption<O, P> & {
    /**
     * Makes the environment of a task, counted from 0. Its batch is one group. Equal tasks must
     * give equal environments.
     */
    readonly env: (task: number) => Env<O, P>
    readonly concurrent: ConcurrentOptions
  }

/** A batch, and the position after it. */
export interface Collected<B> {
  readonly batch: Owned<B>
  readonly position: CollectorPosition
}

/** Collects batches `B`. */
export interface LLMCollector<B> extends AsyncIterable<B> {
  readonly start: CollectorPosition
  /**
   * Collects the batch at a position. Equal positions give equal batches if environment and policy
   * are pure and concurrent rollouts have the order `drawn`. Running rollouts continue only from
   * the position returned last; any other position starts new rollouts.
   */
  readonly collect: (position: CollectorPosition) => TaskEither<CollectorFailure, Collected<B>>
  /** Cancels rollouts that `collect` has left running. */
  readonly close: () => Promise<void>
}

/** A collector of concurrent rollouts. */
export interface ConcurrentLLMCollector<O, P, B> extends LLMCollector<B> {
  /**
   * Starts a run that reports tasks, failures and truncations. Its batches are not postprocessed.
   */
  readonly begin: (options?: RolloutRunOptions) => RolloutRun<O, P>
}

/** A source of batches. */
interface Source<B> {
  readonly collect: (position: CollectorPosition) => TaskEither<CollectorFailure, Played<B>>
  readonly close: () => Promise<unknown>
}

const concurrentSource = <O, P>(
  begin: (options: RolloutRunOptions) => RolloutRun<O, P>,
): Source<CollectedBatch<O, P>> => {
  let live: { readonly run: RolloutRun<O, P>; readonly at: CollectorPosition } | undefined
  const close = async (): Promise<void> => {
    await live?.run.close()
    live = undefined
  }
  const runAt = async (position: CollectorPosition): Promise<RolloutRun<O, P>> => {
    if (live?.at === position) return live.run
    await close()
    return begin(position.rollouts === undefined ? {} : { position: position.rollouts })
  }
  return {
    close,
    collect: (position) => async () => {
      const run = await runAt(position)
      const taken = await run.next()
      if (E.isRight(taken) && taken.right._tag === 'Batch') {
        const { batch, turns, position: rollouts } = taken.right
        const at = { ...position, batch: position.batch + 1, rollouts }
        live = { run, at }
        return E.right({ batch, turns, position: at })
      }
      await run.close()
      live = undefined
      if (E.isLeft(taken)) return taken
      return E.left({ _tag: 'CollectorEnded', reason: 'all tasks have been delivered' })
    },
  }
}

/** Pushes the weights if their version differs from the previous batch's. */
const weightPusher = (weights: CollectorWeights | undefined): TaskEither<WeightFailure, unknown> => {
  let pushed = weights?.version()
  return async () => {
    const version = weights?.version()
    if (weights === undefined || version === pushed) return E.right(undefined)
    const result = await weights.push()
    if (E.isRight(result)) pushed = version
    return result
  }
}

/** Applies `postproc` and the replay buffer to each batch. */
const finisher =
  <B, Q>({ postproc, replayBuffer }: BatchOptions<B, Q>) =>
  (played: Played<B>): Played<Q> => {
    if (postproc === undefined) {
      const batch = played.batch as unknown as Owned<Q> // without `postproc`, Q is B
      replayBuffer?.extend(batch.value)
      return { ...played, batch }
    }
    try {
      const [made] = scope(() => [postproc(played.batch.value)])
      const batch = own(made!) // the one
      replayBuffer?.extend(batch.value)
      return { ...played, batch }
    } finally {
      played.batch.release()
    }
  }

/** Makes a collector. Each iteration opens its own source. */
const collectorOf = <B, Q>(
  open: () => Source<B>,
  start: CollectorPosition,
  batches: BatchOptions<B, Q>,
): LLMCollector<Q> => {
  const pushed = weightPusher(batches.weightUpdater)
  const finish = finisher(batches)
  const shared = open()
  const from =
    (source: Source<B>, position: CollectorPosition): TaskEither<CollectorFailure, Played<Q>> =>
    async () => {
      const ready = await pushed()
      if (E.isLeft(ready)) return ready
      return E.map(finish)(await source.collect(position)())
    }
  return {
    start,
    close: async () => void (await shared.close()),
    collect: (position) => from(shared, position),
    async *[Symbol.asyncIterator]() {
      const source = open()
      let [position, turns] = [start, 0]
      try {
        while (turns < (batches.totalDialogTurns ?? Number.POSITIVE_INFINITY)) {
          const played = await from(source, position)()
          if (E.isLeft(played) && played.left._tag === 'CollectorEnded') return
          if (E.isLeft(played)) throw new FailureError(played.left)
          using batch = played.right.batch
          position = played.right.position
          turns += played.right.turns
          yield batch.value
        }
      } finally {
        await source.close()
      }
    },
  }
}

const problemsOf = ({ batches = {}, concurrent, env, maxTurns = 1 }: AnyOptions): readonly string[] => {
  const isCount = (value: number | undefined): boolean =>
    value === undefined || (Number.isSafeInteger(value) && value >= 1)
  const counts = {
    maxTurns,
    dialogTurnsPerBatch: batches.dialogTurnsPerBatch,
    totalDialogTurns: batches.totalDialogTurns,
  }
  const wrong = Object.entries(counts).flatMap(([name, value]) =>
    isCount(value) ? [] : [`${name} must be an integer of at least 1, got ${value}`],
  )
  const isByTask = typeof env === 'function'
  return [
    ...wrong,
    ...(isByTask === (concurrent !== undefined)
      ? []
      : [`env must be ${isByTask ? 'an environment without' : 'a function of the task with'} 'concurrent'`]),
    ...(concurrent === undefined && batches.yieldCompletedTrajectories === false
      ? ["yieldCompletedTrajectories: false requires 'concurrent': in lockstep, trajectories are whole"]
      : []),
  ]
}

type AnyOptions = Pick<CommonOptions<unknown, unknown>, 'maxTurns'> & {
  readonly env: unknown
  readonly batches?: Pick<BatchOptions<unknown, unknown>, keyof TurnBatches | 'totalDialogTurns'>
  readonly concurrent?: unknown
}

/** Returns the policy, made on first use. */
const policyOf = <O, P>(options: PolicyOption<O, P>): (() => Policy<O, P>) => {
  let made: Policy<O, P> | undefined = options.policy
  return () => {
    made ??= options.policyFactory?.()
    if (made === undefined) throw new RangeError('LLMCollector: expected policy or policyFactory, got neither')
    return made
  }
}

const later = <O, P>(policy: () => Policy<O, P>): Policy<O, P> => ({
  name: 'policyFactory',
  act: (td, key, options) => policy().act(td, key, options),
})

const runRulesOf = <O, P, Q>(options: ConcurrentCollectorOptions<O, P, Q>): RunRules<O, P> => {
  const { env, key, maxTurns, batches = {}, concurrent, time = {} } = options
  const { dialogTurnsPerBatch, yieldOnlyLastSteps, yieldCompletedTrajectories } = batches
  return runRules({
    env,
    key,
    policy: options.policy ?? later(policyOf(options)),
    ...time,
    ...concurrent,
    ...(maxTurns !== undefined && { maxTurns }),
    ...(dialogTurnsPerBatch !== undefined && { dialogTurnsPerBatch }),
    ...(yieldOnlyLastSteps !== undefined && { yieldOnlyLastSteps }),
    ...(yieldCompletedTrajectories !== undefined && { yieldCompletedTrajectories }),
  })
}

/** An environment, or with `concurrent` a function that makes that of a task. */
type EnvOf<O, A, N> = [N] extends [never] ? Env<O, A> : (task: number) => Env<O, A>

/**
 * The parts of a collector. The policy reads `In` and writes `P`; the environment has states `O`
 * and takes actions `A`. `N` is `never` without `concurrent`. `What` names the required parts, in
 * messages only.
 */
type CollectorParts<What, In, P, O, A, N extends number, Q> = CommonOptions<CollectedBatch<O, P>, Q> &
  PolicyOption<In, P> & {
    readonly env: EnvOf<O, A, N>
    readonly concurrent?: ConcurrentOptions & { readonly maxInFlight: N }
  } & (What | unknown)

type CollectorOf<O, P, N, Q> = [N] extends [never] ? LLMCollector<Q> : ConcurrentLLMCollector<O, P, Q>

const START: CollectorPosition = { batch: 0, remembered: {} }

/**
 * Plays episodes with a policy of tokens, texts or conversations, and collects their turns in
 * batches.
 *
 * The states and actions of environment and policy must match; otherwise the program does not
 * compile. The entries of `CollectedBatch` follow from both.
 *
 * With one environment, all elements of a reset are played in lockstep until every episode is done,
 * with one policy call per turn for all unfinished episodes. This is the fastest mode for a model
 * in this process. Reset `n` draws from `child(key, n)`, so batches do not depend on when or how
 * often others were collected.
 *
 * With `concurrent` and one environment per task, every rollout is played separately, `maxInFlight`
 * at a time, and a free place goes to the next task. No batch waits for its longest conversation,
 * which suits servers, tools and agents. Batches are whole groups (or turns, with
 * `yieldCompletedTrajectories: false`). Randomness is keyed by task and member: equal keys and a
 * policy that samples from its key give equal trajectories, independent of `maxInFlight` and
 * timing. Every drawn task is delivered, fails with a cause, or is cancelled; until then it is part
 * of the position. A failed rollout has no reward and no rows, and its group is left out.
 *
 * `for await (const batch of collector)` ends after the last task or `totalDialogTurns`, or never.
 * A batch stays alive until the next one is requested; keep it longer with `own`.
 *
 * Errors   throws RangeError with all invalid options. `collect` returns `Left(CollectorFailure)`.
 *          The iterator throws FailureError.
 * Effects  those of environment and policy. Cancelled work receives an aborted signal and is not
 *          awaited.
 * Source   TorchRL `LLMCollector`, over one environment and over `AsyncEnvPool`. Here groups stay
 *          whole, and incomplete work is delivered or listed at the end.
 *
 * @example
 * const env = scriptedEnv([{ rewards: [1] }])
 * LLMCollector({ env, policy: scriptedPolicy({ answers: [] }), key: keyFromSeed(1) }).start // { batch: 0, remembered: {} }
 */
export const LLMCollector = <
  In,
  A,
  P extends Needs<Unwritten<A, P>, A>,
  O extends Needs<Absent<In, O>, In>,
  N extends number = never,
  Q = CollectedBatch<O, P>,
>(
  parts: CollectorParts<'env, policy and key', In, P, O, A, N, Q>,
): CollectorOf<O, P, N, Q> => {
  const options = parts as unknown as LLMCollectorOptions<O, P, Q> | ConcurrentCollectorOptions<O, P, Q> // the policy reads `O`, and the environment takes `P`, by the constraints
  checkOptions('LLMCollector', options, LLM_COLLECTOR_OPTIONS)
  if (options.batches !== undefined)
    checkOptions('LLMCollector: batches', options.batches, LLM_COLLECTOR_BATCHES_OPTIONS)
  if (options.concurrent !== undefined)
    checkOptions('LLMCollector: concurrent', options.concurrent, LLM_COLLECTOR_CONCURRENT_OPTIONS)
  const problems = problemsOf(options as AnyOptions) // fewer fields
  if (problems.length > 0) throw new RangeError(`LLMCollector: ${problems.join('; ')}`)
  const { key, start = START, maxTurns = 64, batches = {}, time = {} } = options
  // Both results have the type of `CollectorOf`.
  if (options.concurrent !== undefined) {
    const rules = runRulesOf(options)
    const begin = (given: RolloutRunOptions = {}): RolloutRun<O, P> => rolloutRun(rules, given)
    return { ...collectorOf(() => concurrentSource(begin), start, batches), begin } as never
  }
  const policy = policyOf(options)
  const rules = {
    env: options.env,
    policy,
    key,
    maxTurns,
    clock: time.clock ?? liveClock,
    dialogTurnsPerBatch: batches.dialogTurnsPerBatch ?? 1,
    turns: batches.yieldOnlyLastSteps === true ? ('last' as const) : ('all' as const),
  }
  const source: Source<CollectedBatch<O, P>> = { collect: (at) => playLockstep(rules, at), close: async () => {} }
  return collectorOf(() => source, start, batches) as never
}

import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Alarms, Clock } from '../core/capabilities.js'
import { FailureError } from '../core/failure.js'
import type { Key } from '../core/key.js'
import { aFunction, aNumber, anything, aRecord, checkOptions, oneOf } from '../core/options.js'
import type { Policy, TokenAction } from '../data/policy.js'
import type { WeightFailure } from '../data/weights.js'
import { type Owned, own, scope } from '../engine/scope.js'
import type { Env } from '../envs/env.js'
import { liveClock } from '../live/clock.js'
import { type CollectorPosition, type Played, playLockstep } from './rollouts/lockstep.js'
import type { EpisodeFailure } from './rollouts/rollout.js'
import type { RolloutsStopped } from './rollouts/rolloutBatch.js'
import { type RolloutRun, type RolloutRunOptions, rolloutRun } from './rollouts/rolloutRun.js'
import { type ConcurrentOptions, type RunRules, runRules, type TurnBatches } from './rollouts/settings.js'
import type { CollectedBatch } from './rollouts/turnRows.js'

/** A batch was asked for after the last task. */
export interface CollectorEnded {
  readonly _tag: 'CollectorEnded'
  readonly reason: string
}

/** Collecting could not go on. */
export type CollectorFailure = EpisodeFailure | RolloutsStopped | WeightFailure | CollectorEnded

/** Where batches go besides: a replay buffer that holds its state. */
export interface BatchSink<in B> {
  /** Takes a batch, which is freed later: what is kept of it has to be owned. */
  readonly extend: (batch: B) => unknown
}

/** How weights come to the policy. */
export interface CollectorWeights {
  /** The version to sample with now, such as `learner.version`. */
  readonly version: () => number
  /** Gives the policy the weights of that version. */
  readonly push: TaskEither<WeightFailure, unknown>
}

/** What a batch is, and what is done with it. */
export interface BatchOptions<B, Q> extends TurnBatches {
  /** Iterating ends when batches had so many turns together. Default: never. */
  readonly totalDialogTurns?: number
  /** Makes the batch that is given out of the one that was collected, such as one with advantages. */
  readonly postproc?: (batch: B) => Q
  /** Every batch is written there too, after `postproc`. */
  readonly replayBuffer?: BatchSink<Q>
  /** Pushes new weights before a batch is collected, when their version has changed since the one before. */
  readonly weightUpdater?: CollectorWeights
}

/** What all collectors are told. */
interface CommonOptions<O, P, Q> {
  readonly key: Key
  /** Default: the beginning. */
  readonly start?: CollectorPosition
  /** An episode that has not ended after this many turns is a failure. Default 64. */
  readonly maxTurns?: number
  readonly batches?: BatchOptions<CollectedBatch<O, P>, Q>
  readonly time?: { readonly clock?: Clock; readonly alarms?: Alarms }
}

type PolicyOption<O, P> =
  | { readonly policy: Policy<O, P>; readonly policyFactory?: never }
  /** Makes the policy when the first batch is asked for. */
  | { readonly policyFactory: () => Policy<O, P>; readonly policy?: never }

/** Episodes of one environment, all elements side by side: one call of the policy for all of them. */
export type LLMCollectorOptions<O, P = TokenAction, Q = CollectedBatch<O, P>> = CommonOptions<O, P, Q> &
  PolicyOption<O, P> & { readonly env: Env<O, P>; readonly concurrent?: never }

/** Rollouts of many tasks at a time, each by itself. */
export type ConcurrentCollectorOptions<O, P = TokenAction, Q = CollectedBatch<O, P>> = CommonOptions<O, P, Q> &
  PolicyOption<O, P> & {
    /** The environment of a task, counted from 0: its batch is one group. Equal tasks must give equal environments. */
    readonly env: (task: number) => Env<O, P>
    readonly concurrent: ConcurrentOptions
  }

/** A batch and where to go on. */
export interface Collected<B> {
  readonly batch: Owned<B>
  readonly position: CollectorPosition
}

/** Collects batches `B`. */
export interface LLMCollector<B> extends AsyncIterable<B> {
  readonly start: CollectorPosition
  /**
   * Collects the batch at a position. Equal positions give equal batches, if environment and policy are pure and concurrent rollouts come
   * in the order in which they were `drawn`. Rollouts that go on are those of the position given out last: another one begins anew.
   */
  readonly collect: (position: CollectorPosition) => TaskEither<CollectorFailure, Collected<B>>
  /** Calls off what `collect` has left running. */
  readonly close: () => Promise<void>
}

/** Collects rollouts that are played each by itself. */
export interface ConcurrentLLMCollector<O, P, B> extends LLMCollector<B> {
  /** Begins a run that tells of tasks, failures and what was cut off; its batches are as they were played. */
  readonly begin: (options?: RolloutRunOptions) => RolloutRun<O, P>
}

/** Where batches come from, one after the other. */
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
      return E.left({ _tag: 'CollectorEnded', reason: 'all tasks have been given out' })
    },
  }
}

/** Pushes weights whose version is another than that of the batch before. */
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

/** What is done with each batch. */
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

/** The collector of a source. Each iteration has a source of its own. */
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

const KINDS = {
  ...{ env: anything, policy: aRecord, policyFactory: aFunction, key: aRecord, start: aRecord, maxTurns: aNumber },
  ...{ batches: aRecord, concurrent: aRecord, time: aRecord },
}

const BATCH_KINDS = {
  ...{ dialogTurnsPerBatch: aNumber, totalDialogTurns: aNumber, yieldOnlyLastSteps: anything },
  ...{ yieldCompletedTrajectories: anything, postproc: aFunction, replayBuffer: aRecord, weightUpdater: aRecord },
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
      ? ["yieldCompletedTrajectories: false needs 'concurrent': side by side, trajectories are whole"]
      : []),
  ]
}

const CONCURRENT_KINDS = {
  ...{ maxInFlight: aNumber, tasks: aNumber, ahead: aNumber, order: oneOf('completion', 'drawn'), deadlineMs: aNumber },
  ...{ tokenBudget: aNumber, onFailure: anything, maxFailureShare: aNumber },
}

type AnyOptions = Pick<CommonOptions<unknown, unknown, unknown>, 'maxTurns'> & {
  readonly env: unknown
  readonly batches?: Pick<BatchOptions<unknown, unknown>, keyof TurnBatches | 'totalDialogTurns'>
  readonly concurrent?: unknown
}

/** The policy, which is made when it is needed first. */
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
    ...{ env, key, policy: options.policy ?? later(policyOf(options)), ...time, ...concurrent },
    ...(maxTurns !== undefined && { maxTurns }),
    ...(dialogTurnsPerBatch !== undefined && { dialogTurnsPerBatch }),
    ...(yieldOnlyLastSteps !== undefined && { yieldOnlyLastSteps }),
    ...(yieldCompletedTrajectories !== undefined && { yieldCompletedTrajectories }),
  })
}

/** `LLMCollector` of one environment, or of one for each task. */
interface MakeCollector {
  <O, P, Q = CollectedBatch<O, P>>(options: ConcurrentCollectorOptions<O, P, Q>): ConcurrentLLMCollector<O, P, Q>
  <O, P, Q = CollectedBatch<O, P>>(options: LLMCollectorOptions<O, P, Q>): LLMCollector<Q>
}

const START: CollectorPosition = { batch: 0, remembered: {} }

/**
 * Plays episodes with a policy of tokens, texts or conversations and collects their turns, batch by batch.
 *
 * What the environment asks with and takes is what the policy reads and gives, or it does not compile; `CollectedBatch` has the entries
 * that follow from both.
 *
 * With one environment, all elements of a reset are played side by side until every episode is done, with one call of the policy for
 * all that go on: the fastest way for a model in this process. Reset `n` draws from `child(key, n)`, so that batches do not depend on when
 * or how often others were collected.
 *
 * With `concurrent` and an environment for each task, every rollout is played by itself, `maxInFlight` at a time, and a free place goes to
 * the next task: nobody waits for the longest conversation of a batch, which pays for servers, tools and agents. Batches are whole groups
 * (or turns, with `yieldCompletedTrajectories: false`). Randomness belongs to task and member: equal keys and a policy that samples from
 * its key give equal trajectories, whatever `maxInFlight` is and whatever is over first. Every task that is drawn is given out, fails with
 * a cause, or is cancelled, and stands in the position until then. What failed has no reward and no rows; its group is left out.
 *
 * `for await (const batch of collector)` ends with the tasks or with `totalDialogTurns`, or never; a batch stays alive until the next one
 * is asked for (`own` keeps it longer).
 *
 * Errors   throws RangeError with all options that are wrong; `collect` gives `Left(CollectorFailure)`; the iterator throws FailureError.
 * Effects  those of environment and policy. Work that is called off is told so by its signal, and not waited for.
 * Source   TorchRL `LLMCollector`, over one environment and over `AsyncEnvPool`; here groups stay whole, and what is not complete at the end is
 *          given out or listed, never lost.
 *
 * @example
 * const env = ScriptedEnv([{ rewards: [1] }])
 * LLMCollector({ env, policy: ScriptedPolicy({ answers: [] }), key: keyFromSeed(1) }).start // { batch: 0, remembered: {} }
 */
export const LLMCollector: MakeCollector = <O, P, Q>(
  options: LLMCollectorOptions<O, P, Q> | ConcurrentCollectorOptions<O, P, Q>,
): never => {
  checkOptions('LLMCollector', options, KINDS)
  if (options.batches !== undefined) checkOptions('LLMCollector: batches', options.batches, BATCH_KINDS)
  if (options.concurrent !== undefined) checkOptions('LLMCollector: concurrent', options.concurrent, CONCURRENT_KINDS)
  const problems = problemsOf(options as AnyOptions) // fewer fields
  if (problems.length > 0) throw new RangeError(`LLMCollector: ${problems.join('; ')}`)
  const { key, start = START, maxTurns = 64, batches = {}, time = {} } = options
  // Both results are what the overload of their options promises.
  if (options.concurrent !== undefined) {
    const rules = runRulesOf(options)
    const begin = (given: RolloutRunOptions = {}): RolloutRun<O, P> => rolloutRun(rules, given)
    return { ...collectorOf(() => concurrentSource(begin), start, batches), begin } as never
  }
  const policy = policyOf(options)
  const rules = {
    ...{ env: options.env, policy, key, maxTurns, clock: time.clock ?? liveClock },
    dialogTurnsPerBatch: batches.dialogTurnsPerBatch ?? 1,
    turns: batches.yieldOnlyLastSteps === true ? ('last' as const) : ('all' as const),
  }
  const source: Source<CollectedBatch<O, P>> = { collect: (at) => playLockstep(rules, at), close: async () => {} }
  return collectorOf(() => source, start, batches) as never
}

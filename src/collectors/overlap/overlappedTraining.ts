/** Training that goes on while the next groups are sampled, with a bound on how old they may be. */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Clock } from '../../core/capabilities.js'
import type { Changing } from '../../core/changing.js'
import { type Failure, orThrow } from '../../core/failure.js'
import type { NamedTensors } from '../../data/weights.js'
import { type Owned, own } from '../../engine/scope.js'
import type { LossStep, MeasuredLoss, TrainerState } from '../steps/lossStep.js'
import type { WeightUpdater } from '../weightSync.js'
import type { GivenRules, OverlapStart } from './overlapState.js'
import type { TrainedTask } from './overlapStep.js'
import { type GroupSource, type PushVersion, sampleAhead, type TakenStep } from './samplerAhead.js'

/** Who learns, from what, and who is told. */
export interface OverlappedLearning<G, S, R, M> {
  readonly step: LossStep<S, R, M>
  /** What training begins with. It is taken over: each step frees the one before. */
  readonly state: Owned<TrainerState<S>>
  /** The mini-batches of a step, in the order of its updates; none if there is nothing to learn. The groups are its own: it frees them. */
  readonly rows: (taken: TakenStep<G>, params: NamedTensors) => TaskEither<Failure, readonly R[]>
  /** By the updates that were done before the step. */
  readonly learningRate: (version: number) => number
  /** Gets the trained parameters with the frozen ones after each step. */
  readonly updater: WeightUpdater<NamedTensors>
  /** Default none. */
  readonly frozen?: NamedTensors
}

export interface OverlappedTrainingOptions<G, S, R, M> {
  readonly source: GroupSource<G>
  readonly rules: GivenRules
  readonly learning: OverlappedLearning<G, S, R, M>
  readonly start?: OverlapStart
  /** Aborting it ends the iteration after the step that is underway. */
  readonly signal?: AbortSignal
  readonly clock?: Clock
}

/** A step that was done. */
export interface OverlappedStep<S, M>
  extends Pick<TakenStep<unknown>, 'dropped' | 'failures' | 'seconds' | 'position'> {
  /** Of the parameters after it. */
  readonly version: number
  /** One for each mini-batch. */
  readonly metrics: readonly M[]
  readonly tasks: readonly TrainedTask[]
  /** Alive until the next step is asked for. */
  readonly state: TrainerState<S>
}

/** What the last update left. */
type Trainer<S> = Changing<{ readonly last: Owned<TrainerState<S>> }>

/** Learns from mini-batches one after the other. States that were replaced are freed at once; after a failure the last one is there. */
const learnFrom = <G, S, R, M extends MeasuredLoss>(
  { step, learningRate }: OverlappedLearning<G, S, R, M>,
  trainer: Trainer<S>,
  { batches, version }: { readonly batches: readonly R[]; readonly version: number },
): readonly M[] =>
  batches.map((rows) => {
    const { state, metrics } = step.update(trainer.last.value, rows, learningRate(version))
    trainer.last.release()
    trainer.last = state
    return metrics
  })

/** Pushes of what was trained last, which stays alive until they have ended. */
const pushOf =
  <S>(updater: WeightUpdater<NamedTensors>, trainer: Trainer<S>, frozen: NamedTensors | undefined): PushVersion =>
  (version) =>
  async () => {
    using held = own({ ...frozen, ...trainer.last.value.params })
    return await updater.push(held.value, version)()
  }

/**
 * Trains on groups that are sampled at the same time, with weights that are at most `rules.maxLag` updates old. With `maxLag` 0 it samples,
 * learns and updates in turns, and its parameters are those of a loop that does just that, bit for bit, if environment and policy are pure.
 *
 * A step: the oldest groups are taken (see `overlapStep`), `rows` makes mini-batches of them, the parameters after the last one get the next
 * version, and `updater` gives it to the engine while the next step is learned from. What is in the middle of a completion then goes on with the new
 * weights or finishes with the old ones, as the updater does it. Where `stale` is `correct`, `rows` is to weigh tokens: `correctStaleRows`.
 *
 * Errors   the iterator throws FailureError: too much failed (`OverlapStopped`), a push failed, or `rows` did; NonFiniteLoss and what `source`
 *          throws as they are. RangeError at the start for rules that make no sense. Everything is called off first.
 * Effects  those of source and updater. The state is freed at the end, and so is what was sampled and not learned from.
 * Source   verl's one-step-off and fully asynchronous trainers, prime-rl's async level, AReaL (arXiv:2505.24298), PipelineRL
 *          (arXiv:2509.19128) for updates in flight. They bound what is drawn, or drop; here nothing is ever older than it may be.
 */
export async function* overlappedTraining<G, S, R, M extends MeasuredLoss>(
  options: OverlappedTrainingOptions<G, S, R, M>,
): AsyncGenerator<OverlappedStep<S, M>, void> {
  const { source, rules, learning, start, signal, clock } = options
  const trainer: Trainer<S> = { last: learning.state }
  try {
    const push = pushOf(learning.updater, trainer, learning.frozen)
    const ahead = sampleAhead(source, rules, { push, ...start, ...(signal && { signal }), ...(clock && { clock }) })
    try {
      for (;;) {
        const taken = orThrow(await ahead.take())
        if (taken._tag === 'End') return
        const { groups, dropped, failures, seconds, position, version } = taken
        const batches = orThrow(await learning.rows(taken, trainer.last.value.params)())
        const metrics = learnFrom(learning, trainer, { batches, version })
        ahead.trained()
        const tasks = groups.map(({ task, lag }) => ({ task, lag }))
        yield { version: version + 1, metrics, tasks, dropped, failures, seconds, position, state: trainer.last.value }
      }
    } finally {
      await ahead.close()
    }
  } finally {
    trainer.last.release()
  }
}

/** A training step whose gradients are computed by several threads. */
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { FailureError, type ThreadFailure } from '../../core/failure.js'
import { discard, type Owned, own, scope } from '../../engine/scope.js'
import {
  countTensors,
  type LossStep,
  type LossStepOptions,
  type MeasuredLoss,
  type StepCase,
  type StepPlan,
  stepPieces,
  type TrainerState,
} from '../steps/lossStep.js'
import type { GradOutput, StepPart } from '../steps/stepGradients.js'
import type { PlainGradients } from './messages.js'
import { tensorsOfPlain, treeOf } from './plainTensors.js'
import type { Replicas } from './replicas.js'

/** A training step that waits for threads. */
export interface ParallelStep<S, R, M> extends Pick<LossStep<S, R, M>, 'init' | 'release'> {
  /**
   * As `LossStep.update`.
   *
   * Errors   `Left(ThreadFailure)` when a thread has ended; rejects with RangeError and NonFiniteLoss as `LossStep.update` throws them.
   *          Nothing is changed then.
   */
  readonly update: (
    state: TrainerState<S>,
    rows: R,
    learningRate: number,
  ) => TaskEither<ThreadFailure, ReturnType<LossStep<S, R, M>['update']>>
}

/** A step of this thread alone, for those who wait for threads. */
export const inThisThread = <S, R, M>(step: LossStep<S, R, M>): ParallelStep<S, R, M> => ({
  ...step,
  update:
    (...given) =>
    async () =>
      E.right(step.update(...given)),
})

type Result<X> = PromiseSettledResult<Owned<GradOutput<X>>>

const isThreadFailure = (error: unknown): error is FailureError & { readonly failure: ThreadFailure } =>
  error instanceof FailureError && error.failure._tag === 'ThreadFailure'

/**
 * Makes a training step that shares the micro-batches of a mini-batch out to replicas: data parallelism. With W workers, micro-batch `i` is
 * worker `i mod W`'s, and there is a multiple of W of them where there are as many groups; micro-batches are as even as groups allow.
 *
 *     g = ((g_0 + g_1) + g_2) + ...
 *
 * Gradients are added up here in the order of the micro-batches, whichever comes first: equal rows, settings and number of workers give equal
 * parameters bit for bit, and another number of workers changes rounding alone. What an objective decides over the whole mini-batch is
 * computed in this thread.
 *
 * Errors   throws RangeError as `lossStep`.
 * Effects  as `lossStep`; the replicas stay after `release`.
 * Cost     each worker computes one W-th of the gradients; one copy of the gradients of each micro-batch crosses to this thread.
 * Source   Sergeev and Del Balso 2018, arXiv:1802.05799, with a reduction of fixed order.
 */
export const parallelStep = <S, R, K extends string, X, M extends MeasuredLoss>(
  stepCase: StepCase<R, K, X, M>,
  options: LossStepOptions<S>,
  replicas: Replicas,
): ParallelStep<S, R, M> => {
  const pieces = stepPieces(stepCase, options)
  const frozen = options.frozen ?? {}

  const received = ({ grads, part }: PlainGradients): Owned<GradOutput<X>> =>
    own(
      scope(() => {
        const { loss, aux } = treeOf(part) as unknown as StepPart<X> // the replica flattened one
        return { grads: tensorsOfPlain(grads), loss, aux }
      }),
    )

  /** Gradients of all micro-batches, or what went wrong with each. */
  const gradients = async (
    { params }: TrainerState<S>,
    { micros, counts }: StepPlan<K>,
  ): Promise<readonly Result<X>[]> => {
    replicas.hold({ ...frozen, ...params })
    const trained = Object.keys(params)
    const asked = micros.map((rows, i) => {
      const worker = i % replicas.workers
      if (worker === 0) return undefined
      return replicas.run(worker, { _tag: 'Gradients', trained, rows, counts }).then(received)
    })
    const others = Promise.allSettled(asked.map((each) => each ?? Promise.resolve(undefined)))
    const mine = await Promise.allSettled(
      micros.map(async (rows, i) =>
        asked[i] === undefined ? own(scope(() => pieces.run(params, rows, countTensors(counts)))) : undefined,
      ),
    )
    const theirs = await others
    return micros.map((_, i) => (asked[i] === undefined ? mine[i] : theirs[i]) as Result<X>) // the one that is there
  }

  const sum = (parts: readonly GradOutput<X>[]): GradOutput<X>['grads'] =>
    parts.slice(1).reduce((total, { grads }, i) => {
      const next = pieces.add(total, grads)
      if (i > 0) discard(total, next)
      return next
    }, parts[0]!.grads)

  const learnFrom = (state: TrainerState<S>, results: readonly Result<X>[], learningRate: number) =>
    scope(() => {
      const parts = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value.value] : []))
      const learned = pieces.learn({ state, grads: sum(parts), learningRate: tf.scalar(learningRate) })
      return pieces.conclude({ parts, ...learned })
    })

  const whole = (state: TrainerState<S>, { micros, counts }: StepPlan<K>, learningRate: number) =>
    scope(() => {
      const numbers = { counts: countTensors(counts), learningRate: tf.scalar(learningRate) }
      return pieces.whole === undefined ? undefined : pieces.conclude(pieces.whole(state, micros[0]!, numbers))
    })

  return {
    init: pieces.init,
    update: (state, rows, learningRate) => async () => {
      const plan = scope(() => pieces.plan(state.params, { rows, learningRate }, replicas.workers))
      if (plan.micros.length === 1) {
        const done = whole(state, plan, learningRate)
        if (done !== undefined) return E.right(done)
      }
      const results = await gradients(state, plan)
      try {
        const failed = results.find((result) => result.status === 'rejected')
        if (failed === undefined) return E.right(learnFrom(state, results, learningRate))
        if (isThreadFailure(failed.reason)) return E.left(failed.reason.failure)
        throw failed.reason
      } finally {
        for (const result of results) if (result.status === 'fulfilled') result.value.release()
      }
    },
    release: pieces.release,
  }
}

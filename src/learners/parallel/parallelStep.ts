/** A training step whose gradients are computed by several threads. */
import { FailureError, type ThreadFailure } from '@tandem-rl/base'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { NamedTensors } from '../../data/weights.js'
import type { Loss, LossMetrics } from '../../objectives/loss.js'
import type { LossRows } from '../../objectives/lossRows.js'
import { countTensors, type LossStep, type LossStepOptions, type StepPlan, stepPieces } from '../steps/lossStep.js'
import type { TrainerState } from '../steps/optimizerStep.js'
import type { ComputedGradients, StepPart } from '../steps/stepGradients.js'
import type { StepMeasures } from '../steps/stepLoss.js'
import type { PlainGradients } from './messages.js'
import { tensorsOfPlain, treeOf } from './plainTensors.js'
import type { Replicas } from './replicas.js'

/** A training step that waits for its threads. */
export interface ParallelStep<S, M> extends Pick<LossStep<S, M>, 'init' | 'release'> {
  /**
   * Like `LossStep.update`.
   *
   * Errors   `Left(ThreadFailure)` if a thread has ended. Rejects with the RangeError and
   *          NonFiniteLoss that `LossStep.update` throws. In both cases the state is unchanged.
   */
  readonly update: (
    state: TrainerState<S>,
    rows: LossRows,
    learningRate: number,
  ) => TaskEither<ThreadFailure, ReturnType<LossStep<S, M>['update']>>
}

/** Adapts a step of this thread to the interface of a parallel one. */
export const inThisThread = <S, M>(step: LossStep<S, M>): ParallelStep<S, M> => ({
  ...step,
  update:
    (...given) =>
    async () =>
      E.right(step.update(...given)),
})

type Result = PromiseSettledResult<Owned<ComputedGradients<StepMeasures>>>

const isThreadFailure = (error: unknown): error is FailureError & { readonly failure: ThreadFailure } =>
  error instanceof FailureError && error.failure._tag === 'ThreadFailure'

/**
 * Makes a training step that distributes the micro-batches of a mini-batch over replicas (data
 * parallelism). With W workers, worker `i mod W` computes micro-batch `i`. The number of
 * micro-batches is a multiple of W if there are enough groups, and their sizes are as even as
 * groups allow.
 *
 *     g = ((g_0 + g_1) + g_2) + ...
 *
 * This thread adds the gradients in the order of the micro-batches, whatever order they arrive in.
 * Equal rows, settings and numbers of workers therefore give equal parameters, bit for bit. Another
 * number of workers changes rounding only. Quantities of the whole mini-batch are computed in this
 * thread.
 *
 * Errors   throws RangeError like `lossStep`.
 * Effects  those of `lossStep`. The replicas stay after `release`.
 * Cost     each worker computes 1/W of the gradients. The gradients of each micro-batch are copied
 *          to this thread once.
 * Source   Sergeev and Del Balso 2018, arXiv:1802.05799, with a reduction of fixed order.
 */
export const parallelStep = <S, M extends LossMetrics>(
  loss: Loss<never, M, never>,
  options: LossStepOptions<S>,
  replicas: Replicas,
): ParallelStep<S, M> => {
  const pieces = stepPieces(loss, options)
  const frozen = options.frozen ?? {}

  const received = ({ grads, part, places }: PlainGradients): Owned<ComputedGradients<StepMeasures>> =>
    own(
      scope(() => {
        const { loss, aux } = treeOf(part) as unknown as StepPart<StepMeasures> // the replica flattened one
        return { grads: grads && tensorsOfPlain(grads), loss, aux, places }
      }),
    )

  /** Returns the gradients of all micro-batches, or the error of each. */
  const gradients = async ({ params }: TrainerState<S>, { micros, counts }: StepPlan): Promise<readonly Result[]> => {
    replicas.hold('policy', { ...frozen, ...params })
    const trained = Object.keys(params)
    const requested = micros.map(({ rows, gradient }, i) => {
      const worker = i % replicas.workers
      if (worker === 0) return undefined
      return replicas.run(worker, { _tag: 'Gradients', trained, micro: { rows, gradient }, counts }).then(received)
    })
    const others = Promise.allSettled(requested.map((each) => each ?? Promise.resolve(undefined)))
    const mine = await Promise.allSettled(
      micros.map(async (micro, i) =>
        requested[i] === undefined
          ? own(scope(() => pieces.run(params, micro, { counts: countTensors(counts), sum: null })))
          : undefined,
      ),
    )
    const theirs = await others
    return micros.map((_, i) => (requested[i] === undefined ? mine[i] : theirs[i]) as Result) // whichever was computed
  }

  const sum = (parts: readonly ComputedGradients<StepMeasures>[]): NamedTensors | null => {
    const [first, ...more] = parts.flatMap(({ grads }) => (grads === null ? [] : [grads]))
    return first === undefined ? null : more.reduce((sum, part) => pieces.add(sum, part), first)
  }

  const learnFrom = (
    state: TrainerState<S>,
    { results, micros }: Pick<StepPlan, 'micros'> & { readonly results: readonly Result[] },
    learningRate: number,
  ) =>
    scope(() => {
      const parts = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value.value] : []))
      return pieces.learn({ state, grads: sum(parts), learningRate: tf.scalar(learningRate) }, { parts, micros })
    })

  const whole = (state: TrainerState<S>, { micros, counts }: StepPlan, learningRate: number) =>
    scope(() => {
      const numbers = { counts: countTensors(counts), learningRate: tf.scalar(learningRate) }
      return pieces.whole(state, micros, numbers)
    })

  return {
    init: pieces.init,
    update: (state, rows, learningRate) => async () => {
      const plan = scope(() => pieces.plan(state.params, { rows, learningRate }, replicas.workers))
      const done = whole(state, plan, learningRate)
      if (done !== undefined) return E.right(done)
      const results = await gradients(state, plan)
      try {
        const failed = results.find((result) => result.status === 'rejected')
        if (failed === undefined) return E.right(learnFrom(state, { results, micros: plan.micros }, learningRate))
        if (isThreadFailure(failed.reason)) return E.left(failed.reason.failure)
        throw failed.reason
      } finally {
        for (const result of results) if (result.status === 'fulfilled') result.value.release()
      }
    },
    release: pieces.release,
  }
}

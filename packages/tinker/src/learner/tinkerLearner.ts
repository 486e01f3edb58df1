/** A learner whose model is trained by a Tinker server. */
import { checkOptions, refuse } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { AdamWOptions, Learner, LearnerFailure } from 'tandem-rl'
import {
  type AnyOptimizer,
  type LogProbGradient,
  type LossMetrics,
  type LossRows,
  type RemoteLearnerOptions,
  type RemoteTrainer,
  remoteLearner,
} from 'tandem-rl/objectives'
import type { TinkerFailure } from '../client/calls.js'
import { gradientNorm } from '../client/gradientSums.js'
import type { Pending } from '../client/pending.js'
import type { TinkerTrainer } from '../client/trainer.js'
import { TINKER_LEARNER_OPTIONS } from '../optionKinds.js'
import type { Datum } from '../protocol/values.js'
import { builtInData, builtInOf } from './builtInRoute.js'
import { exactBackward, forwardLogProbs } from './exactRoute.js'
import { rowDatum, withPromptPlaces } from './rowData.js'

export interface TinkerLearnerOptions<B = never, M extends LossMetrics = LossMetrics>
  extends Omit<RemoteLearnerOptions<B, M>, 'name' | 'trainer' | 'settings'> {
  readonly trainer: TinkerTrainer
  /** A name of the model, stored in run folders. */
  readonly baseModel: string
  /** `adamW` with a learning rate: servers have no other. */
  readonly optimizer: AnyOptimizer
  /** Infinity for no limit. Default 1. */
  readonly maxGradNorm?: number
  /**
   * `builtIn` uses the server's own loss. Default `exact`: the gradient by log-probabilities is
   * computed here.
   */
  readonly route?: 'exact' | 'builtIn'
  /** Seconds for which the server keeps the checkpoint of an update. Default: without end. */
  readonly checkpointSeconds?: number
}

const NAME = 'tinkerLearner'

const isWholeTime = (seconds: number | undefined): boolean =>
  seconds === undefined || (Number.isSafeInteger(seconds) && seconds > 0)

/** Errors: throws RangeError for settings that a Tinker server cannot have, all of them. */
const check = (options: TinkerLearnerOptions): void => {
  checkOptions(NAME, options, TINKER_LEARNER_OPTIONS)
  const { trainer, optimizer, loss, maxGradNorm = 1, route = 'exact' } = options
  refuse(NAME, [
    optimizer.name !== 'adamW' && `a Tinker server has the optimizer adamW, got ${optimizer.name}`,
    trainer.server.clipping === 'ignored' &&
      Number.isFinite(maxGradNorm) &&
      `${trainer.server.name} does not clip gradients: maxGradNorm must be Infinity, off in settings, got ${maxGradNorm}`,
    !isWholeTime(options.checkpointSeconds) &&
      `checkpointSeconds must be a whole number above 0, got ${options.checkpointSeconds}`,
    route === 'builtIn' &&
      builtInOf(loss) === undefined &&
      `servers do not have ${loss.name} as it is set: use the route exact`,
  ])
}

/** The settings of the server's Adam, with our defaults where ours are absent. */
const adamOf = ({ optimizer, maxGradNorm = 1 }: TinkerLearnerOptions, learningRate: number) => {
  const { beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0 } = (optimizer.options ?? {}) as AdamWOptions // its name is adamW
  const grad_clip_norm = Number.isFinite(maxGradNorm) ? maxGradNorm : 0
  return { learning_rate: learningRate, beta1, beta2, eps: epsilon, weight_decay: weightDecay, grad_clip_norm }
}

type Rows = Pick<LossRows, 'prompts' | 'completions'>

const dataOf = ({ prompts, completions }: Rows): readonly Datum[] =>
  prompts.map((prompt, i) => rowDatum(prompt, completions[i]!))

/** The log-probabilities of completions among those of whole sequences. */
const ofCompletions = ({ completions }: Rows, logProbs: readonly Float32Array[]): readonly Float32Array[] =>
  logProbs.map((row, i) => row.subarray(row.length - completions[i]!.length))

/** The result of a request, once it is there. */
const resultOf = <T>(sent: TE.TaskEither<TinkerFailure, Pending<T>>): TE.TaskEither<TinkerFailure, T> =>
  pipe(
    sent,
    TE.chain(({ result }) => result),
  )

/** A gradient that was sent, and the wait until the server has added it. */
interface Sent<G> {
  readonly computed: G
  readonly result: TE.TaskEither<TinkerFailure, unknown>
}

/** Sends the gradients of a mini-batch. */
const backward = <G extends LogProbGradient>(
  { trainer, loss, route = 'exact' }: TinkerLearnerOptions,
  rows: LossRows,
  gradient: (logProbs: readonly Float32Array[]) => E.Either<LearnerFailure, G>,
): TE.TaskEither<TinkerFailure | LearnerFailure, Sent<G>> => {
  const data = dataOf(rows)
  if (route === 'exact')
    return pipe(
      exactBackward(trainer, data, (logProbs) =>
        pipe(
          gradient(ofCompletions(rows, logProbs)),
          E.map((computed) => ({
            computed,
            gradients: computed.gradients.map((row, i) => withPromptPlaces(rows.prompts[i]!, row)),
          })),
        ),
      ),
      TE.map(({ computed: { computed }, pending }) => ({ computed, result: pending.result })),
    )
  const request = { data: builtInData(rows, data, trainer.gradients), ...builtInOf(loss)! } // checked by `check`
  return pipe(
    resultOf(trainer.forwardBackward(request)),
    TE.chainEitherKW(({ outputs }) =>
      gradient(
        ofCompletions(
          rows,
          outputs.map(({ logprobs }) => Float32Array.from(logprobs!.data)),
        ),
      ),
    ),
    TE.map((computed) => ({ computed, result: TE.right(undefined) })),
  )
}

/** A trainer of the server as a learner uses it. */
const remoteTrainer = (options: TinkerLearnerOptions): RemoteTrainer => {
  const { trainer, checkpointSeconds: ttlSeconds } = options
  return {
    logProbs: (rows) =>
      pipe(
        forwardLogProbs(trainer, dataOf(rows)),
        TE.map((logProbs) => ofCompletions(rows, logProbs)),
      ),
    step: (rows, { learningRate, gradient }) =>
      pipe(
        TE.Do,
        TE.bindW('sent', () => backward(options, rows, gradient)),
        TE.bindW('stepped', () => trainer.optimStep(adamOf(options, learningRate))), // before the results: both are in line
        TE.chainFirstW(({ sent }) => sent.result),
        TE.chainW(({ sent, stepped }) =>
          pipe(
            stepped.result,
            TE.map((metrics) => ({ computed: sent.computed, gradNorm: gradientNorm(metrics) ?? 0 })),
          ),
        ),
      ),
    save: (version) =>
      resultOf(
        trainer.saveState(`update-${String(version).padStart(6, '0')}`, ttlSeconds === undefined ? {} : { ttlSeconds }),
      ),
    load: (path) => resultOf(trainer.loadState(path, { optimizer: 'restored' })),
    close: async () => void (await trainer.unload()()), // a server that has ended has nothing to free
  }
}

/**
 * Trains a model on a Tinker server with any loss of log-probabilities. Server and local learner
 * compute the same updates up to rounding, if the server has no differences of its own.
 *
 * After each update the server saves a checkpoint. `files` contains its path, and `restore` loads
 * it. `weights` is empty, because weights stay on the server: sample with `tinkerPolicy`.
 *
 * Errors   throws RangeError for settings that make no sense. Updates fail with the kind `server`
 *          and the `TinkerFailure` as cause.
 */
export const tinkerLearner = <B, M extends LossMetrics>(options: TinkerLearnerOptions<B, M>): Learner<B, M> => {
  const known = options as unknown as TinkerLearnerOptions // the loss receives its own batches
  check(known)
  const { baseModel, maxGradNorm = 1, route = 'exact', checkpointSeconds: _, ...rest } = options
  return remoteLearner({
    ...rest,
    name: NAME,
    trainer: remoteTrainer(known),
    settings: { model: baseModel, route, maxGradNorm },
  })
}

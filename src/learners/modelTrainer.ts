/** Models that are trained step by step, as their caller decides. */
import type { Failure, Files, Key } from '@tandem-rl/base'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { NamedTensors } from '../data/weights.js'
import type { Adapter } from '../modules/lora/adapter.js'
import { adaptedProjections, adapterNumbers, type LoraConfig, loraConfig } from '../modules/lora/config.js'
import { hostArrays, type Pretrained } from '../modules/pretrained/pretrained.js'
import { parameterCount } from '../modules/transformer/params.js'
import { adamW } from '../objectives/updates/adamW.js'
import { globalNorm } from '../objectives/updates/optimizer.js'
import type { LearnerFailure } from './learner.js'
import { learnerFiles, readLearner } from './learnerState.js'
import { formatBytes } from './memoryEstimate.js'
import {
  type AdamStep,
  type MeasuredPlaces,
  type ModelArithmetic,
  makeArithmetic,
  type PlaceLoss,
  type PlaceRequest,
  type TrainedState,
} from './modelArithmetic.js'
import { restoredState } from './optimizerState.js'
import { type LoraOptions, trainable } from './trainable.js'

/** Weights to sample with: an adapter on the base model, or all weights. */
export type TrainedWeights =
  | { readonly _tag: 'Adapter'; readonly adapter: Adapter }
  | { readonly _tag: 'Weights'; readonly params: Owned<NamedTensors> }

/** A mutable value: the weights of a model, its gradients since the last step, and Adam's state. */
export interface TrainedModel {
  /**
   * Computes a loss, and adds its gradient to those since the last step.
   *
   * Errors   `Left` for a loss or gradient that is not finite, which is not kept.
   */
  readonly compute: (request: PlaceRequest) => E.Either<LearnerFailure, readonly MeasuredPlaces[]>
  /**
   * Takes a step along the gradients. Returns their norm, and the number of steps so far.
   *
   * Errors   `Left` if there are no gradients.
   */
  readonly step: (adam: AdamStep) => E.Either<LearnerFailure, { readonly gradNorm: number; readonly steps: number }>
  readonly snapshot: () => TrainedWeights
  /** The files of the model or adapter, with the optimizer's state for `training`. */
  readonly files: (content: 'training' | 'weights') => Readonly<Record<string, Uint8Array | string>>
  readonly load: (
    folder: string,
    options: { readonly files: Files; readonly optimizer: 'restored' | 'fresh' },
  ) => TE.TaskEither<Failure, void>
  readonly release: () => void
}

/** Trains copies of one model, or adapters on it. */
export interface ModelTrainer {
  /**
   * The reason against one more model with this adapter, or with all weights trained: settings that
   * do not fit, or more memory than is free.
   */
  readonly problem: (lora: Partial<LoraConfig> | null, freeBytes: number) => string | undefined
  /**
   * Starts to train a model. `key` is that of a new adapter.
   *
   * Errors   throws RangeError for an adapter that does not fit the model.
   * Effects  holds weights, gradients and optimizer state until it is released.
   */
  readonly start: (options: { readonly lora: LoraOptions | null; readonly key: Key }) => TrainedModel
  readonly release: () => void
}

const NAME = 'modelTrainer'

const failed = (kind: LearnerFailure['kind'], reason: string): E.Either<LearnerFailure, never> =>
  E.left({ _tag: 'LearnerFailure', learner: NAME, kind, reason })

/**
 * Numbers in memory for each trained one, at most: weights, gradients and their sum, Adam's state,
 * and what a part of a step replaces.
 */
const NUMBERS_EACH = 11

/** Bytes up to which free memory is not looked at. */
const SMALL_MODEL = 64 * 2 ** 20

/** Errors: `Left` for settings that do not fit the model. */
const trainingBytes = (
  { config }: Pick<Pretrained, 'config'>,
  lora: Partial<LoraConfig> | null,
): E.Either<string, number> =>
  pipe(
    lora === null
      ? E.right(parameterCount(config))
      : pipe(
          adaptedProjections(config, loraConfig(lora)),
          E.bimap(({ reason }) => reason, adapterNumbers),
        ),
    E.map((numbers) => 4 * NUMBERS_EACH * numbers),
  )

const isAllFinite = (tensors: NamedTensors): boolean => Number.isFinite(scope(() => globalNorm(tensors).dataSync()[0]!))

const lossOf = (rows: readonly MeasuredPlaces[]): number =>
  rows.reduce((sum, { losses }) => Array.from(losses).reduce((all, x) => all + x, sum), 0)

const trainedModel = (
  { model, arithmetic }: { readonly model: Pretrained; readonly arithmetic: ModelArithmetic },
  { lora, key }: Parameters<ModelTrainer['start']>[0],
): TrainedModel => {
  const weights = trainable({ learner: NAME, model, lora: lora ?? undefined, head: 'none', key })
  const optimizer = adamW()
  const begin = weights.start()
  const frozen = own(begin.value.frozen)
  let last: Owned<TrainedState> = own(
    scope(() => ({ params: begin.value.trained, optimizer: optimizer.init(begin.value.trained) })),
  )
  begin.release()
  let gradients: Owned<NamedTensors> | null = null
  let steps = 0

  const dropGradients = (): void => {
    gradients?.release()
    gradients = null
  }
  const keepGradients = (more: Owned<NamedTensors>): void => {
    if (gradients === null) {
      gradients = more
      return
    }
    const sum = arithmetic.add(gradients.value, more.value)
    gradients.release()
    more.release()
    gradients = sum
  }

  return {
    compute: (request) => {
      const { rows, grads } = arithmetic.compute({ params: last.value.params, frozen: frozen.value }, request)
      const loss = lossOf(rows)
      if (Number.isFinite(loss) && (grads === null || isAllFinite(grads.value))) {
        if (grads !== null) keepGradients(grads)
        return E.right(rows)
      }
      grads?.release()
      return failed('non-finite', `the loss is ${loss} or its gradient is not finite: nothing was kept`)
    },
    step: (adam) => {
      if (gradients === null) return failed('state', 'there are no gradients: compute those of a loss before a step')
      const { state, norm } = arithmetic.step(last.value, gradients.value, adam)
      last.release()
      last = state
      dropGradients()
      steps++
      return E.right({ gradNorm: norm, steps })
    },
    snapshot: () =>
      weights.lora === null
        ? { _tag: 'Weights', params: own(last.value.params) }
        : { _tag: 'Adapter', adapter: { config: weights.lora, arrays: hostArrays(last.value.params) } },
    files: (content) =>
      content === 'training' ? learnerFiles(weights, last.value, steps) : weights.files(last.value.params),
    load: (folder, { files, optimizer: how }) => {
      const shapes = new Map(Object.entries(last.value.params).map(([name, { shape }]) => [name, shape]))
      return pipe(
        readLearner(weights, { optimizer: optimizer as never, shapes }, { folder, files }), // it only gets states that it made
        TE.map((saved) => {
          using again = weights.start(saved.trained)
          const { trained } = again.value
          const next = own(
            scope(() => ({
              params: trained,
              optimizer:
                how === 'fresh'
                  ? optimizer.init(trained)
                  : (restoredState(optimizer as never, trained, saved.optimizer) as TrainedState['optimizer']), // Adam's
            })),
          )
          last.release()
          last = next
          steps = how === 'fresh' ? 0 : saved.version
          dropGradients()
        }),
      )
    },
    release: () => {
      dropGradients()
      last.release()
      frozen.release()
    },
  }
}

/**
 * Makes a trainer of one model by losses of single tokens, for callers that decide themselves when
 * to add gradients and when to step. A learner (`localLearner`) does both for batches.
 *
 * Effects  keeps compiled graphs, which its models share, until `release`.
 * Cost     gradients of one micro-batch are in memory at a time.
 */
export const modelTrainer = (model: Pretrained, losses: Readonly<Record<string, PlaceLoss>>): ModelTrainer => {
  const arithmetic = makeArithmetic(model.config, losses)
  return {
    problem: (lora, freeBytes) =>
      pipe(
        trainingBytes(model, lora),
        E.match(
          (reason) => reason,
          (needed) =>
            needed > SMALL_MODEL && needed > freeBytes
              ? `training it takes about ${formatBytes(needed)} of memory, and ${formatBytes(freeBytes)} are free: choose a smaller rank, or unload a model`
              : undefined,
        ),
      ),
    start: (options) => trainedModel({ model, arithmetic }, options),
    release: arithmetic.release,
  }
}

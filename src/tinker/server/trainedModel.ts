/**
 * A model that a client trains: its weights, gradients that wait for the optimizer, and Adam's
 * state.
 */
import { type Failure, type Files, keyFromSeed } from '@tandem-rl/base'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { NamedTensors } from '../../data/weights.js'
import { learnerFiles, readLearner } from '../../learners/learnerState.js'
import { restoredState } from '../../learners/optimizerState.js'
import { trainable } from '../../learners/trainable.js'
import type { Adapter } from '../../modules/lora/adapter.js'
import { adaptedProjections, adapterNumbers, type LoraConfig, loraConfig } from '../../modules/lora/config.js'
import { hostArrays, type Pretrained } from '../../modules/pretrained/pretrained.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import { HEAD, parameterCount } from '../../modules/transformer/params.js'
import { adamW } from '../../objectives/updates/adamW.js'
import { globalNorm } from '../../objectives/updates/optimizer.js'
import type { AdamParams, TinkerLora } from '../protocol/jsonWire.js'
import type { ForwardBackwardOutput, ForwardBackwardRequest } from '../protocol/values.js'
import type { TrainedState, Trainer } from './trainer.js'

/** The alpha of every adapter, as on the hosted service. */
const LORA_ALPHA = 32

/** Weights to sample with: an adapter on the base model, or all weights. */
export type Snapshot =
  | { readonly _tag: 'Adapter'; readonly adapter: Adapter }
  | { readonly _tag: 'Weights'; readonly params: Owned<NamedTensors> }

type FilesOf = Readonly<Record<string, Uint8Array | string>>

/** A mutable value: the state of one model. Calls are made one after another. */
export interface TrainedModel {
  readonly id: string
  readonly baseModel: string
  /** Null if all weights are trained. */
  readonly lora: TinkerLora | null
  /** Errors: `Left` for a loss or gradient that is not finite, which is not kept. */
  readonly compute: (
    request: Omit<ForwardBackwardRequest, 'modelId' | 'seqId'>,
  ) => E.Either<string, ForwardBackwardOutput>
  /** Errors: `Left` if there are no gradients. */
  readonly step: (adam: AdamParams) => E.Either<string, Readonly<Record<string, number>>>
  readonly snapshot: () => Snapshot
  /** The files of a checkpoint to continue training from. */
  readonly trainingFiles: () => FilesOf
  /** The files of the model or of the adapter alone. */
  readonly weightFiles: () => FilesOf
  readonly load: (
    folder: string,
    options: { readonly files: Files; readonly optimizer: 'restored' | 'fresh' },
  ) => TE.TaskEither<Failure, void>
  readonly release: () => void
}

/** Returns the modules of an adapter. Errors: `Left` for an adapter without modules. */
export const adapterSettings = (config: DecoderConfig, lora: TinkerLora): E.Either<string, Partial<LoraConfig>> => {
  const names = ({ inputs, output }: DecoderConfig['attention'] | DecoderConfig['feedForward']): readonly string[] =>
    [...inputs, output].map(({ name }) => name)
  const targetModules = [
    ...(lora.train_attn ? names(config.attention) : []),
    ...(lora.train_mlp ? names(config.feedForward) : []),
    ...(lora.train_unembed ? [HEAD] : []),
  ]
  if (targetModules.length === 0)
    return E.left('lora_config trains nothing: set one of train_attn, train_mlp and train_unembed')
  return E.right({ rank: lora.rank, alpha: LORA_ALPHA, targetModules })
}

/**
 * Numbers in memory for each trained one: weights, gradients, and Adam's state before and after a
 * step.
 */
const NUMBERS_EACH = 11

/**
 * Returns about how many bytes the training of a model takes besides its base, for all weights or
 * an adapter with these settings.
 *
 * Errors   `Left` for settings that do not fit the model.
 */
export const trainingBytes = (
  config: DecoderConfig,
  settings: Partial<LoraConfig> | null,
): E.Either<string, number> => {
  const bytes = (numbers: number): number => 4 * NUMBERS_EACH * numbers
  if (settings === null) return E.right(bytes(parameterCount(config)))
  return pipe(
    adaptedProjections(config, loraConfig(settings)),
    E.bimap(
      ({ reason }) => reason,
      (adapted) => bytes(adapterNumbers(adapted)),
    ),
  )
}

interface TrainedModelOptions {
  readonly id: string
  readonly baseModel: string
  readonly model: Pretrained
  readonly lora: { readonly request: TinkerLora; readonly settings: Partial<LoraConfig> } | null
  readonly trainer: Trainer
}

const isAllFinite = (tensors: NamedTensors): boolean => Number.isFinite(scope(() => globalNorm(tensors).dataSync()[0]!))

/**
 * Starts to train a model, or an adapter on it.
 *
 * Errors   throws RangeError for an adapter that does not fit the model.
 * Effects  holds weights, gradients and optimizer state until `release`.
 */
export const trainedModel = ({ id, baseModel, model, lora, trainer }: TrainedModelOptions): TrainedModel => {
  const weights = trainable({
    learner: 'tinker',
    model,
    lora: lora === null ? undefined : { ...lora.settings, baseModel },
    head: 'none',
    key: keyFromSeed(lora?.request.seed ?? 0),
  })
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
    const sum = trainer.add(gradients.value, more.value)
    gradients.release()
    more.release()
    gradients = sum
  }

  return {
    id,
    baseModel,
    lora: lora?.request ?? null,
    compute: (request) => {
      const { output, grads } = trainer.compute({ params: last.value.params, frozen: frozen.value }, request)
      if (Number.isFinite(output.metrics['loss:sum']) && (grads === null || isAllFinite(grads.value))) {
        if (grads !== null) keepGradients(grads)
        return E.right(output)
      }
      grads?.release()
      return E.left(`the loss is ${output.metrics['loss:sum']} or its gradient is not finite: nothing was kept`)
    },
    step: (adam) => {
      if (gradients === null) return E.left('there are no gradients: send forward_backward before optim_step')
      const { state, norm } = trainer.step(last.value, gradients.value, adam)
      last.release()
      last = state
      dropGradients()
      steps++
      return E.right({ 'grad_norm:mean': norm, 'steps:max': steps })
    },
    snapshot: () =>
      weights.lora === null
        ? { _tag: 'Weights', params: own(last.value.params) }
        : { _tag: 'Adapter', adapter: { config: weights.lora, arrays: hostArrays(last.value.params) } },
    trainingFiles: () => learnerFiles(weights, last.value, steps),
    weightFiles: () => weights.files(last.value.params),
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

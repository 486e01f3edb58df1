/** Models of clients: their adapters, and the results of their losses and steps. */
import { keyFromSeed } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import type { DecoderConfig, LoraConfig } from 'tandem-rl/models'
import type { ModelTrainer, TrainedModel } from 'tandem-rl/objectives'
import type { AdamParams, TinkerLora } from '../protocol/jsonWire.js'
import { type ForwardBackwardOutput, type ForwardBackwardRequest, floatTensor } from '../protocol/values.js'
import { lossRows } from './builtInLosses.js'

/** The alpha of every adapter, as on the hosted service. */
const LORA_ALPHA = 32

/** The name of the output layer among the modules of an adapter, as in PEFT. */
export const OUTPUT_LAYER = 'lm_head'

/** A model of a client. Calls are made one after another. */
export interface ClientModel extends Pick<TrainedModel, 'snapshot' | 'files' | 'load' | 'release'> {
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
}

/** Returns the modules of an adapter. Errors: `Left` for an adapter without modules. */
export const adapterSettings = (config: DecoderConfig, lora: TinkerLora): E.Either<string, Partial<LoraConfig>> => {
  const names = ({ inputs, output }: DecoderConfig['attention'] | DecoderConfig['feedForward']): readonly string[] =>
    [...inputs, output].map(({ name }) => name)
  const targetModules = [
    ...(lora.train_attn ? names(config.attention) : []),
    ...(lora.train_mlp ? names(config.feedForward) : []),
    ...(lora.train_unembed ? [OUTPUT_LAYER] : []),
  ]
  if (targetModules.length === 0)
    return E.left('lora_config trains nothing: set one of train_attn, train_mlp and train_unembed')
  return E.right({ rank: lora.rank, alpha: LORA_ALPHA, targetModules })
}

interface ClientModelOptions {
  readonly id: string
  readonly baseModel: string
  readonly trainer: ModelTrainer
  readonly lora: { readonly request: TinkerLora; readonly settings: Partial<LoraConfig> } | null
  readonly microBatchTokens: number
}

/**
 * Starts to train a model, or an adapter on it.
 *
 * Effects  holds weights, gradients and optimizer state until `release`.
 */
export const clientModel = ({ id, baseModel, trainer, lora, microBatchTokens }: ClientModelOptions): ClientModel => {
  const model = trainer.start({
    lora: lora === null ? null : { ...lora.settings, baseModel },
    key: keyFromSeed(lora?.request.seed ?? 0),
  })
  return {
    ...model,
    id,
    baseModel,
    lora: lora?.request ?? null,
    compute: ({ mode, ...request }) =>
      pipe(
        model.compute({ loss: request.lossFn, parts: lossRows(request, microBatchTokens), mode }),
        E.bimap(
          ({ reason }) => reason,
          (rows) => ({
            outputs: rows.map(({ logProbs, losses }) => ({
              logprobs: floatTensor(logProbs),
              elementwise_loss: floatTensor(losses),
            })),
            metrics: {
              'loss:sum': rows.reduce((sum, { losses }) => Array.from(losses).reduce((all, x) => all + x, sum), 0),
            },
          }),
        ),
      ),
    step: ({
      learning_rate: learningRate,
      beta1,
      beta2,
      eps: epsilon,
      weight_decay: weightDecay,
      grad_clip_norm: most,
    }) =>
      pipe(
        model.step({ learningRate, beta1, beta2, epsilon, weightDecay, maxGradNorm: most > 0 ? most : Infinity }),
        E.bimap(
          () => 'there are no gradients: send forward_backward before optim_step',
          ({ gradNorm, steps }) => ({ 'grad_norm:mean': gradNorm, 'steps:max': steps }),
        ),
      ),
  }
}

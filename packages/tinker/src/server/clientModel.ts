/** Models of clients: their adapters, and the results of their losses and steps. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import type { DecoderConfig, LoraConfig } from 'tandem-rl/models'
import type { TrainedModel } from 'tandem-rl/objectives'
import type { AdamParams, TinkerLora } from '../protocol/jsonWire.js'
import { type ForwardBackwardOutput, type ForwardBackwardRequest, floatTensor } from '../protocol/values.js'
import { lossRows } from './builtInLosses.js'

/** The alpha of every adapter, as on the hosted service. */
const LORA_ALPHA = 32

/** The name of the output layer among the modules of an adapter, as in PEFT. */
export const OUTPUT_LAYER = 'lm_head'

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

/** Computes a loss. Errors: `Left` for a loss or gradient that is not finite, which is not kept. */
export const computeLoss = (
  model: TrainedModel,
  { mode, ...request }: ForwardBackwardRequest,
  microBatchTokens: number,
): E.Either<string, ForwardBackwardOutput> =>
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
  )

/** Takes a step of Adam. Errors: `Left` if there are no gradients. */
export const stepAdam = (
  model: TrainedModel,
  {
    learning_rate: learningRate,
    beta1,
    beta2,
    eps: epsilon,
    weight_decay: weightDecay,
    grad_clip_norm: most,
  }: AdamParams,
): E.Either<string, Readonly<Record<string, number>>> =>
  pipe(
    model.step({ learningRate, beta1, beta2, epsilon, weightDecay, maxGradNorm: most > 0 ? most : Infinity }),
    E.bimap(
      () => 'there are no gradients: send forward_backward before optim_step',
      ({ gradNorm, steps }) => ({ 'grad_norm:mean': gradNorm, 'steps:max': steps }),
    ),
  )

/** The model programs that are measured: what `bench/trainStep.ts` and `bodies.ts` share. */
import { gatherLogProbs, type Jitted, jit, valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import type { DecoderConfig } from '../../src/modules/transformer/config.js'
import { forwardSegment, type LayerCache, logitsOf, type SegmentResult } from '../../src/modules/transformer/forward.js'
import type { Params } from '../../src/modules/transformer/params.js'
import type { RotaryTables } from '../../src/modules/transformer/rotaryTables.js'
import { biasOf, causalBias } from '../../src/modules/transformer/score.js'
import { type AdamWState, adamW } from '../../src/objectives/updates/adamW.js'

/** Parameters, `[B, 1, T]` int32 ids, and cosines and sines of T positions. */
export interface BatchInput {
  readonly params: Params
  readonly ids: tf.Tensor
  readonly rotary: RotaryTables
}

const hiddenOf = (config: DecoderConfig, { params, ids, rotary }: BatchInput): SegmentResult => {
  const [batch, , length] = ids.shape as [number, number, number] // [B, 1, T] by contract
  const positions = tf.tile(tf.reshape(tf.range(0, length, 1, 'int32'), [1, 1, length]), [batch, 1, 1])
  return forwardSegment(params, config, { ids, positions, ownBias: causalBias(length), past: [], rotary })
}

/** Mean negative log-probability of each token but the first. */
const nextTokenLoss = (config: DecoderConfig, input: BatchInput): tf.Tensor => {
  const [batch, , length] = input.ids.shape as [number, number, number] // [B, 1, T] by contract
  const width = config.hiddenSize
  const hidden = tf.reshape(hiddenOf(config, input).hidden, [batch, length, width])
  const predicting = tf.slice(hidden, [0, 0, 0], [batch, length - 1, width])
  const targets = tf.slice(input.ids, [0, 0, 1], [batch, 1, length - 1])
  const logits = logitsOf(input.params, config, tf.reshape(predicting, [batch * (length - 1), width]))
  return tf.neg(tf.mean(gatherLogProbs(logits, tf.reshape(targets, [-1]))))
}

export interface LossAndGradients {
  readonly loss: tf.Tensor
  readonly grads: Params
}

const lossAndGradients = (config: DecoderConfig, input: BatchInput): LossAndGradients => {
  const { value, grads } = valueAndGrad(input.params, (params) => ({
    value: nextTokenLoss(config, { ...input, params }),
    aux: {},
  }))
  return { loss: value, grads }
}

/** Loss of next-token prediction and its gradients. */
export const makeTrainStep = (config: DecoderConfig): Jitted<BatchInput, LossAndGradients> =>
  jit((input: BatchInput) => lossAndGradients(config, input))

export interface UpdateInput extends BatchInput {
  readonly state: AdamWState
  readonly learningRate: tf.Tensor
}

export interface Updated {
  readonly loss: tf.Tensor
  readonly params: Params
  readonly state: AdamWState
}

/** Weight decay of `torch.optim.AdamW`. */
const OPTIMIZER = adamW({ weightDecay: 0.01 })

export const initialState = OPTIMIZER.init

/** Loss, gradients and one step of AdamW. */
export const makeUpdate = (config: DecoderConfig): Jitted<UpdateInput, Updated> =>
  jit((input: UpdateInput) => {
    const { loss, grads } = lossAndGradients(config, input)
    return { loss, ...OPTIMIZER.update(grads, input.state, input.params, input.learningRate) }
  })

/** Logits of every position, `[B * T, V]`. */
export const makeForward = (config: DecoderConfig): Jitted<BatchInput, { readonly logits: tf.Tensor }> =>
  jit((input: BatchInput) => ({ logits: logitsOf(input.params, config, hiddenOf(config, input).hidden) }))

export interface DecodeInput {
  readonly params: Params
  /** `[B, 1, 1]` int32 */
  readonly ids: tf.Tensor
  /** `[B, 1, 1]` int32 */
  readonly positions: tf.Tensor
  /** Keys and values of the C cached positions, `[B, K, 1, C, H]` for each layer. */
  readonly layers: readonly LayerCache[]
  /** `[C]`: 1 for a place that holds a token. */
  readonly mask: tf.Tensor
  readonly rotary: RotaryTables
}

export interface Decoded {
  readonly logits: tf.Tensor
  readonly layers: readonly LayerCache[]
}

/** Logits of one new position for each row, and that position's keys and values. */
export const makeDecode = (config: DecoderConfig): Jitted<DecodeInput, Decoded> =>
  jit((input: DecodeInput) => {
    const places = input.mask.shape[0]!
    const { hidden, layers } = forwardSegment(input.params, config, {
      ids: input.ids,
      positions: input.positions,
      past: [
        {
          layers: input.layers,
          bias: biasOf(tf.reshape(input.mask, [1, 1, 1, 1, 1, places])),
          positions: tf.reshape(tf.range(0, places, 1, 'int32'), [1, 1, places]),
        },
      ],
      rotary: input.rotary,
    })
    return { logits: logitsOf(input.params, config, hidden), layers }
  })

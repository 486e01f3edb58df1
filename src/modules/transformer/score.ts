/** Scores of given completions: what training differentiates and what a reference model is asked for. */
import * as tf from '@tensorflow/tfjs'
import { MASKED } from '../../engine/ops/attention.js'
import type { RotaryTable } from '../../engine/ops/rotary.js'
import type { DecoderConfig } from './config.js'
import { forwardSegment, logitsOf } from './forward.js'
import type { Params } from './params.js'

/**
 * Prompts with G completions each. P prompts, Tp prompt positions, Tr completion positions. Prompts are padded on the left,
 * completions on the right.
 */
export interface CompletionBatch {
  /** `[P, Tp]` int32 */
  readonly promptIds: tf.Tensor
  /** `[P, Tp]` float32: 1 for a real token, 0 for padding. */
  readonly promptMask: tf.Tensor
  /** `[P, Tp]` int32: 0 at the first real token and at padding. */
  readonly promptPositions: tf.Tensor
  /** `[P, G, Tr]` int32 */
  readonly completionIds: tf.Tensor
  /** `[P, G, Tr]` int32 */
  readonly completionPositions: tf.Tensor
  readonly rotary: RotaryTable
}

/** 0 where `allowed` is 1 and `MASKED` where it is 0. */
export const biasOf = (allowed: tf.Tensor): tf.Tensor => tf.mul(tf.sub(1, allowed), MASKED)

/** 1 where the column is not after the row, `[T, T]`. */
export const causalMask = (length: number): tf.Tensor => {
  const places = tf.range(0, length, 1, 'int32')
  return tf.cast(tf.lessEqual(tf.expandDims(places, 0), tf.expandDims(places, 1)), 'float32')
}

/** The bias among prompt positions: causal, and padding is not seen. `[P, 1, 1, 1, Tp, Tp]` */
export const promptSelfBias = (promptMask: tf.Tensor): tf.Tensor => {
  const [prompts, length] = promptMask.shape as [number, number] // [P, Tp] by contract
  return biasOf(
    tf.mul(
      tf.reshape(promptMask, [prompts, 1, 1, 1, 1, length]),
      tf.reshape(causalMask(length), [1, 1, 1, 1, length, length]),
    ),
  )
}

/** The bias of completion queries on prompt keys: padding is not seen. `[P, 1, 1, 1, 1, Tp]` */
export const promptKeyBias = (promptMask: tf.Tensor): tf.Tensor => {
  const [prompts, length] = promptMask.shape as [number, number] // [P, Tp] by contract
  return biasOf(tf.reshape(promptMask, [prompts, 1, 1, 1, 1, length]))
}

/** The hidden state at the last prompt position, `[P, D]`: prompts are padded on the left, so it is always the last one. */
export const lastHidden = (hidden: tf.Tensor, prompts: number): tf.Tensor => {
  const [rows, width] = hidden.shape as [number, number] // [P * Tp, D] by contract
  const length = rows / prompts
  return tf.reshape(tf.slice(tf.reshape(hidden, [prompts, length, width]), [0, length - 1, 0], [prompts, 1, width]), [
    prompts,
    width,
  ])
}

/**
 * Logits that predict each completion token, `[P * G * Tr, V]`. The prompt is computed once for its whole group, and the
 * output projection only where a completion token is predicted.
 */
export const completionLogits = (params: Params, config: DecoderConfig, batch: CompletionBatch): tf.Tensor => {
  const [prompts, promptLength] = batch.promptIds.shape as [number, number] // shapes of `CompletionBatch`
  const [, group, length] = batch.completionIds.shape as [number, number, number]
  const { hiddenSize: width } = config
  const prompt = forwardSegment(params, config, {
    ids: tf.reshape(batch.promptIds, [prompts, 1, promptLength]),
    positions: tf.reshape(batch.promptPositions, [prompts, 1, promptLength]),
    selfBias: promptSelfBias(batch.promptMask),
    past: [],
    rotary: batch.rotary,
  })
  // The sum with zeros repeats the state for each completion; its gradient is one sum over the group.
  const first = tf.add(
    tf.reshape(lastHidden(prompt.hidden, prompts), [prompts, 1, 1, width]),
    tf.zeros([1, group, 1, 1]),
  )
  if (length === 1) return logitsOf(params, config, tf.reshape(first, [prompts * group, width]))
  const inputs = (x: tf.Tensor): tf.Tensor => tf.slice(x, [0, 0, 0], [prompts, group, length - 1])
  const completion = forwardSegment(params, config, {
    ids: inputs(batch.completionIds),
    positions: inputs(batch.completionPositions),
    selfBias: tf.reshape(biasOf(causalMask(length - 1)), [1, 1, 1, 1, length - 1, length - 1]),
    past: [{ layers: prompt.layers, bias: promptKeyBias(batch.promptMask) }],
    rotary: batch.rotary,
  })
  const rest = tf.reshape(completion.hidden, [prompts, group, length - 1, width])
  return logitsOf(params, config, tf.reshape(tf.concat([first, rest], 2), [prompts * group * length, width]))
}

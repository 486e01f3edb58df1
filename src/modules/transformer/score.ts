/** The forward pass over given completions, for training and reference models. */
import { MASKED } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import type { DecoderConfig } from './config.js'
import type { FilledPlaces } from './filledPlaces.js'
import { forwardSegment, type LayerCache, logitsOf, type Segment } from './forward.js'
import type { ScoredStates } from './headScores.js'
import type { Params } from './params.js'
import type { RotaryTables } from './rotaryTables.js'

/**
 * Prompts with G completions each. P prompts, Tp prompt positions, Tr completion positions. Prompts
 * are padded on the left, completions on the right.
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
  readonly rotary: RotaryTables
  /** The places of prompts and of completions that are computed. Default: all. */
  readonly filled?: { readonly prompts?: FilledPlaces; readonly completions?: FilledPlaces }
}

/**
 * Counts the places of a batch that layers compute outside of attention: tokens of prompts, once
 * for each group, tokens of completions, and padding.
 */
export const computedPlaces = ({ promptIds, completionIds, filled }: CompletionBatch): number =>
  (filled?.prompts?.places ?? promptIds).size + (filled?.completions?.places ?? completionIds).size

/** Returns 0 where `allowed` is 1 and `MASKED` where it is 0. */
export const biasOf = (allowed: tf.Tensor): tf.Tensor => tf.mul(tf.sub(1, allowed), MASKED)

/**
 * Returns the bias of T positions on each other, `[1, 1, 1, 1, T, T]`: a position and those before
 * it are visible if they are `allowed`, later ones are masked.
 */
export const causalBias = (length: number, allowed?: tf.Tensor): tf.Tensor => {
  const places = tf.range(0, length, 1, 'int32')
  const visible = tf.lessEqual(tf.expandDims(places, 0), tf.expandDims(places, 1))
  const past = tf.reshape(tf.cast(visible, 'float32'), [1, 1, 1, 1, length, length])
  return biasOf(allowed === undefined ? past : tf.mul(past, allowed))
}

/** Returns the bias among prompt positions: causal, with padding masked. */
export const promptBias = (promptMask: tf.Tensor): tf.Tensor => {
  const [prompts, length] = promptMask.shape as [number, number] // [P, Tp] by contract
  return causalBias(length, tf.reshape(promptMask, [prompts, 1, 1, 1, 1, length]))
}

/**
 * Returns the bias of completion queries on prompt keys, with padding masked. `[P, 1, 1, 1, 1, Tp]`
 */
const promptKeyBias = (promptMask: tf.Tensor): tf.Tensor => {
  const [prompts, length] = promptMask.shape as [number, number] // [P, Tp] by contract
  return biasOf(tf.reshape(promptMask, [prompts, 1, 1, 1, 1, length]))
}

/**
 * Returns the hidden state at the last prompt position, `[P, D]`. Prompts are padded on the left,
 * so it is always the last one.
 */
export const lastHidden = (hidden: tf.Tensor, prompts: number): tf.Tensor => {
  const [rows, width] = hidden.shape as [number, number] // [P * Tp, D] by contract
  const length = rows / prompts
  return tf.reshape(tf.slice(tf.reshape(hidden, [prompts, length, width]), [0, length - 1, 0], [prompts, 1, width]), [
    prompts,
    width,
  ])
}

/** Returns the prompts of a batch as a segment. */
export const promptSegment = (batch: CompletionBatch): Segment => {
  const [prompts, length] = batch.promptIds.shape as [number, number] // [P, Tp] by contract
  return {
    ids: tf.reshape(batch.promptIds, [prompts, 1, length]),
    positions: tf.reshape(batch.promptPositions, [prompts, 1, length]),
    ownBias: promptBias(batch.promptMask),
    past: [],
    rotary: batch.rotary,
    ...(batch.filled?.prompts && { filled: batch.filled.prompts }),
  }
}

/**
 * Returns the completions of a batch as a segment that attends to the keys and values of their
 * prompts, which each group shares.
 */
export const completionSegment = (batch: CompletionBatch, prompt: readonly LayerCache[]): Segment => {
  const [prompts, promptLength] = batch.promptIds.shape as [number, number] // shapes of `CompletionBatch`
  const [, , length] = batch.completionIds.shape as [number, number, number]
  const positions = tf.reshape(batch.promptPositions, [prompts, 1, promptLength])
  return {
    ids: batch.completionIds,
    positions: batch.completionPositions,
    ownBias: causalBias(length),
    past: [{ layers: prompt, bias: promptKeyBias(batch.promptMask), positions }],
    rotary: batch.rotary,
    ...(batch.filled?.completions && { filled: batch.filled.completions }),
  }
}

/**
 * The last hidden states of a batch: of each prompt's last position, `[P, D]`, and of all
 * completion positions, `[P * G * Tr, D]`.
 */
export interface BatchStates {
  readonly prompt: tf.Tensor
  readonly completion: tf.Tensor
}

/**
 * Returns the last hidden states that predict each completion token, `[P * G * Tr, D]`: the
 * prompt's for the first token, that of the previous token for the others.
 */
export const predictingStates = (
  { hiddenSize: width }: DecoderConfig,
  { batch, states }: { readonly batch: CompletionBatch; readonly states: BatchStates },
): tf.Tensor => {
  const [prompts, group, length] = batch.completionIds.shape as [number, number, number] // [P, G, Tr] by contract
  // Adding zeros repeats the state for each completion. Its gradient is one sum over the group.
  const first = tf.add(tf.reshape(states.prompt, [prompts, 1, 1, width]), tf.zeros([1, group, 1, 1]))
  // The last position predicts a token that is not needed. It is computed only to keep all lengths
  // multiples of the padding.
  const rest = tf.slice(
    tf.reshape(states.completion, [prompts, group, length, width]),
    [0, 0, 0, 0],
    [prompts, group, length - 1, width],
  )
  return tf.reshape(tf.concat([first, rest], 2), [prompts * group * length, width])
}

/** Computes `predictingStates` of a batch, with one prompt computation per group. */
export const completionStates = (params: Params, config: DecoderConfig, batch: CompletionBatch): tf.Tensor => {
  const prompt = forwardSegment(params, config, promptSegment(batch))
  const completion = forwardSegment(params, config, completionSegment(batch, prompt.layers))
  const states = { prompt: lastHidden(prompt.hidden, batch.promptIds.shape[0]!), completion: completion.hidden }
  return predictingStates(config, { batch, states })
}

/**
 * Computes the logits that predict each completion token, `[P * G * Tr, V]`. The prompt is computed
 * once per group, and the output projection only where a completion token is predicted.
 */
export const completionLogits = (params: Params, config: DecoderConfig, batch: CompletionBatch): tf.Tensor =>
  logitsOf(params, config, completionStates(params, config, batch))

/** Completions and the temperature at which they are scored. */
export interface ScoredBatch {
  readonly batch: CompletionBatch
  /** `[]` */
  readonly inverseTemperature: tf.Tensor
}

/** Computes the states that predict completion tokens, with the tokens. */
export const scoredStates = (
  params: Params,
  config: DecoderConfig,
  { batch, inverseTemperature }: ScoredBatch,
): ScoredStates => ({
  states: completionStates(params, config, batch),
  ids: tf.reshape(batch.completionIds, [-1]),
  inverseTemperature,
})

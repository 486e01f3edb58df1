/** A value function on a decoder: one number for each token, read from the states that predict it. */
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Files } from '../core/capabilities.js'
import { type ModelFailure, modelFailure } from '../core/failure.js'
import { type Key, normals } from '../core/key.js'
import { encodeSafetensors } from '../data/codecs/safetensors.js'
import { readSafetensors } from '../data/codecs/safetensorsFile.js'
import type { PlainArray } from '../data/generation.js'
import { liveFiles } from '../live/files.js'
import { checkStored } from './pretrained/checkStored.js'
import { hostArrays } from './pretrained/pretrained.js'
import type { DecoderConfig } from './transformer/config.js'
import { groupPrompts } from './transformer/pack.js'
import type { Params } from './transformer/params.js'
import { completionStates } from './transformer/score.js'
import { makeTokenReader } from './transformer/scorer.js'

const WEIGHT = 'value_head.weight'
const BIAS = 'value_head.bias'
const FILE = 'value_head.safetensors'

/**
 * Names and shapes of a value head's parameters.
 *
 * Shapes   weight `[1, D]`, bias `[1]`.
 */
export const valueHeadShapes = ({ hiddenSize }: DecoderConfig): ReadonlyMap<string, readonly number[]> =>
  new Map<string, readonly number[]>([
    [WEIGHT, [1, hiddenSize]],
    [BIAS, [1]],
  ])

/**
 * A fresh value head: bias 0, weights normal with standard deviation `scale`. With scale 0, the default, every value is 0 at first, so that the first
 * advantages of GAE are those of the rewards alone.
 *
 * Effects  makes tensors that belong to the enclosing scope.
 */
export const initialValueHead = ({ hiddenSize }: DecoderConfig, key: Key, scale = 0): Params => ({
  [WEIGHT]: tf.tensor2d(
    normals(key, hiddenSize).map((x) => x * scale),
    [1, hiddenSize],
  ),
  [BIAS]: tf.zeros([1]),
})

/** The parameters of a decoder without its value head: what a policy takes. */
export const withoutValueHead = (params: Params): Params =>
  Object.fromEntries(Object.entries(params).filter(([name]) => name !== WEIGHT && name !== BIAS))

/**
 * Values of states: `V = states W^T + b`.
 *
 * Shapes   states `[N, D]`, after the last norm; result `[N]`. Units: those of the reward. Differentiable.
 * Errors   throws RangeError where the parameters have no value head.
 */
export const stateValues = (params: Params, states: tf.Tensor): tf.Tensor => {
  const [weight, bias] = [params[WEIGHT], params[BIAS]]
  if (weight === undefined || bias === undefined)
    throw new RangeError(`stateValues: there is no '${weight === undefined ? WEIGHT : BIAS}' among the parameters`)
  return tf.reshape(tf.add(tf.matMul(states, weight, false, true), bias), [-1])
}

/** Completions to be valued: one prompt for each. */
export interface ValuedRows {
  readonly prompts: readonly ArrayLike<number>[]
  readonly completions: readonly ArrayLike<number>[]
}

export interface Valuer {
  /** The value of each completion token before it is sampled: one row for each completion. */
  readonly values: (params: Params, rows: ValuedRows) => readonly Float32Array[]
  readonly release: () => void
}

/**
 * Makes what values completions; graphs are compiled when first needed and kept.
 *
 * The value of a token is read where its log-probability is: from the state of the token before it. Neighboring rows with the same prompt share its
 * computation.
 *
 * Errors   `values` throws RangeError unless there is a prompt for each completion, or without a value head.
 * Source   verl's critic and TRL's `PPOTrainer` cut their values in the same place.
 */
export const makeValuer = (config: DecoderConfig): Valuer => {
  const { read, release } = makeTokenReader(config, (params, { batch }) =>
    stateValues(params, completionStates(params, config, batch)),
  )
  return {
    values: (params, { prompts, completions }) =>
      read(params, { groups: groupPrompts(prompts), completions, temperature: 1 }),
    release,
  }
}

/**
 * The file of a value head, to be written beside the model's own. For `Files.writeFolder`.
 *
 * Errors   throws RangeError where the parameters have no value head.
 */
export const valueHeadFiles = (params: Params): Readonly<Record<string, Uint8Array>> => {
  const { [WEIGHT]: weight, [BIAS]: bias } = params
  if (weight === undefined || bias === undefined)
    throw new RangeError(`valueHeadFiles: there is no '${weight === undefined ? WEIGHT : BIAS}' among the parameters`)
  const arrays = hostArrays({ [WEIGHT]: weight, [BIAS]: bias })
  return { [FILE]: encodeSafetensors(arrays, { metadata: { format: 'pt' } }) }
}

/**
 * Loads the value head of a model from a folder: arrays for `makeParams`.
 *
 * Errors   `Left(ModelFailure)` naming the file, with all problems: missing, truncated or malformed; a tensor that is missing, extra, of another
 *          shape or not finite.
 */
export const loadValueHead = (
  folder: string,
  config: DecoderConfig,
  files: Files = liveFiles,
): TE.TaskEither<ModelFailure, ReadonlyMap<string, PlainArray>> =>
  pipe(
    readSafetensors(`${folder}/${FILE}`, files),
    TE.mapLeft(({ reason }) => reason),
    TE.chainEitherK(({ arrays }) =>
      pipe(
        checkStored(valueHeadShapes(config), arrays),
        E.mapLeft(({ reason }) => reason),
      ),
    ),
    TE.mapLeft((reason) => modelFailure(folder, reason, FILE)),
  )

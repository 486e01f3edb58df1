/** A value function on a decoder: one number per token, read from the state that predicts it. */
import { type Files, type Key, type ModelFailure, modelFailure, normals } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import type { PlainArray } from '@tandem-rl/text'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { checkStored } from '../data/codecs/checkStored.js'
import { encodeSafetensors } from '../data/codecs/safetensors.js'
import { readSafetensors } from '../data/codecs/safetensorsFile.js'
import type { Completions } from '../data/completions.js'
import { hostArrays } from './pretrained/pretrained.js'
import type { DecoderConfig } from './transformer/config.js'
import type { Params } from './transformer/params.js'
import { completionStates } from './transformer/score.js'
import { makeTokenReader } from './transformer/scorer.js'

const WEIGHT = 'value_head.weight'
const BIAS = 'value_head.bias'
const FILE = 'value_head.safetensors'

/**
 * Returns the names and shapes of a value head's parameters.
 *
 * Shapes   weight `[1, D]`, bias `[1]`.
 */
export const valueHeadShapes = ({ hiddenSize }: DecoderConfig): ReadonlyMap<string, readonly number[]> =>
  new Map<string, readonly number[]>([
    [WEIGHT, [1, hiddenSize]],
    [BIAS, [1]],
  ])

/**
 * Makes a new value head with bias 0 and normal weights of standard deviation `scale`. With scale
 * 0, the default, every value is 0 at first, so the first GAE advantages depend only on the
 * rewards.
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

/** Returns a decoder's parameters without the value head, for a policy. */
export const withoutValueHead = (params: Params): Params =>
  Object.fromEntries(Object.entries(params).filter(([name]) => name !== WEIGHT && name !== BIAS))

/**
 * Computes the values of states: `V = states W^T + b`.
 *
 * Shapes   states `[N, D]`, after the last norm; result `[N]`. Units: those of the reward.
 *          Differentiable.
 * Errors   throws RangeError if the parameters have no value head.
 */
export const stateValues = (params: Params, states: tf.Tensor): tf.Tensor => {
  const [weight, bias] = [params[WEIGHT], params[BIAS]]
  if (weight === undefined || bias === undefined)
    throw new RangeError(`stateValues: there is no '${weight === undefined ? WEIGHT : BIAS}' among the parameters`)
  return tf.reshape(tf.add(tf.matMul(states, weight, false, true), bias), [-1])
}

export interface Valuer {
  /** Computes the value before each completion token, row by row. */
  readonly values: (params: Params, rows: Omit<Completions, 'temperature'>) => readonly Float32Array[]
  readonly release: () => void
}

/**
 * Makes a function that computes values of completions. Graphs are compiled on first use and kept.
 *
 * The value of a token is read from the state of the previous token, like its log-probability.
 * Neighboring rows with the same prompt share its computation.
 *
 * Errors   `values` throws RangeError without a prompt for each completion, or without a value
 *          head.
 * Source   verl's critic and TRL's `PPOTrainer` align values in the same way.
 */
export const makeValuer = (config: DecoderConfig): Valuer => {
  const { read, release } = makeTokenReader(config, (params, { batch }) =>
    stateValues(params, completionStates(params, config, batch)),
  )
  return {
    values: (params, rows) => read(params, { ...rows, temperature: 1 }),
    release,
  }
}

/**
 * Returns the file of a value head, to be written next to the model's files with
 * `Files.writeFolder`.
 *
 * Errors   throws RangeError if the parameters have no value head.
 */
export const valueHeadFiles = (params: Params): Readonly<Record<string, Uint8Array>> => {
  const { [WEIGHT]: weight, [BIAS]: bias } = params
  if (weight === undefined || bias === undefined)
    throw new RangeError(`valueHeadFiles: there is no '${weight === undefined ? WEIGHT : BIAS}' among the parameters`)
  const arrays = hostArrays({ [WEIGHT]: weight, [BIAS]: bias })
  return { [FILE]: encodeSafetensors(arrays, { metadata: { format: 'pt' } }) }
}

/**
 * Loads a model's value head from a folder, as arrays for `makeParams`.
 *
 * Errors   `Left(ModelFailure)` that names the file and lists all problems: missing, truncated or
 *          malformed; a tensor that is missing, extra, of another shape or not finite.
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

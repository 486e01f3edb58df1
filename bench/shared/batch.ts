/** Synthetic batches and models for benchmarks of learners. */
import { scope } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import {
  EMBEDDED_MODEL,
  keyFromSeed,
  loadPretrained,
  MCAdvantage,
  type ModelText,
  orThrow,
  type Pretrained,
} from 'tandem-rl'
import { type DecoderConfig, hostArrays, initialParams } from 'tandem-rl/models'
import { data, ragged, TensorDict } from 'tandem-rl/tensordict'

/** Sampled completions with one reward each, group by group. */
export interface SampledRows {
  readonly prompts: readonly ArrayLike<number>[]
  readonly completions: readonly ArrayLike<number>[]
  readonly logProbs: readonly ArrayLike<number>[]
  readonly rewards: readonly number[]
  /** Completions of each prompt. */
  readonly group: number
}

/** Makes a batch with advantages for a policy loss. The enclosing scope owns its tensors. */
export const ratedBatch = ({ prompts, completions, logProbs, rewards, group }: SampledRows) =>
  MCAdvantage({ groupSize: group })(
    TensorDict(
      {
        tokens: { prompt: ragged('int32', prompts), response: ragged('int32', completions) },
        logProbs: { response: ragged('float32', logProbs) },
        trajectoryId: data(completions.map((_, i) => `t${i}`)),
        turn: data(completions.map(() => 0)),
        groupId: data(completions.map((_, i) => `g${Math.floor(i / group)}`)),
        next: { reward: tf.tensor1d([...rewards], 'float32') },
      },
      [completions.length],
    ),
  )

/** Loads the tokenizer and template of the embedded model, for models with random weights. */
export const textOfNoModel = async (): Promise<ModelText> => orThrow(await loadPretrained(EMBEDDED_MODEL)()).text

/** A model with random weights. */
export const randomModel = async (config: DecoderConfig): Promise<Pretrained> => ({
  config,
  text: await textOfNoModel(),
  arrays: scope(() => hostArrays(initialParams(config, keyFromSeed(0)))),
})

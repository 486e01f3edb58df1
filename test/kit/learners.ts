/** Batches and models for learners. */
import { keyFromSeed } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { data, ragged } from '../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { EMBEDDED_MODEL } from '../../src/live/embeddedModel.js'
import { hostArrays, loadPretrained, type Pretrained } from '../../src/modules/pretrained/pretrained.js'
import type { DecoderConfig } from '../../src/modules/transformer/config.js'
import { initialParams } from '../../src/modules/transformer/params.js'
import type { RewardedTurns } from '../../src/objectives/advantages/advantage.js'
import { MCAdvantage } from '../../src/objectives/advantages/mcAdvantage.js'
import { type PolicyBatch, policyLoss } from '../../src/objectives/policyLoss.js'
import { SMALL_DECODER } from './lossSteps.js'
import { tinyConfig } from './models.js'
import { rightOf } from './results.js'
import { flatRows, rowsOf, type TrainingRows } from './trainingRows.js'

/** Makes a model of one small layer with the embedded model's vocabulary and template. */
export const smallModel = async (seed = 1): Promise<Pretrained> => {
  const { config: embedded, text } = await rightOf(loadPretrained(EMBEDDED_MODEL))
  const { vocabularySize, endTokens, padToken } = embedded
  const config = tinyConfig({ ...SMALL_DECODER, vocabularySize, endTokens, padToken })
  return { config, text, arrays: scope(() => hostArrays(initialParams(config, keyFromSeed(seed), 0.5))) }
}

/** Makes a batch of training rows, group by group. */
export const batchOf = (rows: TrainingRows, groupSizes: readonly number[]) => {
  const advantages = rows.advantages as readonly number[] // `rowsOf` makes one number for each row
  return TensorDict(
    {
      tokens: { prompt: ragged('int32', rows.prompts), response: ragged('int32', rows.completions) },
      logProbs: { response: ragged('float32', rows.oldLogProbs) },
      next: { refLogProbs: { response: ragged('float32', rows.refLogProbs!) } },
      advantage: ragged(
        'float32',
        rows.completions.map((row, i) => Array.from(row, () => advantages[i]!)),
      ),
      groupId: data(groupSizes.flatMap((size, group) => Array<string>(size).fill(`g${group}`))),
    },
    [rows.completions.length],
  )
}

/** Draws a random batch with groups of these sizes. */
export const randomBatch = (config: DecoderConfig, groupSizes: readonly number[], seed: number) =>
  batchOf(rowsOf(config.vocabularySize, groupSizes, seed), groupSizes)

/** Returns the training rows of a collected batch of whole groups. */
export const learnedRows = (batch: TensorDict<RewardedTurns>, groupSize: number): TrainingRows =>
  flatRows(policyLoss().rows(MCAdvantage({ groupSize })(batch) as unknown as TensorDict<PolicyBatch>)) // with advantages

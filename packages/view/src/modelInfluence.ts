/** The rollouts whose gradients move a token's log-probability most, to first order. */
import { gatherLogProbs, valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import type { NamedTensors } from 'tandem-rl/files'
import { completionBatch, completionLogits, makeScorer } from 'tandem-rl/models'
import { resampleStep } from 'tandem-rl/run'
import { type Data, find, type Ragged, raggedRow, type TensorDict } from 'tandem-rl/tensordict'
import { rolloutId } from './foreign/viewedTurn.js'
import type { ModelWork } from './modelDesk.js'
import { runTemperature } from './modelProbability.js'
import type { InfluenceLine, InfluenceRequest, ProgressLine } from './modelProtocol.js'
import { findToken } from './modelTokens.js'
import type { OpenModel } from './openModel.js'

/** One completion of a batch. */
interface BatchRow {
  readonly trajectory: string
  readonly prompt: readonly number[]
  readonly ids: readonly number[]
  /** One per token; 0 where the loss masks it. */
  readonly advantages: readonly number[]
}

/** Reads the completions of a batch. Throws RangeError for a batch without advantages. */
const rowsOf = (batch: TensorDict): readonly BatchRow[] => {
  const at = (...path: readonly string[]) => {
    const entry = find(batch, path)
    return entry !== undefined && '_tag' in entry && entry._tag === 'Ragged' ? (entry as Ragged) : undefined // by its tag
  }
  const [prompts, responses, advantages] = [at('tokens', 'prompt'), at('tokens', 'response'), at('advantage')]
  if (prompts === undefined || responses === undefined || advantages === undefined)
    throw new RangeError('the batch has no advantages: only policy-gradient runs have influences')
  const masks = at('masks', 'loss')
  const { items } = find(batch, ['trajectoryId']) as Data<string> // collectors that compute advantages write it
  return items.toArray().map((trajectory, row) => {
    const ids = Array.from(raggedRow(responses, row))
    // Masks and advantages may also cover the prompt: they end where the response ends.
    const end = (rows: Ragged): readonly number[] => Array.from(raggedRow(rows, row)).slice(-ids.length)
    const mask = masks === undefined ? null : end(masks)
    return {
      trajectory,
      prompt: Array.from(raggedRow(prompts, row)),
      ids,
      advantages: end(advantages).map((advantage, t) => (mask?.[t] === 0 ? 0 : advantage)),
    }
  })
}

/** The batch of the step after a checkpoint. */
interface StepBatch {
  readonly rows: readonly BatchRow[]
  readonly batch: InfluenceLine['batch']
}

const batchAfter = async (model: OpenModel, checkpoint: number): Promise<StepBatch> => {
  const { reader } = model
  using saved = await reader.savedBatch(checkpoint + 1)
  if (saved !== null) return { rows: rowsOf(saved.value), batch: 'saved' }
  await model.learnerAt(checkpoint)
  const rows = await resampleStep(model.run(), { reader, checkpoint }, async ({ rated }) => rowsOf(rated))
  return { rows, batch: 'sampled' }
}

/** A sequence whose last token is in question. */
interface Wanted {
  readonly prompt: readonly number[]
  readonly ids: readonly number[]
  readonly temperature: number
}

/** The names of the trained parameters: those of the adapter if there is one, else all. */
const trainedNames = (weights: NamedTensors): readonly string[] => {
  const adapter = Object.keys(weights).filter((name) => name.includes('.lora_'))
  return adapter.length > 0 ? adapter : Object.keys(weights)
}

/** The log-probability of a token, and its gradient by parameter. */
interface TokenGradient {
  readonly value: tf.Tensor
  readonly grads: NamedTensors
}

/** Differentiates the log-probability of the last token. */
export const tokenGradient = (
  { config }: Pick<OpenModel, 'config'>,
  weights: NamedTensors,
  { prompt, ids, temperature }: Wanted,
): Owned<TokenGradient> =>
  own(
    scope(() => {
      const batch = completionBatch({ prompts: [prompt], completions: [ids] }, config)
      const places = tf.tensor1d(
        Array.from({ length: batch.completionIds.shape[2]! }, (_, i) => (i === ids.length - 1 ? 1 : 0)),
      )
      const trained = Object.fromEntries(trainedNames(weights).map((name) => [name, weights[name]!]))
      const { value, grads } = valueAndGrad(trained, (params) => {
        const logits = tf.div(completionLogits({ ...weights, ...params }, config, batch), tf.scalar(temperature))
        const logProbs = gatherLogProbs(logits, tf.reshape(batch.completionIds, [-1]))
        return { value: tf.sum(tf.mul(logProbs, places)), aux: {} }
      })
      return { value, grads }
    }),
  )

const squaredNorm = (grads: NamedTensors): number =>
  Object.values(grads).reduce((sum, each) => {
    const [part] = scope(() => tf.sum(tf.square(each)).dataSync())
    return sum + (part ?? 0)
  }, 0)

/** Change of the token's logit for which the derivatives are measured. */
const CHANGE = 0.05

/** Tokens at least this probable have no gradient that float32 could measure. */
const CERTAIN = 1 - 1e-5

/** Derivatives of log-probabilities along the gradient of a token. */
interface Derivatives {
  /** One per token of each row. */
  readonly rows: readonly (readonly number[])[]
  readonly linearity: number
}

/**
 * Computes the derivatives of the log-probabilities of all rows along the token's gradient, which
 * are the inner products of the gradients. Central differences need two passes over the batch and
 * no gradient of any row.
 */
export const derivatives = (
  model: Pick<OpenModel, 'config'>,
  weights: NamedTensors,
  { request, rows }: { readonly request: Wanted; readonly rows: readonly BatchRow[] },
): Derivatives => {
  using gradient = tokenGradient(model, weights, request)
  const { value, grads } = gradient.value
  const probability = Math.exp(value.dataSync()[0]!)
  const norm = squaredNorm(grads)
  if (!(norm > 0) || probability > CERTAIN)
    throw new RangeError('the probability of the token is 1 to rounding: nothing can move it')
  const size = (CHANGE * (1 - probability)) / norm
  const scorer = makeScorer(model.config)
  try {
    const scoresAt = (sign: 1 | -1): readonly Float32Array[] => {
      using moved = own(
        scope(() => ({
          ...weights,
          ...Object.fromEntries(
            Object.entries(grads).map(([name, each]) => [
              name,
              tf.add(weights[name]!, tf.mul(each, tf.scalar(sign * size))),
            ]),
          ),
        })),
      )
      const scores = (of: readonly Pick<BatchRow, 'prompt' | 'ids'>[]): readonly Float32Array[] =>
        scorer.score(moved.value, {
          prompts: of.map(({ prompt }) => prompt),
          completions: of.map(({ ids }) => ids),
          temperature: request.temperature,
        })
      return [...scores(rows), ...scores([request])] // apart, so that groups share their prompts
    }
    const [plus, minus] = [scoresAt(1), scoresAt(-1)]
    const slopes = plus.map((row, i) => Array.from(row, (value, t) => (value - minus[i]![t]!) / (2 * size)))
    // The token in question is the end of the last row.
    return { rows: slopes.slice(0, -1), linearity: slopes.at(-1)!.at(-1)! / norm }
  } finally {
    scorer.release()
  }
}

/** Rollouts that are reported. */
const REPORTED = 16

const SHOWN_CHARACTERS = 160

/** Sums influences by trajectory, largest first. */
const ranked = (
  rows: readonly BatchRow[],
  slopes: readonly (readonly number[])[],
  nameOf: (trajectory: string) => string | null,
  textOf: (ids: readonly number[]) => string,
): InfluenceLine['rollouts'] => {
  const trajectories = new Map<string, { influence: number; advantage: number; ids: readonly number[] }>()
  for (const [i, { trajectory, ids, advantages }] of rows.entries()) {
    const influence = advantages.reduce((sum, advantage, t) => sum + advantage * slopes[i]![t]!, 0)
    const advantage = advantages.reduce((a, b) => a + b, 0) / Math.max(1, advantages.length)
    const before = trajectories.get(trajectory)
    trajectories.set(trajectory, { influence: (before?.influence ?? 0) + influence, advantage, ids })
  }
  const total = [...trajectories.values()].reduce((sum, { influence }) => sum + Math.abs(influence), 0)
  return [...trajectories]
    .sort(([, a], [, b]) => Math.abs(b.influence) - Math.abs(a.influence))
    .slice(0, REPORTED)
    .map(([trajectory, { influence, advantage, ids }]) => ({
      id: nameOf(trajectory),
      text: textOf(ids),
      advantage,
      influence,
      share: total === 0 ? 0 : influence / total,
    }))
}

/** Yields the influences of the rollouts of the step after a checkpoint on a token. */
export const influenceLines = ({ checkpoint, ...place }: InfluenceRequest) =>
  async function* ({ run, open }: ModelWork): AsyncGenerator<ProgressLine | InfluenceLine> {
    yield { type: 'progress', message: 'opening the run' }
    const model = await open()
    const { turns, turn, token } = await findToken(run, place)
    const { prompt, ids } = turns[turn]! // found above
    yield { type: 'progress', message: `collecting the batch of step ${checkpoint + 1}` }
    const { rows, batch } = await batchAfter(model, checkpoint)
    await model.learnerAt(checkpoint)
    yield { type: 'progress', message: 'computing gradients' }
    const request = { prompt, ids: ids.slice(0, token + 1), temperature: await runTemperature(run) }
    const { rows: slopes, linearity } = derivatives(model, model.run().learner.weights(), { request, rows })
    const known = new Set((await run.rollouts()).map(({ row }) => row.id))
    const nameOf = (trajectory: string): string | null => {
      const id = rolloutId({ step: checkpoint + 1, trajectoryId: trajectory })
      return known.has(id) ? id : null
    }
    const textOf = (of: readonly number[]): string => model.text.tokenizer.decode(of, 'keep').slice(0, SHOWN_CHARACTERS)
    yield {
      type: 'influence',
      step: checkpoint + 1,
      batch,
      linearity,
      rollouts: ranked(rows, slopes, nameOf, textOf),
    }
  }

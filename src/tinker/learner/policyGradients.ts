/** Gradients of policy losses by log-probabilities, and rows as data of the protocol. */
import * as tf from '@tensorflow/tfjs-core'
import { combineMetrics, type PolicyMeasures, type StepMetrics } from '../../collectors/steps/stepMetrics.js'
import type { TrainingRows } from '../../collectors/steps/stepRows.js'
import { listTensors, tokenNumbers } from '../../collectors/steps/tokenRows.js'
import { scope } from '../../engine/scope.js'
import { stopGradient } from '../../engine/stopGradient.js'
import { valueAndGrad } from '../../engine/valueAndGrad.js'
import { groupPrompts } from '../../modules/transformer/pack.js'
import { type PolicyLoss, totalLoss } from '../../objectives/policyLoss.js'
import { type Datum, floatTensor, integerTensor } from '../protocol/values.js'

/** A row as a datum: the model reads all tokens but the last, and predicts all but the first. */
export const rowDatum = (prompt: ArrayLike<number>, completion: ArrayLike<number>): Datum => {
  const all = [...Array.from(prompt), ...Array.from(completion)]
  return { tokens: all.slice(0, -1), inputs: { target_tokens: integerTensor(all.slice(1)) } }
}

/** Numbers of a completion's tokens, with 0 for those of its prompt. */
export const withPromptPlaces = (prompt: ArrayLike<number>, numbers: ArrayLike<number>): Float32Array => {
  const all = new Float32Array(prompt.length - 1 + numbers.length)
  all.set(numbers, prompt.length - 1)
  return all
}

/** A datum with inputs for each token of its completion. */
export const withInputs = (
  datum: Datum,
  prompt: ArrayLike<number>,
  inputs: Readonly<Record<string, ArrayLike<number>>>,
): Datum => ({
  tokens: datum.tokens,
  inputs: {
    ...datum.inputs,
    ...Object.fromEntries(
      Object.entries(inputs).map(([name, numbers]) => [name, floatTensor(withPromptPlaces(prompt, numbers))]),
    ),
  },
})

/**
 * The gradient of a loss by the log-probability of every completion token, and its metrics without
 * the norm.
 */
export interface PolicyGradient {
  readonly loss: number
  readonly gradients: readonly ArrayLike<number>[]
  readonly metrics: (gradNorm: number) => StepMetrics
}

/**
 * Differentiates a policy loss by log-probabilities. The metric `entropy` is the mean of
 * `-log p` over the tokens, which estimates it from samples.
 *
 * Errors   throws RangeError for rows that the loss does not fit.
 */
export const logProbGradient = (
  loss: PolicyLoss,
  rows: TrainingRows,
  logProbs: readonly ArrayLike<number>[],
): PolicyGradient => {
  const { prompts, completions, masks, temperature, ...lists } = rows
  const measured = scope(() => {
    const { mask, lists: all } = listTensors({
      ...{ groups: groupPrompts(prompts), completions, temperature, lists: { ...lists, logProbs } },
      ...(masks && { masks }),
    })
    const { logProbs: given, oldLogProbs, advantages, ...others } = all as Readonly<Record<string, tf.Tensor>> // rows have them
    const input = { ...others, oldLogProbs: oldLogProbs!, advantages: advantages!, mask }
    const tokens = tf.sum(loss.counted({ ...input, logProbs: given! }))
    const counts = { tokens, completions: tf.scalar(completions.length) }
    const { value, grads, aux } = valueAndGrad({ logProbs: given! }, ({ logProbs: own }) => {
      const output = loss.apply({ ...input, counts, logProbs: own, entropy: stopGradient(tf.neg(own)) })
      const behavior = others.behaviorLogProbs ?? oldLogProbs!
      const gap = tf.max(tf.mul(tf.abs(tf.sub(own, behavior)), mask))
      return { value: totalLoss(output), aux: { output, gap } satisfies PolicyMeasures }
    })
    const metrics = combineMetrics([{ loss: value, aux, places: null }], 0) // the server's places
    return { metrics, gradients: tokenNumbers(grads.logProbs!, completions) }
  })
  return {
    loss: measured.metrics.loss,
    gradients: measured.gradients,
    metrics: (gradNorm) => ({ ...measured.metrics, gradNorm }),
  }
}

/** Gradients of losses by log-probabilities that were computed elsewhere. */
import { stopGradient, valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { type Loss, type LossMetrics, type ModelOutputs, scalarsOf, totalLoss } from '../../objectives/loss.js'
import type { LossRows } from '../../objectives/lossRows.js'
import { lossTensors, stepSums } from './stepLoss.js'
import { listTensors, tokenNumbers } from './tokenRows.js'

/**
 * The gradient of a loss by the log-probability of every completion token, and its metrics without
 * the norm.
 */
export interface LossGradient<M> {
  readonly loss: number
  readonly gradients: readonly ArrayLike<number>[]
  readonly metrics: (gradNorm: number) => M
}

/** Returns the outputs of a model of which only log-probabilities are known. */
const knownOutputs = (name: string, logProbs: tf.Tensor): ModelOutputs => ({
  logProbs,
  entropy: stopGradient(tf.neg(logProbs)),
  get values(): never {
    throw new RangeError(`${name}: it reads \`values\`, which a server does not return`)
  },
})

/**
 * Differentiates a loss by log-probabilities. The metric `entropy` is the mean of `-log p` over the
 * tokens, which estimates it from samples.
 *
 * Errors   throws RangeError for rows that the loss does not fit, and for a loss that reads values.
 */
export const logProbGradient = <M extends LossMetrics>(
  loss: Loss<never, M, never>,
  rows: LossRows,
  logProbs: readonly ArrayLike<number>[],
): LossGradient<M> => {
  const { completions } = rows
  const measured = scope(() => {
    const { mask, lists } = listTensors({ ...rows, lists: { ...rows.lists, 'read logProbs': logProbs } })
    const { 'read logProbs': given, ...own } = lists
    const tokens = loss.selection.counted?.({ logProbs: given! }, lossTensors({ mask, lists: own })) ?? mask // read just now
    const counts = { tokens: tf.sum(tokens), completions: tf.scalar(completions.length) }
    const { value, grads, aux } = valueAndGrad({ logProbs: given! }, (variables) => {
      const model = knownOutputs(loss.name, variables.logProbs)
      const output = loss.apply(model, lossTensors({ mask, lists: own, counts }))
      return { value: totalLoss(output), aux: { scalars: scalarsOf(output) } }
    })
    const sums = stepSums(loss, [{ loss: value, aux }])
    return { sums, gradients: tokenNumbers(grads.logProbs!, completions) }
  })
  return {
    loss: measured.sums.loss,
    gradients: measured.gradients,
    metrics: (gradNorm) => loss.measures.metrics({ sums: measured.sums, gradNorm, places: null }), // the server's places
  }
}

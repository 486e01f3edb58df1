/** The value, gradient and metrics of a policy loss on rows of plain numbers. */
import { valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { essOf } from '../../src/objectives/ess.js'
import { scalarsOf, totalLoss } from '../../src/objectives/loss.js'
import type { PolicyLoss, PolicyLossInput, PolicyOutputs } from '../../src/objectives/policyLoss.js'

type Matrix = readonly (readonly number[])[]

/** Rows of tokens on the host, `[B, T]`. */
export interface LossRows {
  readonly logProbs: Matrix
  readonly old: Matrix
  readonly mask: Matrix
  /** `[B, 1]` or `[B, T]`. */
  readonly advantages: Matrix
  readonly behavior?: Matrix
  readonly reference?: Matrix
  readonly noise?: Matrix
  readonly weights?: Matrix
  readonly entropy?: Matrix
  readonly chosen?: Matrix
}

export interface LossNumbers {
  readonly value: number
  /** With respect to each log-probability, `[B, T]`. */
  readonly gradient: Matrix
  readonly metrics: Readonly<Record<string, number>>
}

const tensor = (rows: Matrix): tf.Tensor => tf.tensor2d(rows.flat(), [rows.length, rows[0]!.length])

const outputsOf = (rows: LossRows, logProbs: tf.Tensor): PolicyOutputs => ({
  logProbs,
  ...(rows.entropy && { entropy: tensor(rows.entropy) }),
})

const inputOf = (rows: LossRows): PolicyLossInput => ({
  oldLogProbs: tensor(rows.old),
  mask: tensor(rows.mask),
  advantages: tensor(rows.advantages),
  ...(rows.behavior && { behaviorLogProbs: tensor(rows.behavior) }),
  ...(rows.reference && { refLogProbs: tensor(rows.reference) }),
  ...(rows.noise && { noise: tensor(rows.noise) }),
  ...(rows.weights && { weights: tensor(rows.weights) }),
  ...(rows.chosen && { chosen: tensor(rows.chosen) }),
})

/** The tokens that the objective chooses in the whole of these rows, or null. */
export const chosenRows = (loss: PolicyLoss, rows: LossRows): Matrix | null => {
  let chosen: Matrix | null = null
  scope(() => {
    const tensors = loss.selection.choose?.(outputsOf(rows, tensor(rows.logProbs)), inputOf(rows))
    chosen = tensors === undefined ? null : (tensors.arraySync() as number[][]) // it is `[B, T]`
    return []
  })
  return chosen
}

/** `counts` are tokens and completions of the whole. */
export const lossNumbers = (loss: PolicyLoss, rows: LossRows, counts?: readonly [number, number]): LossNumbers => {
  let numbers: LossNumbers | undefined
  scope(() => {
    const x = tensor(rows.logProbs)
    const result = valueAndGrad({ x }, (params) => {
      const input = inputOf(rows)
      const whole = counts && { tokens: tf.scalar(counts[0]), completions: tf.scalar(counts[1]) }
      const output = loss.apply(outputsOf(rows, params.x), whole === undefined ? input : { ...input, counts: whole })
      return { value: totalLoss(output), aux: scalarsOf(output) }
    })
    const gradient = Array.from(result.grads.x!.dataSync())
    const width = rows.mask[0]!.length
    const metrics: Record<string, number> = Object.fromEntries(
      Object.entries(result.aux).map(([name, value]: [string, tf.Tensor]) => [name, value.dataSync()[0]!]),
    )
    metrics.ess = essOf({
      logSumWeights: metrics.logSumWeights!,
      logSumSquaredWeights: metrics.logSumSquaredWeights!,
      tokens: metrics.tokens!,
    })
    numbers = {
      value: result.value.dataSync()[0]!,
      gradient: rows.mask.map((_, b) => gradient.slice(b * width, (b + 1) * width)),
      metrics,
    }
    return []
  })
  return numbers!
}

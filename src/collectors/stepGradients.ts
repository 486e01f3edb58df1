/** The gradient of a policy loss on a micro-batch: of the whole decoder at once, or layer by layer. */
import * as tf from '@tensorflow/tfjs'
import type { NamedTensors } from '../data/weights.js'
import { jit } from '../engine/jit.js'
import { tokenScores } from '../engine/ops/logProbs.js'
import { valueAndGrad } from '../engine/valueAndGrad.js'
import type { DecoderConfig } from '../modules/transformer/config.js'
import { makeLayerwise } from '../modules/transformer/layerwise.js'
import { type ScoredBatch, temperedLogits } from '../modules/transformer/score.js'
import type { LossCounts } from '../objectives/aggregation.js'
import { type PolicyLoss, totalLoss } from '../objectives/policyLoss.js'
import type { PartOutput } from './stepMetrics.js'

/** What is computed again for the gradient instead of being kept: nothing, or the inside of each layer. */
export type Recompute = 'none' | 'layers'

/** All of a micro-batch but the weights. */
export interface GradBatch extends ScoredBatch {
  readonly mask: tf.Tensor
  readonly oldLogProbs: tf.Tensor
  readonly behaviorLogProbs?: tf.Tensor
  readonly refLogProbs?: tf.Tensor
  readonly weights?: tf.Tensor
  readonly noise?: tf.Tensor
  readonly advantages: tf.Tensor
  readonly counts: LossCounts
}

/** A micro-batch and the weights. */
export interface GradInput extends GradBatch {
  readonly params: NamedTensors
  readonly frozen: NamedTensors
}

/** Gradients by name, with the loss and its metrics. */
export interface GradOutput extends PartOutput {
  readonly grads: NamedTensors
}

/** The loss of a micro-batch as a function of its tempered logits. */
const lossOfLogits =
  (loss: PolicyLoss) =>
  (logits: tf.Tensor, { batch, ...rest }: Omit<GradBatch, 'inverseTemperature'>) => {
    const { mask, oldLogProbs } = rest
    const scores = tokenScores(logits, tf.reshape(batch.completionIds, [-1]), {
      entropy: loss.needs.entropy,
    })
    const logProbs = tf.reshape(scores.logProbs, mask.shape)
    const output = loss.apply({ ...rest, logProbs, entropy: tf.reshape(scores.entropy, mask.shape) })
    const gap = tf.max(tf.mul(tf.abs(tf.sub(logProbs, oldLogProbs)), mask))
    return { value: totalLoss(output), aux: { output, gap } }
  }

/** Gradients by one pass through the whole decoder: of `params`, and of nothing that is frozen. */
export const wholeGradients =
  (config: DecoderConfig, loss: PolicyLoss) =>
  ({ params, frozen, ...batch }: GradInput): GradOutput => {
    const { value, grads, aux } = valueAndGrad(params, (trained) =>
      lossOfLogits(loss)(temperedLogits({ ...frozen, ...trained }, config, batch), batch),
    )
    return { loss: value, grads, ...aux }
  }

/** Compiled gradients of micro-batches. */
export interface StepGradients {
  /** The results belong to the enclosing scope. */
  readonly run: (input: GradInput) => GradOutput
  readonly release: () => void
}

/** Compiles gradients. What is computed again changes nothing but memory, time and rounding. */
export const stepGradients = (config: DecoderConfig, loss: PolicyLoss, recompute: Recompute): StepGradients => {
  if (recompute === 'none') {
    const compiled = jit(wholeGradients(config, loss))
    return { run: compiled, release: compiled.release }
  }
  const layerwise = makeLayerwise(config, lossOfLogits(loss))
  return {
    run: ({ params, frozen, batch, inverseTemperature, ...rest }) => {
      const { value, grads, aux } = layerwise.run({
        params,
        frozen,
        batch,
        inverseTemperature,
        rest: { batch, ...rest },
      })
      return { loss: value, grads, ...aux }
    },
    release: layerwise.release,
  }
}

/** Supervised fine-tuning as a training step. */
import * as tf from '@tensorflow/tfjs-core'
import { maskedSum } from '../../engine/masked.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import { groupPrompts } from '../../modules/transformer/pack.js'
import type { SFTLoss } from '../../objectives/sftLoss.js'
import type { MeasuredLoss, StepCase } from './lossStep.js'
import { rowIds, rowLogits, rowLogProbs, summed } from './readout.js'
import type { SFTRows } from './sftRows.js'
import type { StepLoss } from './stepGradients.js'
import type { StepTokenRows } from './tokenRows.js'

/** Means over the trained tokens, before the update. */
export interface SFTMetrics extends MeasuredLoss {
  /** Negative log-likelihood of a token, in nats. */
  readonly nll: number
  /** Share of tokens to which the model gives the highest probability. */
  readonly accuracy: number
  /** k3 estimate, in nats, or `null` without a reference. */
  readonly klToRef: number | null
  readonly tokens: number
}

interface Measures {
  readonly nll: tf.Tensor
  readonly accuracy: tf.Tensor
  readonly tokens: tf.Tensor
  readonly klToRef?: tf.Tensor
  readonly lossKlToRef?: tf.Tensor
}

const tokenRows = ({ prompts, completions, masks, refLogProbs }: SFTRows): StepTokenRows<'refLogProbs'> => ({
  groups: groupPrompts(prompts),
  completions,
  ...(masks && { masks }),
  temperature: 1,
  lists: refLogProbs ? { refLogProbs } : {},
})

const sftStepLoss =
  (config: DecoderConfig, loss: SFTLoss): StepLoss<'refLogProbs', Measures> =>
  (readout, rows) => {
    const { mask, lists, counts } = rows
    const logits = rowLogits(config, readout, rows)
    const logProbs = rowLogProbs(logits, rows)
    const { lossSft, lossKlToRef, klToRef } = loss.apply({ ...lists, logProbs, mask, counts })
    const mean = (x: tf.Tensor): tf.Tensor => tf.div(maskedSum(x, mask), tf.maximum(counts.tokens, 1))
    const first = tf.cast(tf.equal(tf.argMax(logits, -1), rowIds(rows)), 'float32')
    return {
      value: lossKlToRef === undefined ? lossSft : tf.add(lossSft, lossKlToRef),
      aux: {
        nll: mean(tf.neg(logProbs)),
        accuracy: mean(tf.reshape(first, mask.shape)),
        tokens: tf.sum(mask),
        ...(klToRef && { klToRef }),
        ...(lossKlToRef && { lossKlToRef }),
      },
    }
  }

/** Returns the step case of a supervised loss. */
export const sftCase = (
  config: DecoderConfig,
  loss: SFTLoss,
): StepCase<SFTRows, 'refLogProbs', Measures, SFTMetrics> => ({
  name: 'sftStep',
  rows: tokenRows,
  loss: sftStepLoss(config, loss),
  metrics: (parts, gradNorm) => {
    const { klToRef = null, lossKlToRef: _, ...means } = summed(parts)
    return { ...means, klToRef, gradNorm }
  },
})

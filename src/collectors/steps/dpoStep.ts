/** One optimizer step of direct preference optimization. */
import * as tf from '@tensorflow/tfjs-core'
import { maskedSum } from '../../engine/masked.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import type { DPOLoss, DPOSide } from '../../objectives/dpoLoss.js'
import type { MeasuredLoss, StepCase } from './lossStep.js'
import { rowLogits, rowLogProbs, summed } from './readout.js'
import type { StepLoss } from './stepGradients.js'
import type { StepTokenRows } from './tokenRows.js'

/** A value for each of two completions of a prompt. */
export interface Preference<T> {
  readonly chosen: T
  readonly rejected: T
}

/** Pairs of completions. All lists have one element for each pair. */
export interface PreferenceRows extends Preference<readonly ArrayLike<number>[]> {
  readonly prompts: readonly ArrayLike<number>[]
  /** Per token: log-probability under the reference model. See `withReference`. */
  readonly refLogProbs?: Preference<readonly ArrayLike<number>[]>
  /** Per token: 1 for trained tokens. Default: all tokens. */
  readonly masks?: Preference<readonly ArrayLike<number>[]>
}

/**
 * Means over the pairs, before the update. Rewards are `beta` times the log-ratio of a whole
 * completion.
 */
export interface DPOMetrics extends MeasuredLoss {
  readonly chosenReward: number
  readonly rejectedReward: number
  /** Difference of the two rewards. */
  readonly margin: number
  /** Share of pairs whose chosen completion has the higher reward. */
  readonly accuracy: number
  /** Log-probability of a whole completion, in nats. */
  readonly chosenLogProb: number
  readonly rejectedLogProb: number
}

type Measure = Exclude<keyof DPOMetrics, 'loss' | 'gradNorm' | 'margin'>

/**
 * Interleaves pairs, the chosen one first, so that each pair shares its prompt and stays together.
 */
export const interleaved = ({
  chosen,
  rejected,
}: Preference<readonly ArrayLike<number>[]>): readonly ArrayLike<number>[] =>
  chosen.flatMap((row, i) => [row, rejected[i]!]) // checked by `tokenRows`

const tokenRows = ({ prompts, chosen, rejected, refLogProbs, masks }: PreferenceRows): StepTokenRows<'refLogProbs'> => {
  const lists = { prompts, rejected, 'chosen refLogProbs': refLogProbs?.chosen, 'chosen masks': masks?.chosen }
  const others = { 'rejected refLogProbs': refLogProbs?.rejected, 'rejected masks': masks?.rejected }
  const problems = Object.entries({ ...lists, ...others }).flatMap(([name, list]) =>
    list === undefined || list.length === chosen.length ? [] : [`${chosen.length} chosen but ${list.length} ${name}`],
  )
  if (problems.length > 0) throw new RangeError(`dpoStep: ${problems.join('; ')}`)
  return {
    groups: { prompts, group: 2 },
    completions: interleaved({ chosen, rejected }),
    ...(masks && { masks: interleaved(masks) }),
    temperature: 1,
    lists: refLogProbs ? { refLogProbs: interleaved(refLogProbs) } : {},
  }
}

/** Returns one side of interleaved rows: `[2 B, T]` to `[B, T]`. */
export const sideOf = (x: tf.Tensor, side: 'chosen' | 'rejected'): tf.Tensor => {
  const [rows, length] = x.shape as [number, number] // [2 B, T] by contract
  const pairs = tf.reshape(x, [rows / 2, 2, length])
  return tf.reshape(tf.slice(pairs, [0, side === 'chosen' ? 0 : 1, 0], [rows / 2, 1, length]), [rows / 2, length])
}

const dpoStepLoss =
  (config: DecoderConfig, loss: DPOLoss): StepLoss<'refLogProbs', Readonly<Record<Measure, tf.Tensor>>> =>
  (readout, rows) => {
    const { mask, lists, counts } = rows
    const logProbs = rowLogProbs(rowLogits(config, readout, rows), rows)
    const pairs = tf.div(counts.completions, 2)
    const side = (name: 'chosen' | 'rejected'): DPOSide => ({
      logProbs: sideOf(logProbs, name),
      mask: sideOf(mask, name),
      ...(lists.refLogProbs && { refLogProbs: sideOf(lists.refLogProbs, name) }),
    })
    const [chosen, rejected] = [side('chosen'), side('rejected')]
    const output = loss.apply({ chosen, rejected, pairs })
    const mean = (x: tf.Tensor): tf.Tensor => tf.div(tf.sum(x), pairs)
    return {
      value: output.lossDpo,
      aux: {
        chosenReward: mean(output.chosenRewards),
        rejectedReward: mean(output.rejectedRewards),
        accuracy: output.accuracy,
        chosenLogProb: mean(maskedSum(chosen.logProbs, chosen.mask)),
        rejectedLogProb: mean(maskedSum(rejected.logProbs, rejected.mask)),
      },
    }
  }

/** Returns the step case of a DPO loss. */
export const dpoCase = (
  config: DecoderConfig,
  loss: DPOLoss,
): StepCase<PreferenceRows, 'refLogProbs', Readonly<Record<Measure, tf.Tensor>>, DPOMetrics> => ({
  name: 'dpoStep',
  rows: tokenRows,
  loss: dpoStepLoss(config, loss),
  metrics: (parts, gradNorm) => {
    const means = summed(parts)
    return { ...means, margin: means.chosenReward - means.rejectedReward, gradNorm }
  },
})

/** One optimizer step of a policy loss on a collected batch. */
import * as tf from '@tensorflow/tfjs'
import { aRecord, checkOptions } from '../core/options.js'
import { tokenScores } from '../engine/ops/logProbs.js'
import type { DecoderConfig } from '../modules/transformer/config.js'
import type { Readout } from '../modules/transformer/layerwise.js'
import { groupPrompts } from '../modules/transformer/pack.js'
import { GRPOLoss, type GRPOLossOptions } from '../objectives/grpoLoss.js'
import { type PolicyLoss, totalLoss } from '../objectives/policyLoss.js'
import type { StepLoss } from './stepGradients.js'
import { combineMetrics, type PolicyMeasures, type StepMetrics } from './stepMetrics.js'
import type { TrainingRows } from './stepRows.js'
import { LOSS_STEP_OPTIONS, type LossStep, type LossStepOptions, lossStep, type StepCase } from './steps/lossStep.js'
import { rowIds, rowLogits, rowLogProbs } from './steps/readout.js'
import type { RowTensors, TokenRows } from './steps/tokenRows.js'
import type { WholeChoice } from './steps/wholeChoice.js'

export interface TrainStepOptions<S> extends LossStepOptions<S> {
  /** Any policy loss, or settings of GRPO's. Default: GRPO's with its defaults. */
  readonly loss?: GRPOLossOptions | PolicyLoss
}

export type TrainStep<S> = LossStep<S, TrainingRows, StepMetrics>

/** The lists of `TrainingRows`, and the tokens that the objective chose in the whole mini-batch. */
export type PolicyList = Exclude<keyof TrainingRows, 'prompts' | 'completions' | 'masks' | 'temperature'> | 'chosen'

const policyRows = ({ prompts, completions, masks, temperature, ...lists }: TrainingRows): TokenRows<PolicyList> => ({
  groups: groupPrompts(prompts),
  completions,
  ...(masks && { masks }),
  temperature,
  lists,
})

/** The loss of a micro-batch. */
const policyStepLoss =
  (config: DecoderConfig, loss: PolicyLoss): StepLoss<PolicyList, PolicyMeasures> =>
  (readout, rows) => {
    const { mask, lists, counts } = rows
    const { oldLogProbs, advantages, behaviorLogProbs } = lists as typeof lists &
      Pick<Required<typeof lists>, 'oldLogProbs' | 'advantages'> // rows have them
    const scores = tokenScores(rowLogits(config, readout, rows), rowIds(rows), { entropy: loss.needs.entropy })
    const logProbs = tf.reshape(scores.logProbs, mask.shape)
    const entropy = tf.reshape(scores.entropy, mask.shape)
    const output = loss.apply({ ...lists, oldLogProbs, advantages, mask, counts, logProbs, entropy })
    const gap = tf.max(tf.mul(tf.abs(tf.sub(logProbs, behaviorLogProbs ?? oldLogProbs)), mask))
    return { value: totalLoss(output), aux: { output, gap } }
  }

/** Log-probabilities of the tokens of a micro-batch, `[B, T]`. */
const readLogProbs =
  (config: DecoderConfig) =>
  (readout: Readout, rows: Omit<RowTensors<PolicyList>, 'counts'>): tf.Tensor =>
    rowLogProbs(rowLogits(config, readout, rows), rows)

const countedBy =
  (config: DecoderConfig, loss: PolicyLoss) =>
  (readout: Readout, rows: Omit<RowTensors<PolicyList>, 'counts'>): tf.Tensor => {
    const { mask, lists } = rows
    const logProbs = readLogProbs(config)(readout, rows)
    return loss.counted({ ...lists, oldLogProbs: lists.oldLogProbs!, mask, logProbs }) // rows have them
  }

/** The tokens that the objective chooses. */
const choiceOf = (config: DecoderConfig, loss: PolicyLoss): WholeChoice<PolicyList> => ({
  list: 'chosen',
  read: readLogProbs(config),
  decide: (logProbs, { mask, lists }) => {
    const { oldLogProbs, advantages } = lists as typeof lists &
      Pick<Required<typeof lists>, 'oldLogProbs' | 'advantages'> // rows have them
    return loss.chosen({ ...lists, oldLogProbs, advantages, mask, logProbs })! // such a loss chooses
  },
})

/** What makes a step of a policy loss. */
export const policyCase = (
  config: DecoderConfig,
  loss: PolicyLoss,
): StepCase<TrainingRows, PolicyList, PolicyMeasures, StepMetrics> => ({
  name: 'trainStep',
  rows: policyRows,
  loss: policyStepLoss(config, loss),
  ...(loss.counting === 'computed' && { counted: countedBy(config, loss) }),
  ...(loss.choosing === 'tokens' && { choice: choiceOf(config, loss) }),
  metrics: combineMetrics,
})

const lossOf = (loss: GRPOLossOptions | PolicyLoss = {}): PolicyLoss => ('apply' in loss ? loss : GRPOLoss(loss))

/**
 * Makes the training step of a policy loss: see `lossStep`. Neighbouring rows with the same prompt share its computation.
 *
 * Effects  keeps `frozen` and the compiled graphs until `release`.
 */
export const trainStep = <S>(given: TrainStepOptions<S>): TrainStep<S> => {
  checkOptions('trainStep', given, { ...LOSS_STEP_OPTIONS, loss: aRecord })
  const { loss, ...options } = given
  return lossStep(policyCase(options.config, lossOf(loss)), options)
}

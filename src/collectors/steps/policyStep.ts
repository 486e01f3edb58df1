/**
 * The optimizer step of a policy loss, and the rows that it trains on.
 *
 * This folder holds one optimizer step of each loss: the rows that it reads, micro-batches,
 * gradients and metrics. It does not hold the losses (`src/objectives`) or the state between
 * steps, which a learner keeps (`../learners`).
 */
import * as tf from '@tensorflow/tfjs-core'
import { tokenScores } from '../../engine/ops/logProbs.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import type { Readout } from '../../modules/transformer/layerwise.js'
import { groupPrompts } from '../../modules/transformer/pack.js'
import { type PolicyLoss, totalLoss } from '../../objectives/policyLoss.js'
import { limited } from '../../objectives/tokenLosses/tokenObjective.js'
import type { StepCase } from './lossStep.js'
import { rowIds, rowLogits, rowLogProbs } from './readout.js'
import type { StepLoss } from './stepGradients.js'
import { combineMetrics, type PolicyStepMeasures, type StepMetrics } from './stepMetrics.js'
import type { TrainingRows } from './stepRows.js'
import type { RowTensors, StepTokenRows } from './tokenRows.js'
import type { WholeChoice } from './wholeChoice.js'

/** The lists of `TrainingRows`, and the tokens that the objective selected in the mini-batch. */
export type PolicyList = Exclude<keyof TrainingRows, 'prompts' | 'completions' | 'masks' | 'temperature'> | 'chosen'

const policyRows = ({
  prompts,
  completions,
  masks,
  temperature,
  ...lists
}: TrainingRows): StepTokenRows<PolicyList> => ({
  groups: groupPrompts(prompts),
  completions,
  ...(masks && { masks }),
  temperature,
  lists,
})

/** Computes the loss of a micro-batch. */
const policyStepLoss =
  (config: DecoderConfig, loss: PolicyLoss): StepLoss<PolicyList, PolicyStepMeasures> =>
  (readout, rows) => {
    const { mask, lists, counts } = rows
    const { oldLogProbs, advantages, behaviorLogProbs } = lists as typeof lists &
      Pick<Required<typeof lists>, 'oldLogProbs' | 'advantages'> // rows have them
    const scores = tokenScores(rowLogits(config, readout, rows), rowIds(rows), { entropy: loss.needs.entropy })
    const logProbs = tf.reshape(scores.logProbs, mask.shape)
    const entropy = tf.reshape(scores.entropy, mask.shape)
    const output = loss.apply({ ...lists, oldLogProbs, advantages, mask, counts, logProbs, entropy })
    const gap = tf.max(tf.mul(tf.abs(tf.sub(logProbs, behaviorLogProbs ?? oldLogProbs)), mask))
    const ratios = tf.exp(limited(tf.mul(tf.sub(logProbs, oldLogProbs), mask)))
    const tokens = { logProbs, entropies: entropy, ratios, clipped: output.clippedTokens }
    return { value: totalLoss(output), aux: { output, gap, tokens } }
  }

/** Computes the log-probabilities of a micro-batch, `[B, T]`. */
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

/** Returns for each row whether all of its advantages are 0 where the mask is 1. */
const hasNoAdvantage = ({ completions, masks, lists }: StepTokenRows<PolicyList>): readonly boolean[] =>
  completions.map((completion, row) => {
    const advantage = lists.advantages![row]! // rows have them
    const isZero = (t: number): boolean =>
      masks?.[row]?.[t] === 0 || (typeof advantage === 'number' ? advantage : advantage[t]) === 0
    return Array.from(completion).every((_, t) => isZero(t))
  })

/** Selects tokens for objectives that train on a part of them. */
const choiceOf = (config: DecoderConfig, loss: PolicyLoss): WholeChoice<PolicyList> => ({
  list: 'chosen',
  read: readLogProbs(config),
  decide: (logProbs, { mask, lists }) => {
    const { oldLogProbs, advantages } = lists as typeof lists &
      Pick<Required<typeof lists>, 'oldLogProbs' | 'advantages'> // rows have them
    return loss.chosen({ ...lists, oldLogProbs, advantages, mask, logProbs })! // such a loss chooses
  },
})

/**
 * Returns the step case of a policy loss for `lossStep`. Adjacent rows with the same prompt share
 * the prompt's computation.
 */
export const policyCase = (
  config: DecoderConfig,
  loss: PolicyLoss,
): StepCase<TrainingRows, PolicyList, PolicyStepMeasures, StepMetrics> => ({
  name: 'policyStep',
  rows: policyRows,
  loss: policyStepLoss(config, loss),
  ...(loss.counting === 'computed' && { counted: countedBy(config, loss) }),
  ...(loss.choosing === 'tokens' && { choice: choiceOf(config, loss) }),
  ...(loss.atZeroAdvantage === 'none' && { zeroGradient: hasNoAdvantage }),
  metrics: combineMetrics,
  tokens: ({ tokens }) => tokens,
})

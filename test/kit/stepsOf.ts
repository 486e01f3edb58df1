/** The training steps of learners, one for each loss, as functions of plain rows. */

import {
  type DistillationMetrics,
  distillationCase,
  type TaughtRows,
} from '../../src/collectors/steps/distillationStep.js'
import { type DPOMetrics, dpoCase, interleaved, type PreferenceRows } from '../../src/collectors/steps/dpoStep.js'
import {
  type LossStep,
  type LossStepOptions,
  lossStep,
  type MeasuredLoss,
} from '../../src/collectors/steps/lossStep.js'
import { policyCase } from '../../src/collectors/steps/policyStep.js'
import { type PPOMetrics, type PPORows, ppoCase } from '../../src/collectors/steps/ppoStep.js'
import type { SFTRows } from '../../src/collectors/steps/sftRows.js'
import { type SFTMetrics, sftCase } from '../../src/collectors/steps/sftStep.js'
import type { StepMetrics } from '../../src/collectors/steps/stepMetrics.js'
import type { TrainingRows } from '../../src/collectors/steps/stepRows.js'
import { type ValueMetrics, type ValueRows, valueCase } from '../../src/collectors/steps/valueStep.js'
import type { Params } from '../../src/modules/transformer/params.js'
import type { Scorer } from '../../src/modules/transformer/scorer.js'
import { DistillationLoss } from '../../src/objectives/distillationLoss.js'
import { type DPOLoss, dpoLoss } from '../../src/objectives/dpoLoss.js'
import { GRPOLoss, type GRPOLossOptions } from '../../src/objectives/grpoLoss.js'
import type { PolicyLoss } from '../../src/objectives/policyLoss.js'
import { type PPOLossOptions, ppoLoss } from '../../src/objectives/ppoLoss.js'
import { SFTLoss } from '../../src/objectives/sftLoss.js'
import { type ValueLoss, valueLoss } from '../../src/objectives/valueLoss.js'

type With<S, L> = LossStepOptions<S> & { readonly loss?: L }

/** Makes the step of a policy loss, or of GRPO with options. */
export const policyStep = <S>({
  loss = {},
  ...options
}: With<S, GRPOLossOptions | PolicyLoss>): LossStep<S, TrainingRows, StepMetrics> =>
  lossStep(policyCase(options.config, 'apply' in loss ? loss : GRPOLoss(loss)), options)

export const sftStep = <S>({
  loss = SFTLoss({ reduction: 'token-mean' }),
  ...options
}: With<S, SFTLoss>): LossStep<S, SFTRows, SFTMetrics> => lossStep(sftCase(options.config, loss), options)

export const dpoStep = <S>({
  loss = dpoLoss(),
  ...options
}: With<S, DPOLoss>): LossStep<S, PreferenceRows, DPOMetrics> => lossStep(dpoCase(options.config, loss), options)

export const ppoStep = <S>({
  policy,
  value,
  valueCoefficient,
  ...options
}: LossStepOptions<S> & PPOLossOptions): LossStep<S, PPORows, PPOMetrics> => {
  const loss = ppoLoss({
    ...(policy && { policy }),
    ...(value && { value }),
    ...(valueCoefficient !== undefined && { valueCoefficient }),
  })
  return lossStep(ppoCase(options.config, loss), options)
}

export const valueStep = <S>({
  loss = valueLoss(),
  ...options
}: With<S, ValueLoss>): LossStep<S, ValueRows, ValueMetrics & MeasuredLoss> => lossStep(valueCase(loss), options)

export const distillationStep = <S>({
  loss = DistillationLoss(),
  ...options
}: With<S, DistillationLoss>): LossStep<S, TaughtRows, DistillationMetrics> =>
  lossStep(distillationCase(options.config, loss), options)

/** Adds a reference model's log-probabilities to preference pairs. */
export const withReference = (
  rows: PreferenceRows,
  { scorer, params }: { readonly scorer: Scorer; readonly params: Params },
): PreferenceRows => {
  const groups = { prompts: rows.prompts, group: 2 }
  const logProbs = scorer.score(params, { groups, completions: interleaved(rows), temperature: 1 })
  const [chosen, rejected] = [0, 1].map((side) => logProbs.filter((_, i) => i % 2 === side))
  return { ...rows, refLogProbs: { chosen: chosen!, rejected: rejected! } }
}

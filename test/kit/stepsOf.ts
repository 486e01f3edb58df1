/** The training steps of learners, one for each loss, as functions of plain rows. */
import { type LossStep, type LossStepOptions, lossStep } from '../../src/learners/steps/lossStep.js'
import type { SFTRows } from '../../src/learners/steps/sftRows.js'
import type { Params } from '../../src/modules/transformer/params.js'
import type { Scorer } from '../../src/modules/transformer/scorer.js'
import { DistillationLoss, type DistillationMetrics } from '../../src/objectives/distillationLoss.js'
import { type DPOLoss, type DPOMetrics, dpoLoss } from '../../src/objectives/dpoLoss.js'
import { GRPOLoss, type GRPOLossOptions } from '../../src/objectives/grpoLoss.js'
import type { Loss, LossMetrics } from '../../src/objectives/loss.js'
import { interleaved, type LossRows, type Preference } from '../../src/objectives/lossRows.js'
import type { PolicyLoss } from '../../src/objectives/policyLoss.js'
import type { StepMetrics } from '../../src/objectives/policyMetrics.js'
import { type PPOLossOptions, type PPOMetrics, ppoLoss } from '../../src/objectives/ppoLoss.js'
import { SFTLoss, type SFTMetrics } from '../../src/objectives/sftLoss.js'
import { type ValueLoss, type ValueMetrics, valueLoss } from '../../src/objectives/valueLoss.js'
import { repeated } from './repeated.js'
import { lossRows, type TrainingRows } from './trainingRows.js'

type With<S, L> = LossStepOptions<S> & { readonly loss?: L }

type Numbers = readonly ArrayLike<number>[]

/** A step of rows `R` of a test. */
export interface RowStep<S, R, M> extends Omit<LossStep<S, M>, 'update'> {
  readonly update: (
    state: Parameters<LossStep<S, M>['update']>[0],
    rows: R,
    learningRate: number,
  ) => ReturnType<LossStep<S, M>['update']>
}

const stepOf = <S, R, M extends LossMetrics>(
  loss: Loss<never, M, never>,
  options: LossStepOptions<S>,
  toRows: (rows: R) => LossRows,
): RowStep<S, R, M> => {
  const step = lossStep(loss, options)
  return { ...step, update: (state, rows, rate) => step.update(state, toRows(rows), rate) }
}

/** Makes the step of a policy loss, or of GRPO with options. */
export const policyStep = <S>({
  loss = {},
  ...options
}: With<S, GRPOLossOptions | PolicyLoss>): RowStep<S, TrainingRows, StepMetrics> =>
  stepOf('apply' in loss ? loss : GRPOLoss(loss), options, lossRows)

export const sftStep = <S>({
  loss = SFTLoss({ reduction: 'token-mean' }),
  ...options
}: With<S, SFTLoss>): RowStep<S, SFTRows, SFTMetrics> => stepOf(loss, options, lossRows)

/** Pairs of completions. All lists have one element for each pair. */
export interface PreferenceRows extends Preference<Numbers> {
  readonly prompts: Numbers
  readonly refLogProbs?: Preference<Numbers>
  readonly masks?: Preference<Numbers>
}

/** Returns the interleaved rows of pairs. */
const pairLossRows = ({ prompts, chosen, rejected, masks, refLogProbs }: PreferenceRows): LossRows => ({
  prompts: interleaved({ chosen: prompts, rejected: prompts }),
  completions: interleaved({ chosen, rejected }),
  ...(masks && { masks: interleaved(masks) }),
  temperature: 1,
  lists: refLogProbs ? { refLogProbs: interleaved(refLogProbs) } : {},
  kind: 'pairs',
})

export const dpoStep = <S>({
  loss = dpoLoss(),
  ...options
}: With<S, DPOLoss>): RowStep<S, PreferenceRows, DPOMetrics> => stepOf(loss, options, pairLossRows)

/** Rows of a policy loss with advantages and target values for each token. */
export interface PPORows extends TrainingRows {
  readonly returns: Numbers
  readonly oldValues: Numbers
}

export const ppoStep = <S>({
  policy,
  value,
  valueCoefficient,
  ...options
}: LossStepOptions<S> & PPOLossOptions): RowStep<S, PPORows, PPOMetrics> => {
  const loss = ppoLoss({
    ...(policy && { policy }),
    ...(value && { value }),
    ...(valueCoefficient !== undefined && { valueCoefficient }),
  })
  return stepOf(loss, options, lossRows)
}

/** The training rows of a value function. */
export interface ValueRows extends Pick<TrainingRows, 'prompts' | 'completions' | 'masks'> {
  readonly returns: Numbers
  readonly oldValues?: Numbers
}

export const valueStep = <S>({
  loss = valueLoss(),
  ...options
}: With<S, ValueLoss>): RowStep<S, ValueRows, ValueMetrics & LossMetrics> => stepOf(loss, options, lossRows)

/** Completions with the teacher's log-probabilities of their tokens. */
export interface TaughtRows extends Pick<TrainingRows, 'prompts' | 'completions' | 'masks'> {
  readonly teacherLogProbs: Numbers
  readonly temperature?: number
}

export const distillationStep = <S>({ loss = DistillationLoss(), ...options }: With<S, DistillationLoss>) =>
  stepOf<S, TaughtRows, DistillationMetrics>(loss, options, lossRows)

/** Adds a reference model's log-probabilities to preference pairs. */
export const withReference = (
  rows: PreferenceRows,
  { scorer, params }: { readonly scorer: Scorer; readonly params: Params },
): PreferenceRows => {
  const logProbs = scorer.score(params, {
    prompts: repeated(rows.prompts, 2),
    completions: interleaved(rows),
    temperature: 1,
  })
  const [chosen, rejected] = [0, 1].map((side) => logProbs.filter((_, i) => i % 2 === side))
  return { ...rows, refLogProbs: { chosen: chosen!, rejected: rejected! } }
}

/** The conversion of batches to rows, and the training step, for each kind of loss. */
import * as tf from '@tensorflow/tfjs-core'
import { find, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import type { DistillationLoss } from '../../objectives/distillationLoss.js'
import type { DPOLoss } from '../../objectives/dpoLoss.js'
import type { PolicyLoss } from '../../objectives/policyLoss.js'
import type { PPOLoss } from '../../objectives/ppoLoss.js'
import type { RewardModelLoss } from '../../objectives/rewardModelLoss.js'
import type { SFTLoss } from '../../objectives/sftLoss.js'
import type { ValueLoss } from '../../objectives/valueLoss.js'
import { distillationCase } from '../steps/distillationStep.js'
import { dpoCase, type Preference, type PreferenceRows } from '../steps/dpoStep.js'
import type { MeasuredLoss, StepCase } from '../steps/lossStep.js'
import { policyCase } from '../steps/policyStep.js'
import { type PPOMetrics, ppoCase } from '../steps/ppoStep.js'
import { type RankedRows, rewardModelCase } from '../steps/rewardModelStep.js'
import { sftCase } from '../steps/sftStep.js'
import { combineUpdates } from '../steps/stepMetrics.js'
import { type ValueMetrics, valueCase } from '../steps/valueStep.js'
import { batchRowsAt, findRows, lossMasks, temperatureOf } from './batchEntries.js'
import type { LearnableLoss } from './lossKinds.js'
import {
  type OffPolicyOptions,
  offPolicyReads,
  type Preparation,
  type PreparedRows,
  policyRows,
  preparedRows,
} from './policyRows.js'

/** Rows of any loss: lists with one element for each row, or for each pair. */
export interface AnyRows {
  readonly prompts: readonly ArrayLike<number>[]
}

/** The parts of a loss that a learner uses. */
interface LossCase<R extends AnyRows, M extends MeasuredLoss> {
  readonly stepCase: StepCase<R, string, unknown, M>
  /** Dotted names of the entries that every batch must have. */
  readonly reads: readonly string[]
  readonly rows: (batch: TensorDict) => R
  readonly prepare: (batch: TensorDict, rows: R, preparation: Preparation) => PreparedRows<R>
  /** `yes` if the loss selects tokens at random. */
  readonly noise: 'yes' | 'no'
  /** `value` if the model has a value head, which is trained too. */
  readonly head: 'value' | 'none'
  /** Returns the scalars of a loss without an optimizer, from its value and measures. */
  readonly outputs: (value: tf.Tensor, measures: never) => Readonly<Record<string, tf.Tensor | undefined>>
  /** Combines the metrics of several steps. */
  readonly combine: (steps: readonly M[]) => M
}

/** A case with erased types of rows and metrics. */
export type AnyLossCase = Omit<LossCase<AnyRows, MeasuredLoss>, 'outputs'> & {
  readonly outputs: (value: tf.Tensor, measures: unknown) => Readonly<Record<string, tf.Tensor | undefined>>
}

/**
 * Combines metrics: means over the steps, and sums of `tokens`. Steps with `null` are left out of
 * the mean.
 */
const combineMeans = <M extends MeasuredLoss>(steps: readonly M[]): M => {
  const [first, ...more] = steps
  if (first === undefined) throw new RangeError('localLearner: there are no rows to train on')
  if (more.length === 0) return first
  const combined = Object.keys(first).map((name) => {
    const all = steps.flatMap(
      (step) => (step as Readonly<Record<string, unknown>>)[name] ?? [],
    ) as unknown as readonly number[] // metrics are numbers or null
    const total = all.reduce((sum, x) => sum + x, 0)
    return [name, name === 'tokens' ? total : all.length === 0 ? null : total / all.length] as const
  })
  return Object.fromEntries(combined) as unknown as M // the same names
}

/** Combines the policy's metrics, and the means of the value metrics. */
const combinePPO = (steps: readonly PPOMetrics[]): PPOMetrics => {
  const none: ValueMetrics = { valueLoss: 0, valueCutFraction: 0, explainedVariance: null }
  const { valueLoss, valueCutFraction, explainedVariance } = steps.length === 0 ? none : combineMeans(steps)
  return { ...combineUpdates(steps), valueLoss, valueCutFraction, explainedVariance }
}

const unprepared = <R>(_batch: TensorDict, rows: R): PreparedRows<R> => ({ rows, correction: null })

const masksOf = (batch: TensorDict): { readonly masks?: readonly ArrayLike<number>[] } => {
  const masks = lossMasks(batch)
  return masks === undefined ? {} : { masks }
}

const completions = (batch: TensorDict) => ({
  prompts: batchRowsAt(batch, 'tokens.prompt'),
  completions: batchRowsAt(batch, 'tokens.response'),
  ...masksOf(batch),
})

const COMPLETIONS = ['tokens.prompt', 'tokens.response'] as const
const POLICY = [...COMPLETIONS, 'logProbs.response', 'advantage'] as const

const sameRow = (a: ArrayLike<number>, b: ArrayLike<number>): boolean =>
  a.length === b.length && Array.prototype.every.call(a, (x, i) => x === b[i])

/**
 * Returns the pairs of the nodes `chosen` and `rejected`. Throws RangeError for a pair with
 * different prompts.
 */
const pairRows = (batch: TensorDict): PreferenceRows => {
  const sides = { chosen: find(batch, 'chosen') as TensorDict, rejected: find(batch, 'rejected') as TensorDict } // checked by `requireEntries`
  const both = <T>(read: (side: TensorDict) => T): Preference<T> => ({
    chosen: read(sides.chosen),
    rejected: read(sides.rejected),
  })
  const prompts = both((side) => batchRowsAt(side, 'tokens.prompt'))
  const differs = prompts.chosen.findIndex((row, i) => !sameRow(row, prompts.rejected[i]!))
  if (differs >= 0) throw new RangeError(`localLearner: the completions of pair ${differs} have different prompts`)
  const responses = both((side) => batchRowsAt(side, 'tokens.response'))
  const masks = both(lossMasks)
  const reference = both((side) => findRows(side, 'refLogProbs.response'))
  const ones = (rows: readonly ArrayLike<number>[]) => rows.map((row) => Array.from(row, () => 1))
  return {
    prompts: prompts.chosen,
    ...responses,
    ...((masks.chosen !== undefined || masks.rejected !== undefined) && {
      masks: {
        chosen: masks.chosen ?? ones(responses.chosen),
        rejected: masks.rejected ?? ones(responses.rejected),
      },
    }),
    ...(reference.chosen !== undefined &&
      reference.rejected !== undefined && {
        refLogProbs: { chosen: reference.chosen, rejected: reference.rejected },
      }),
  }
}

/** Returns the pairs with their margins. */
const rankedRows = (batch: TensorDict): RankedRows => {
  const { prompts, chosen, rejected } = pairRows(batch)
  const margin = find(batch, 'margin')
  return {
    ...{ prompts, chosen, rejected },
    ...(margin instanceof tf.Tensor && { margins: Array.from(margin.dataSync()) }),
  }
}

const PAIRS = ['chosen', 'rejected'].flatMap((side) => COMPLETIONS.map((name) => `${side}.${name}`))

/** Erases the type of a case's measures, which only its own functions read. */
const erased = <R extends AnyRows, K extends string, X, M extends MeasuredLoss>(
  stepCase: StepCase<R, K, X, M>,
  rest: Omit<LossCase<R, M>, 'stepCase' | 'outputs'>,
  outputs: (value: tf.Tensor, measures: X) => Readonly<Record<string, tf.Tensor | undefined>>,
): AnyLossCase => ({ stepCase, outputs, ...rest }) as unknown as AnyLossCase // rows, measures and metrics only meet functions of the same case

const given = { prepare: unprepared, noise: 'no', head: 'none', combine: combineMeans } as const

const reference = (needs: 'yes' | 'no', names: readonly string[]): readonly string[] => (needs === 'yes' ? names : [])

const FROM_REFERENCE = ['next.refLogProbs.response'] as const

const policy = (loss: PolicyLoss, config: DecoderConfig, offPolicy: OffPolicyOptions): AnyLossCase =>
  erased(
    policyCase(config, loss),
    {
      reads: [...POLICY, ...reference(loss.needs.reference, FROM_REFERENCE), ...offPolicyReads(offPolicy)],
      rows: policyRows,
      prepare: preparedRows,
      noise: loss.needs.noise,
      head: 'none',
      combine: combineUpdates,
    },
    (_, { output }) => ({ ...output }),
  )

const ppo = (loss: PPOLoss, config: DecoderConfig, offPolicy: OffPolicyOptions): AnyLossCase => {
  const { reads, noise } = policy(loss.policy, config, offPolicy)
  return erased(
    ppoCase(config, loss),
    {
      reads: [...reads, 'returns', 'values'],
      rows: (batch) => ({
        ...policyRows(batch),
        returns: batchRowsAt(batch, 'returns'),
        oldValues: batchRowsAt(batch, 'values'),
      }),
      prepare: preparedRows,
      noise,
      head: 'value',
      combine: combinePPO,
    },
    (_, measures) => {
      const { valueLoss: lossValue, valueCutFraction } = measures.value
      return { ...measures.policy.output, lossValue, valueCutFraction }
    },
  )
}

const value = (loss: ValueLoss): AnyLossCase =>
  erased(
    valueCase(loss),
    {
      ...given,
      reads: [...COMPLETIONS, 'returns', ...(loss.options.clipEpsilon === undefined ? [] : ['values'])],
      rows: (batch) => {
        const values = findRows(batch, 'values')
        return { ...completions(batch), returns: batchRowsAt(batch, 'returns'), ...(values && { oldValues: values }) }
      },
      head: 'value',
    },
    (_, { valueLoss: lossValue, valueCutFraction }) => ({ lossValue, valueCutFraction }),
  )

const sft = (loss: SFTLoss, config: DecoderConfig): AnyLossCase =>
  erased(
    sftCase(config, loss),
    {
      ...given,
      reads: [...COMPLETIONS, ...reference(loss.needs.reference, FROM_REFERENCE)],
      rows: (batch) => {
        const refLogProbs = findRows(batch, FROM_REFERENCE[0])
        return { ...completions(batch), ...(refLogProbs && { refLogProbs }) }
      },
    },
    (whole, { lossKlToRef, ...measures }) => ({
      ...measures,
      ...(lossKlToRef && { lossKlToRef }),
      lossSft: lossKlToRef === undefined ? whole : tf.sub(whole, lossKlToRef),
    }),
  )

const dpo = (loss: DPOLoss, config: DecoderConfig): AnyLossCase =>
  erased(
    dpoCase(config, loss),
    {
      ...given,
      reads: [
        ...PAIRS,
        ...reference(loss.needs.reference, ['chosen.refLogProbs.response', 'rejected.refLogProbs.response']),
      ],
      rows: pairRows,
    },
    (lossDpo, measures) => ({ lossDpo, ...measures }),
  )

const rewardModel = (loss: RewardModelLoss): AnyLossCase =>
  erased(
    rewardModelCase(loss),
    { ...given, reads: PAIRS, rows: rankedRows, head: 'value' },
    (lossRewardModel, measures) => ({ lossRewardModel, ...measures }),
  )

const distillation = (loss: DistillationLoss, config: DecoderConfig): AnyLossCase =>
  erased(
    distillationCase(config, loss),
    {
      ...given,
      reads: [...COMPLETIONS, 'teacherLogProbs.response'],
      rows: (batch) => ({
        ...completions(batch),
        temperature: temperatureOf(batch),
        teacherLogProbs: batchRowsAt(batch, 'teacherLogProbs.response'),
      }),
    },
    (lossDistillation, measures) => ({ lossDistillation, ...measures }),
  )

/** Returns the case of a loss. */
export const lossCase = (loss: LearnableLoss, config: DecoderConfig, offPolicy: OffPolicyOptions = {}): AnyLossCase => {
  switch (loss.kind) {
    case 'policy':
      return policy(loss, config, offPolicy)
    case 'ppo':
      return ppo(loss, config, offPolicy)
    case 'value':
      return value(loss)
    case 'sft':
      return sft(loss, config)
    case 'dpo':
      return dpo(loss, config)
    case 'rewardModel':
      return rewardModel(loss)
    case 'distillation':
      return distillation(loss, config)
  }
}

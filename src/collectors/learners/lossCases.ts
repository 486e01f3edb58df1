/** For each kind of loss: how its batches become rows, and its training step. */
import { find, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import { combineUpdates } from '../stepMetrics.js'
import { distillationCase } from '../steps/distillationStep.js'
import { dpoCase, type Preference, type PreferenceRows } from '../steps/dpoStep.js'
import type { MeasuredLoss, StepCase } from '../steps/lossStep.js'
import { type PPOMetrics, ppoCase } from '../steps/ppoStep.js'
import { sftCase } from '../steps/sftStep.js'
import { type ValueMetrics, valueCase } from '../steps/valueStep.js'
import { policyCase } from '../trainStep.js'
import { findRows, lossMasks, rowsAt, temperatureOf } from './batchEntries.js'
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

/** What a learner needs to know of its loss. */
export interface LossCase<R extends AnyRows, M extends MeasuredLoss> {
  readonly stepCase: StepCase<R, string, unknown, M>
  /** Dotted names of the entries that every batch must have. */
  readonly reads: readonly string[]
  readonly rows: (batch: TensorDict) => R
  readonly prepare: (batch: TensorDict, rows: R, preparation: Preparation) => PreparedRows<R>
  /** Whether the loss chooses tokens at random. */
  readonly noise: 'yes' | 'no'
  /** Whether the model has a value head, which is trained with it. */
  readonly head: 'value' | 'none'
  /** The metrics of several steps as those of one. */
  readonly combine: (steps: readonly M[]) => M
}

/** A case of which only the learner's own functions know the rows and metrics. */
export type AnyLossCase = LossCase<AnyRows, MeasuredLoss>

/** Means over the steps, and sums of `tokens`. A metric that is null in some step is the mean of the others. */
const combineMeans = <M extends MeasuredLoss>(steps: readonly M[]): M => {
  const [first, ...more] = steps
  if (first === undefined) throw new RangeError('localLearner: there are no rows to learn from')
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

/** Those of the policy, and means of what the value function measures. */
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
  prompts: rowsAt(batch, 'tokens.prompt'),
  completions: rowsAt(batch, 'tokens.response'),
  ...masksOf(batch),
})

const COMPLETIONS = ['tokens.prompt', 'tokens.response'] as const
const POLICY = [...COMPLETIONS, 'logProbs.response', 'advantage'] as const

const sameRow = (a: ArrayLike<number>, b: ArrayLike<number>): boolean =>
  a.length === b.length && Array.prototype.every.call(a, (x, i) => x === b[i])

/** Pairs from the nodes `chosen` and `rejected`. Errors: throws RangeError for a pair with two prompts. */
const pairRows = (batch: TensorDict): PreferenceRows => {
  const sides = { chosen: find(batch, 'chosen') as TensorDict, rejected: find(batch, 'rejected') as TensorDict } // checked by `requireEntries`
  const both = <T>(read: (side: TensorDict) => T): Preference<T> => ({
    chosen: read(sides.chosen),
    rejected: read(sides.rejected),
  })
  const prompts = both((side) => rowsAt(side, 'tokens.prompt'))
  const differs = prompts.chosen.findIndex((row, i) => !sameRow(row, prompts.rejected[i]!))
  if (differs >= 0) throw new RangeError(`localLearner: the completions of pair ${differs} have different prompts`)
  const responses = both((side) => rowsAt(side, 'tokens.response'))
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

const PAIRS = ['chosen', 'rejected'].flatMap((side) => COMPLETIONS.map((name) => `${side}.${name}`))

/** A case whose measures nobody but its own functions reads. */
const erased = <R extends AnyRows, K extends string, X, M extends MeasuredLoss>(
  stepCase: StepCase<R, K, X, M>,
  rest: Omit<LossCase<R, M>, 'stepCase'>,
): AnyLossCase => ({ stepCase, ...rest }) as unknown as AnyLossCase // rows, measures and metrics only meet functions of the same case

const given = { prepare: unprepared, noise: 'no', head: 'none', combine: combineMeans } as const

const reference = (needs: 'yes' | 'no', names: readonly string[]): readonly string[] => (needs === 'yes' ? names : [])

/** The case of a loss. */
export const lossCase = (loss: LearnableLoss, config: DecoderConfig, offPolicy: OffPolicyOptions = {}): AnyLossCase => {
  const fromReference = ['next.refLogProbs.response']
  switch (loss.kind) {
    case 'policy':
      return erased(policyCase(config, loss), {
        reads: [...POLICY, ...reference(loss.needs.reference, fromReference), ...offPolicyReads(offPolicy)],
        rows: policyRows,
        prepare: preparedRows,
        noise: loss.needs.noise,
        head: 'none',
        combine: combineUpdates,
      })
    case 'ppo': {
      const { policy } = loss
      return erased(ppoCase(config, loss), {
        reads: [
          ...POLICY,
          ...['returns', 'values'],
          ...reference(policy.needs.reference, fromReference),
          ...offPolicyReads(offPolicy),
        ],
        rows: (batch) => ({
          ...policyRows(batch),
          returns: rowsAt(batch, 'returns'),
          oldValues: rowsAt(batch, 'values'),
        }),
        prepare: preparedRows,
        noise: policy.needs.noise,
        head: 'value',
        combine: combinePPO,
      })
    }
    case 'value':
      return erased(valueCase(loss), {
        ...given,
        reads: [...COMPLETIONS, 'returns', ...(loss.options.clipEpsilon === undefined ? [] : ['values'])],
        rows: (batch) => {
          const values = findRows(batch, 'values')
          return { ...completions(batch), returns: rowsAt(batch, 'returns'), ...(values && { oldValues: values }) }
        },
        head: 'value',
      })
    case 'sft':
      return erased(sftCase(config, loss), {
        ...given,
        reads: [...COMPLETIONS, ...reference(loss.needs.reference, fromReference)],
        rows: (batch) => {
          const refLogProbs = findRows(batch, 'next.refLogProbs.response')
          return { ...completions(batch), ...(refLogProbs && { refLogProbs }) }
        },
      })
    case 'dpo':
      return erased(dpoCase(config, loss), {
        ...given,
        reads: [
          ...PAIRS,
          ...reference(loss.needs.reference, ['chosen.refLogProbs.response', 'rejected.refLogProbs.response']),
        ],
        rows: pairRows,
      })
    case 'distillation':
      return erased(distillationCase(config, loss), {
        ...given,
        reads: [...COMPLETIONS, 'teacherLogProbs.response'],
        rows: (batch) => ({
          ...completions(batch),
          temperature: temperatureOf(batch),
          teacherLogProbs: rowsAt(batch, 'teacherLogProbs.response'),
        }),
      })
  }
}

import { checkOptions, refuse } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type RewardKLForm, rewardKL } from '../../data/rewardKL.js'
import { raggedSpec, type Spec, tensorSpec } from '../../data/spec.js'
import { type Ragged, ragged, raggedRow, raggedRows, rowLengths } from '../../data/tensorDict/leaf.js'
import { find, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { addReward, type EnvFailure, endedRows, envFailure, type StepBetween } from '../base/env.js'
import { KL_COMPUTATION_OPTIONS } from '../optionKinds.js'
import { type Transform, transform } from './transform.js'

/**
 * The form in which the divergence is stored: one number for each token of the completion, or their
 * sum for each completion.
 */
export type KLShape = 'tokens' | 'sum'

/** The divergence of the step's completions, in nats. */
export type KLPenalty<H extends KLShape> = {
  readonly klPenalty: H extends 'sum' ? tf.Tensor : Ragged<'float32'>
}

/** Options of a divergence. */
export interface KLPenaltyOptions<H extends KLShape = KLShape> {
  /** Default k1. */
  readonly form?: RewardKLForm
  /**
   * Reward units per nat: a number, or the name of an entry of the state, with a number for each
   * element (`[B]`) or one for all (Meta). Default 1.
   */
  readonly coefficient?: number | { readonly entry: string }
  /** Subtract the penalty from the reward, or only store it. Default subtract. */
  readonly reward?: 'subtract' | 'keep'
  /** Default tokens. */
  readonly shape?: H
}

export interface KLComputationOptions<H extends KLShape = KLShape> extends KLPenaltyOptions<H> {
  /** The entry with the policy's numbers. Default: those that the action has from sampling. */
  readonly policy?: string
  /** The entry with the reference's. Default refLogProbs. */
  readonly reference?: string
}

const NAME = 'KLComputation'

type Result<T> = E.Either<EnvFailure, T>

/** Throws RangeError for a coefficient that is not finite. */
export const checkKL = (name: string, { coefficient = 1 }: KLPenaltyOptions): void =>
  refuse(name, [
    typeof coefficient === 'number' &&
      !Number.isFinite(coefficient) &&
      `coefficient must be a finite number, got ${coefficient}`,
  ])

export const klSpec = (shape: KLShape): Spec => ({
  klPenalty: shape === 'sum' ? tensorSpec('float32') : raggedSpec('float32'),
})

/** Returns the penalty of a state before the first step: zero. */
export const noPenalty = <H extends KLShape>(
  { batchShape: [size = 0] }: TensorDict,
  shape: H,
): TensorDict<KLPenalty<H>> =>
  scope(() => {
    const rows = Array.from({ length: size }, () => [])
    const klPenalty = shape === 'sum' ? tf.zeros([size]) : ragged('float32', rows)
    return TensorDict({ klPenalty }, [size]) as unknown as TensorDict<KLPenalty<H>> // in the form of `shape`
  })

const raggedAt = (td: TensorDict, path: readonly string[]): Ragged<'float32'> | undefined => {
  const entry = find(td, path)
  // The cast is right: rows of numbers of any type read as numbers.
  return entry !== undefined && '_tag' in entry && entry._tag === 'Ragged' ? (entry as Ragged<'float32'>) : undefined
}

/**
 * Returns one coefficient for each element. `Left(EnvFailure)` if the entry with the coefficients
 * is missing.
 */
export const coefficientsOf = (
  name: string,
  { coefficient = 1 }: KLPenaltyOptions,
  previous: TensorDict,
): Result<readonly number[]> => {
  const size = previous.batchShape[0] ?? 0
  if (typeof coefficient === 'number') return E.right(Array.from({ length: size }, () => coefficient))
  const entry = find(previous, [coefficient.entry])
  const reported: readonly unknown[] =
    entry instanceof tf.Tensor
      ? Array.from(entry.dataSync())
      : entry !== undefined && '_tag' in entry && entry._tag === 'Meta'
        ? Array.from({ length: size }, () => entry.value)
        : []
  const each = reported.filter((x) => typeof x === 'number' && Number.isFinite(x)) as readonly number[] // filtered to be so
  return each.length === size
    ? E.right(each)
    : E.left(envFailure(name, `the state's ${coefficient.entry} is no finite number, or not one for each of ${size}`))
}

/** The log-probabilities and coefficients of a step. */
interface Compared {
  readonly policy: Ragged<'float32'>
  readonly reference: Ragged<'float32'>
  readonly coefficients: readonly number[]
}

/** Returns the divergence of each token, or the first error in the numbers. */
const divergences = (
  name: string,
  { policy, reference }: Compared,
  form: RewardKLForm,
): Result<readonly (readonly number[])[]> => {
  const [ours, theirs] = [rowLengths(policy).join(', '), rowLengths(reference).join(', ')]
  if (ours !== theirs) {
    return E.left(envFailure(name, `the policy has rows of [${ours}] numbers, the reference rows of [${theirs}]`))
  }
  const rows = raggedRows(policy).map((row, i) => {
    const expected = raggedRow(reference, i)
    return row.map((x, t) => Math.fround(rewardKL(form, x - expected[t]!)))
  })
  const at = rows.findIndex((row) => row.some((x) => !Number.isFinite(x)))
  if (at < 0) return E.right(rows)
  const t = rows[at]!.findIndex((x) => !Number.isFinite(x))
  const [x, y] = [raggedRow(policy, at)[t], raggedRow(reference, at)[t]]
  const reason = `the divergence ${form} of token ${t} of completion ${at} is no number: the policy has ${x}, the reference ${y}`
  return E.left(envFailure(name, reason))
}

/**
 * Computes the KL divergence of a step, and the reward reduced by it if configured. Internal to
 * this folder.
 *
 * Errors   `Left(EnvFailure)` as in `KLComputation`.
 */
export const penalized = <H extends KLShape>(
  name: string,
  step: StepBetween,
  { compared, options }: { readonly compared: Compared; readonly options: KLPenaltyOptions<H> & { readonly shape: H } },
): Result<TensorDict<KLPenalty<H>>> => {
  const { form = 'k1', reward = 'subtract', shape } = options
  const over = endedRows(step.previous, 'done')
  const measured = divergences(name, compared, form)
  if (E.isLeft(measured)) return measured
  const rows = measured.right.map((row, i) => (over[i] === true ? row.map(() => 0) : row))
  const sums = rows.map((row) => row.reduce((sum, x) => sum + x, 0))
  const costs = sums.map((sum, i) => Math.fround(-compared.coefficients[i]! * sum))
  const infinite = costs.findIndex((x) => !Number.isFinite(x))
  if (infinite >= 0) {
    const reason = `completion ${infinite} would cost ${-costs[infinite]!}: its ${form} divergence is ${sums[infinite]} nats`
    return E.left(envFailure(name, `${reason}; k3-limited has bounds`))
  }
  return E.right(
    scope(() => {
      const klPenalty = shape === 'sum' ? tf.tensor1d(sums, 'float32') : ragged('float32', rows)
      const entries = { klPenalty, ...(reward === 'subtract' && { reward: addReward(step, costs) }) }
      return TensorDict(entries, step.next.batchShape) as unknown as TensorDict<KLPenalty<H>> // in the form of `shape`
    }),
  )
}

/** Returns the log-probabilities from sampling. `Left(EnvFailure)` if the action has none. */
export const collectedLogProbs = (name: string, action: TensorDict): Result<Ragged<'float32'>> => {
  const rows = raggedAt(action, ['logProbs', 'response'])
  const reason = 'the action has no logProbs.response: a policy that does not tell them has to be scored by a model'
  return rows === undefined ? E.left(envFailure(name, reason)) : E.right(rows)
}

const entryRows = (name: string, next: TensorDict, entry: string): Result<Ragged<'float32'>> => {
  const rows = raggedAt(next, [entry, 'response'])
  return rows === undefined ? E.left(envFailure(name, `the state has no ${entry}.response`)) : E.right(rows)
}

/**
 * Computes the KL divergence of the policy from a reference, from existing log-probabilities: those
 * of the action, and those stored by `RetrieveLogProb`.
 *
 * Equation $k_t = k(\log \pi(x_t) - \log q(x_t))$, $r \leftarrow r - \beta \sum_t k_t$
 * Shapes   `klPenalty` is ragged, as long as the completion, or `[B]`; the reward `[B]`.
 * Errors   `Left(EnvFailure)` if numbers are missing, differ in length or are not finite, or if the
 *          penalty exceeds float32. Throws RangeError for an unknown form or an invalid
 *          coefficient.
 * Source   TorchRL `KLComputation`, which supports only k1, subtracts from every token's reward,
 *          and treats missing numbers as 0.
 *
 * @example
 * KLComputation({ form: 'k3', reward: 'keep', shape: 'sum' }).name // 'KLComputation'
 */
export const KLComputation = <H extends KLShape = 'tokens'>(
  options: KLComputationOptions<H> = {},
): Transform<null, unknown, KLPenalty<H>> => {
  checkOptions('KLComputation', options, KL_COMPUTATION_OPTIONS)
  const { policy, reference = 'refLogProbs' } = options
  checkKL(NAME, options)
  const shape = options.shape ?? ('tokens' as H) // the default of H
  const needed = [reference, ...(policy === undefined ? [] : [policy])]
  return transform<null, unknown, KLPenalty<H>>({
    name: NAME,
    initial: null,
    needs: {
      observation: Object.fromEntries(needed.map((entry) => [entry, { response: raggedSpec('float32') }])),
      action: {},
    },
    adds: klSpec(shape),
    reset: (td) => TE.right([noPenalty(td, shape), null]),
    step: (next, { previous, action }) =>
      pipe(
        E.Do,
        E.apS('coefficients', coefficientsOf(NAME, options, previous)),
        E.apS('policy', policy === undefined ? collectedLogProbs(NAME, action) : entryRows(NAME, next, policy)),
        E.apS('reference', entryRows(NAME, next, reference)),
        E.chain((compared) => penalized(NAME, { previous, next }, { compared, options: { ...options, shape } })),
        E.map((td) => [td, null] as const),
        TE.fromEither,
      ),
  })
}

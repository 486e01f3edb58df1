import * as tf from '@tensorflow/tfjs'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { LogProbModel, TokenAction, TokenPrompt } from '../../data/policy.js'
import { type RewardKLForm, rewardKL } from '../../data/rewardKL.js'
import { raggedSpec } from '../../data/spec.js'
import { type Ragged, ragged, raggedRow, rowLengths } from '../../data/tensorDict/leaf.js'
import { find, get, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { scope } from '../../engine/scope.js'
import { type EnvFailure, envFailure } from '../env.js'
import { type Transform, transform } from './transform.js'

/** Per token of the completion, in nats: the reference's log-probabilities, and the estimate of the KL divergence. */
export type KLEntries = {
  readonly refLogProbs: TensorDict<{ readonly response: Ragged<'float32'> }>
  readonly klPenalty: Ragged<'float32'>
}

export interface KLRewardTransformOptions {
  readonly reference: LogProbModel
  /** Reward units per nat. Default 1. */
  readonly coefficient?: number
  /** Default k1. */
  readonly form?: RewardKLForm
}

/**
 * Subtracts the divergence from a reference model from the reward.
 *
 * `reward <- reward - coefficient * sum_t k(log pi(x_t) - log pi_ref(x_t))`: the estimate of the form, by default k1 with
 * `k(d) = d`, summed over the completion, of the sampled log-probabilities against the reference's. Per token it is kept in `klPenalty`, and the reference's numbers in
 * `refLogProbs.response`.
 *
 * Shapes   reward `[B]`; ragged rows as long as `tokens.response`.
 * Errors   `Left(EnvFailure)` if the action lacks token ids or log-probabilities, or if the reference fails.
 * Source   TorchRL `KLRewardTransform`, in tokens mode.
 */
export const KLRewardTransform = (options: KLRewardTransformOptions): Transform<null, TokenPrompt, KLEntries> => {
  const { reference, coefficient = 1, form = 'k1' } = options
  return transform<null, TokenPrompt, KLEntries>({
    name: 'KLRewardTransform',
    initial: null,
    needs: { observation: { tokens: { prompt: raggedSpec('int32') } }, action: {} },
    adds: { refLogProbs: { response: raggedSpec('float32') }, klPenalty: raggedSpec('float32') },
    reset: (td) => {
      const [size = 0] = td.batchShape
      const none = ragged(
        'float32',
        Array.from({ length: size }, () => []),
      )
      return TE.right([TensorDict({ refLogProbs: { response: none }, klPenalty: none }, td.batchShape), null])
    },
    step: (next, { previous, action }): TE.TaskEither<EnvFailure, readonly [TensorDict<KLEntries>, null]> => {
      if (find(action, ['tokens', 'response']) === undefined || find(action, ['logProbs', 'response']) === undefined) {
        return TE.left(envFailure('KLRewardTransform', 'the action has no tokens.response with logProbs.response'))
      }
      const acted = action as TensorDict<TokenAction> // checked: it has what is read below
      const completions = get(acted, 'tokens', 'response')
      const sampled = get(acted, 'logProbs', 'response')
      const temperature = get(acted, 'sampling').items.first()?.temperature ?? 1
      const prompts = get(previous as TensorDict<TokenPrompt>, 'tokens', 'prompt') // needed of the state
      return pipe(
        reference.score(prompts, completions, temperature === 0 ? 1 : temperature),
        TE.mapLeft((failure) =>
          envFailure('KLRewardTransform', `the reference model failed: ${failure.reason}`, failure),
        ),
        TE.filterOrElse(
          (scores) => rowLengths(scores).join() === rowLengths(completions).join(),
          (scores) =>
            envFailure(
              'KLRewardTransform',
              `the reference ${reference.name} answered with rows of [${rowLengths(scores).join(', ')}] tokens for completions of [${rowLengths(completions).join(', ')}]`,
            ),
        ),
        TE.map((scores) => [penalized(next, { sampled, reference: scores }, { coefficient, form }), null] as const),
      )
    },
  })
}

const penalized = (
  next: TensorDict,
  { sampled, reference }: Readonly<Record<'sampled' | 'reference', Ragged<'float32'>>>,
  { coefficient, form }: Required<Pick<KLRewardTransformOptions, 'coefficient' | 'form'>>,
): TensorDict<KLEntries> => {
  const rows = Array.from({ length: sampled.offsets.length - 1 }, (_, i) => {
    const expected = raggedRow(reference, i)
    return raggedRow(sampled, i).map((logProb, t) => rewardKL(form, logProb - expected[t]!))
  })
  const sums = rows.map((row) => row.reduce((sum, x) => sum + x, 0))
  return scope(() => {
    const given = find(next, ['reward'])
    const penalty = tf.tensor1d(
      sums.map((sum) => -coefficient * sum),
      'float32',
    )
    const reward = given instanceof tf.Tensor ? tf.add(given, penalty) : penalty
    return TensorDict(
      { reward, refLogProbs: { response: reference }, klPenalty: ragged('float32', rows) },
      next.batchShape,
    )
  })
}

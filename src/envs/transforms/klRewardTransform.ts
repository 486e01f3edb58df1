import { checkOptions } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { LogProbModel } from '../../data/policy.js'
import type { Ragged } from '../../data/tensorDict/leaf.js'
import { merge } from '../../data/tensorDict/merge.js'
import { get, TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { EnvFailure } from '../base/env.js'
import { KL_REWARD_TRANSFORM_OPTIONS, RETRIEVE_KL_OPTIONS } from '../optionKinds.js'
import {
  checkKL,
  coefficientsOf,
  collectedLogProbs,
  type KLPenalty,
  type KLPenaltyOptions,
  type KLShape,
  klSpec,
  noPenalty,
  penalized,
} from './klComputation.js'
import {
  type LogProbEntries,
  type LogProbRows,
  logProbSpec,
  noLogProbs,
  type RetrieveLogProbOptions,
  retrieveLogProbs,
  scoringOf,
} from './retrieveLogProb.js'
import { type PromptOf, promptSpec, type ScoreInput, type TokensInput } from './scoreInput.js'
import { type StepContext, type Transform, transform } from './transform.js'

/**
 * The reference's log-probabilities of what was sampled, and the estimate of the divergence. In
 * nats.
 */
export type KLEntries<I extends ScoreInput = TokensInput, H extends KLShape = 'tokens'> = LogProbEntries<
  'refLogProbs',
  I
> &
  KLPenalty<H>

export interface KLRewardTransformOptions<I extends ScoreInput = ScoreInput, H extends KLShape = KLShape>
  extends KLPenaltyOptions<H>,
    Omit<RetrieveLogProbOptions<'refLogProbs', I>, 'model' | 'as'> {
  readonly reference: LogProbModel
}

export interface RetrieveKLOptions<I extends ScoreInput = ScoreInput, H extends KLShape = KLShape>
  extends KLRewardTransformOptions<I, H> {
  /**
   * Scores the policy's samples again, for policies that do not report
   * log-probabilities. Default those of the action.
   */
  readonly policy?: LogProbModel
}

type Entries<I extends ScoreInput, H extends KLShape> = TensorDict<KLEntries<I, H>>

const klTransform = <I extends ScoreInput, H extends KLShape>(
  name: string,
  options: RetrieveKLOptions<I, H>,
): Transform<null, PromptOf<I>, KLEntries<I, H>> => {
  const { reference, policy } = options
  const scoring = scoringOf(name, options)
  const { input } = scoring
  checkKL(name, options)
  const shape: H = options.shape ?? ('tokens' as H) // the default of H
  const scored = (model: LogProbModel, context: StepContext): TE.TaskEither<EnvFailure, TensorDict<LogProbRows<I>>> =>
    retrieveLogProbs(name, { ...scoring, model }, context)
  // The cast is right: rows of any input have a response.
  const responseOf = (rows: TensorDict): Ragged<'float32'> =>
    get(rows as TensorDict<LogProbRows<TokensInput>>, 'response')
  const own = (context: StepContext): TE.TaskEither<EnvFailure, Ragged<'float32'>> =>
    policy === undefined
      ? TE.fromEither(collectedLogProbs(name, context.action))
      : pipe(scored(policy, context), TE.map(responseOf))
  return transform<null, PromptOf<I>, KLEntries<I, H>>({
    name,
    initial: null,
    needs: { observation: promptSpec(input), action: {} },
    adds: { refLogProbs: logProbSpec(input), ...klSpec(shape) },
    reset: (td) => {
      const none = TensorDict({ refLogProbs: noLogProbs(td, input) }, td.batchShape)
      return TE.right([merge(none, noPenalty(td, shape)) as unknown as Entries<I, H>, null]) // as I and H say
    },
    step: (next, context) =>
      pipe(
        TE.Do,
        TE.apS('coefficients', TE.fromEither(coefficientsOf(name, options, context.previous))),
        TE.bind('ours', () => own(context)),
        TE.bind('refLogProbs', () => scored(reference, context)),
        TE.chainEitherK(({ coefficients, ours, refLogProbs }) => {
          const compared = { policy: ours, reference: responseOf(refLogProbs), coefficients }
          const kept = TensorDict({ refLogProbs }, next.batchShape)
          return pipe(
            penalized(name, { previous: context.previous, next }, { compared, options: { ...options, shape } }),
            E.map((td) => [merge(kept, td) as unknown as Entries<I, H>, null] as const), // as I and H say
          )
        }),
      ),
  })
}

/**
 * Asks a reference model about what the policy sampled, and subtracts the divergence from the
 * reward.
 *
 * The estimate of each token is in `klPenalty`, the reference's numbers in `refLogProbs`. Each
 * step pays for its own completion: the rewards of an episode pay for every sampled token once, and
 * for no other. A coefficient that changes, by a controller, is an argument of the environment of
 * the next batch, or an entry of the state.
 *
 * Equation $r \leftarrow r - \beta \sum_t k(\log \pi(x_t) - \log q(x_t))$, by default with
 *          $k(d) = d$
 * Shapes   reward `[B]`; ragged rows as long as the completion, `klPenalty` `[B]` with shape sum.
 * Errors   `Left(EnvFailure)` as `RetrieveLogProb` and `KLComputation` say, and if the action does
 *          not contain log-probabilities. Throws RangeError as they do.
 * Source   TorchRL `KLRewardTransform`, which reads tokens alone.
 *
 * @example
 * KLRewardTransform({ reference: { name: 'one nat', score: (_, rows) => TE.right(filledRows(rows, 'float32', -1)) } }).name // 'KLRewardTransform'
 */
export const KLRewardTransform = <I extends ScoreInput = TokensInput, H extends KLShape = 'tokens'>(
  options: KLRewardTransformOptions<I, H>,
): Transform<null, PromptOf<I>, KLEntries<I, H>> => {
  checkOptions('KLRewardTransform', options, KL_REWARD_TRANSFORM_OPTIONS)
  return klTransform('KLRewardTransform', options)
}

/**
 * `RetrieveLogProb` of a reference, and of the policy if it is given as a model, with
 * `KLComputation` of the two.
 *
 * Without `policy` it is `KLRewardTransform`: the numbers of sampling are the policy's own, and
 * scoring them again costs a run of the model.
 *
 * Errors   `Left(EnvFailure)` as `RetrieveLogProb` and `KLComputation` say. Throws RangeError as
 *          they do.
 * Source   TorchRL `RetrieveKL`, with `gen_model` as `policy`; its `from_collector` is the default.
 *
 * @example
 * RetrieveKL({ reference: { name: 'one nat', score: (_, rows) => TE.right(filledRows(rows, 'float32', -1)) }, reward: 'keep' }).name // 'RetrieveKL'
 */
export const RetrieveKL = <I extends ScoreInput = TokensInput, H extends KLShape = 'tokens'>(
  options: RetrieveKLOptions<I, H>,
): Transform<null, PromptOf<I>, KLEntries<I, H>> => {
  checkOptions('RetrieveKL', options, RETRIEVE_KL_OPTIONS)
  return klTransform('RetrieveKL', options)
}

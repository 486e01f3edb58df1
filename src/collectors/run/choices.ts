/** What settings choose: the parts that a run is made of. Where they leave something to the algorithm, its own choice counts. */

import { refuse } from '../../core/options.js'
import { constant, cosine, linear, type Schedule, warmUp } from '../../core/schedule.js'
import { REWARD_KL_FORMS, type RewardKLForm } from '../../data/rewardKL.js'
import { checkOverlong, type OverlongOptions } from '../../envs/rewards/overlong.js'
import { ALGORITHMS, algorithmLoss } from '../../objectives/algorithms.js'
import { adaptiveKLController, constantKLController, type KLController } from '../../objectives/klControl.js'
import type { PolicyLoss } from '../../objectives/policyLoss.js'
import {
  type CorrectionWeights,
  type RolloutCorrectionOptions,
  rolloutCorrection,
} from '../../objectives/rolloutCorrection.js'
import type { NamedPolicyLoss } from '../parallel/policyStepCase.js'
import type { RunSettings } from './settingsSchema.js'

/** The loss of settings, by its name. */
export const namedLossOf = (settings: RunSettings): Omit<NamedPolicyLoss, 'config'> => {
  const { algorithm, clipLow, clipHigh, maxNewTokens, klIn, klForm, klCoefficient } = settings
  return {
    algorithm,
    options: {
      ...{ clipLow, clipHigh, longest: maxNewTokens },
      ...(klIn === 'loss' && { kl: { to: 'reference', form: klForm ?? 'k3', coefficient: klCoefficient } }),
    },
  }
}

/** The loss of settings. Errors: throws RangeError for a clip range that the algorithm cannot have. */
export const lossOf = (settings: RunSettings): PolicyLoss => {
  const { algorithm, options } = namedLossOf(settings)
  return algorithmLoss(algorithm, options)
}

/**
 * The form of the divergence in the reward, or of the one that is measured where the divergence is in the loss. Errors: throws RangeError for
 * a form that only a gradient tells from another.
 */
export const rewardFormOf = ({ klIn, klForm }: Pick<RunSettings, 'klIn' | 'klForm'>): RewardKLForm => {
  if (klIn === 'loss' || klForm === null) return 'k1'
  const found = REWARD_KL_FORMS.find((form) => form === klForm)
  if (found === undefined)
    throw new RangeError(
      `a reward has no gradient: its divergence is ${REWARD_KL_FORMS.join(', ')}; give klForm ${klForm} with klIn loss`,
    )
  return found
}

/**
 * What the weight of the divergence in the reward becomes, from a weight on. Errors: throws RangeError for a target that nothing follows, with all
 * reasons.
 */
export const klControllerOf = (
  { klIn, klTarget, klHorizon }: Pick<RunSettings, 'klIn' | 'klTarget' | 'klHorizon'>,
  coefficient: number,
): KLController => {
  const isAdaptive = klTarget !== null
  refuse('klTarget', [
    isAdaptive !== (klHorizon !== null) && 'klTarget and klHorizon go together: give both or neither',
    isAdaptive && klIn === 'loss' && 'the weight that follows a target is that in the reward: give klIn reward',
    isAdaptive && coefficient === 0 && 'a weight of 0 stays 0: give klCoefficient',
  ])
  return klTarget === null || klHorizon === null
    ? constantKLController(coefficient)
    : adaptiveKLController({ initial: coefficient, target: klTarget, horizon: klHorizon })
}

/** How often is sampled for one batch at most. */
export const samplingRoundsOf = ({
  algorithm,
  dynamicSampling,
}: Pick<RunSettings, 'algorithm' | 'dynamicSampling'>): number =>
  dynamicSampling ?? ALGORITHMS[algorithm].samplingRounds ?? 1

/** The soft end of completions; null if their length costs nothing. Errors: throws RangeError for a cache that is longer than a completion may be. */
export const overlongOf = ({
  algorithm,
  maxNewTokens,
  overlongCache,
  overlongFactor,
}: Pick<RunSettings, 'algorithm' | 'maxNewTokens' | 'overlongCache' | 'overlongFactor'>): OverlongOptions | null => {
  const cache = overlongCache ?? Math.round((ALGORITHMS[algorithm].overlongShare ?? 0) * maxNewTokens)
  if (cache === 0) return null
  const options = { longest: maxNewTokens, cache, factor: overlongFactor }
  checkOverlong('overlongCache', options)
  return options
}

/** Limits of the weights where nobody gives any: verl's truncation, and the range of IcePop. */
const LIMITS = { truncated: 2, masked: [0.5, 5] } as const

type CorrectionSettings = Pick<
  RunSettings,
  'correction' | 'correctionLow' | 'correctionHigh' | 'rejection' | 'rejectionLimit' | 'oldLogProbs'
>

const weightsOf = ({
  correction,
  correctionLow,
  correctionHigh,
}: CorrectionSettings): CorrectionWeights | undefined => {
  if (correction === 'none') return undefined
  const [level, kind] = correction.split('-') as ['token' | 'sequence', keyof typeof LIMITS] // as the names are made
  if (kind === 'truncated') return { level, limit: correctionHigh ?? LIMITS.truncated }
  const [low, high] = LIMITS.masked
  return { level, limit: [correctionLow ?? low, correctionHigh ?? high] }
}

/** Limits that nobody would look at, and log-probabilities that are not there. */
const unread = (settings: CorrectionSettings): readonly string[] => {
  const { correction, correctionLow, correctionHigh, rejection, rejectionLimit, oldLogProbs } = settings
  return [
    ...(correctionLow !== null && !correction.endsWith('masked')
      ? [`correction ${correction} has no lower limit`]
      : []),
    ...(correctionHigh !== null && correction === 'none' ? ['correction none has no limits'] : []),
    ...((rejection === 'none') !== (rejectionLimit === null)
      ? ['rejection and rejectionLimit go together: give both or neither']
      : []),
    ...(oldLogProbs === 'sampled' && (correction !== 'none' || rejection !== 'none')
      ? ['a correction compares the sampler with the trainer: it needs oldLogProbs rescored']
      : []),
  ]
}

/** How tokens are corrected that another policy sampled; null if they are not. Errors: throws RangeError for limits that make no sense, all of them. */
export const correctionOf = (settings: CorrectionSettings): RolloutCorrectionOptions | null => {
  const problems = unread(settings)
  if (problems.length > 0) throw new RangeError(problems.join('; '))
  const { rejection, rejectionLimit } = settings
  const weights = weightsOf(settings)
  if (weights === undefined && rejection === 'none') return null
  const options: RolloutCorrectionOptions = {
    ...(weights && { weights }),
    ...(rejection !== 'none' &&
      rejectionLimit !== null && { reject: [{ statistic: rejection, limit: rejectionLimit }] }),
  }
  rolloutCorrection([], [], options) // throws for limits that make no sense
  return options
}

/** The learning rate by step. Errors: throws RangeError for a warm-up that is as long as the run. */
export const scheduleOf = ({
  schedule,
  warmup,
  learningRate,
  steps,
}: Pick<RunSettings, 'schedule' | 'warmup' | 'learningRate' | 'steps'>): Schedule => {
  if (schedule !== 'constant' && warmup >= steps)
    throw new RangeError(`a warm-up of ${warmup} steps leaves nothing of ${steps} steps for the schedule ${schedule}`)
  const falling = { linear, cosine }
  const after = schedule === 'constant' ? constant(learningRate) : falling[schedule](learningRate, 0, steps - warmup)
  return warmup === 0 ? after : warmUp(warmup, after)
}

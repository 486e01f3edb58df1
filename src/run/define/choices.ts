/** Builds the parts of a run from settings. A setting left open takes the algorithm's default. */
import { constant, cosine, keyFromSeed, linear, refuse, type Schedule, unknownName, warmUp } from '@tandem-rl/base'
import { segmentAdvantage } from '../../collectors/segmentRows.js'
import { REWARD_KL_FORMS, type RewardKLForm } from '../../data/rewardKL.js'
import { checkOverlong, type OverlongOptions } from '../../envs/rewards/overlong.js'
import type { LocalLearnerOptions } from '../../learners/localLearner.js'
import type { OffPolicyOptions } from '../../learners/offPolicy.js'
import type { LoraOptions } from '../../learners/trainable.js'
import type { Pretrained } from '../../modules/pretrained/pretrained.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import type { Advantage } from '../../objectives/advantages/advantage.js'
import { batchAdvantage } from '../../objectives/advantages/batchAdvantage.js'
import type { SegmentRule } from '../../objectives/advantages/segments.js'
import { ALGORITHMS, algorithmLoss } from '../../objectives/algorithms.js'
import { AdaptiveKLController, ConstantKLController } from '../../objectives/klControl.js'
import type { AnyLoss, Loss } from '../../objectives/loss.js'
import type { RolloutEntries } from '../../objectives/lossRows.js'
import type { PolicyLoss } from '../../objectives/policyLoss.js'
import type { CorrectionWeights, RolloutCorrectionOptions } from '../../objectives/rolloutCorrection.js'
import { adafactor } from '../../objectives/updates/adafactor.js'
import { adamW } from '../../objectives/updates/adamW.js'
import { type AnyOptimizer, grouped } from '../../objectives/updates/grouped.js'
import { lion } from '../../objectives/updates/lion.js'
import { muon } from '../../objectives/updates/muon.js'
import { sgd } from '../../objectives/updates/sgd.js'
import { type AlarmLimits, DEFAULT_ALARM_LIMITS } from '../metrics/alarms.js'
import type { PolicySettings } from '../parts/settings.js'
import type { KLWeight } from '../parts/source.js'
import type { TrainOptions } from '../store/options.js'
import { bySize, sizedLines } from './bySize.js'

/** Returns the loss. Throws RangeError if the algorithm does not support the clip range. */
export const lossOf = ({ loss, kl, sampling }: Pick<PolicySettings, 'loss' | 'kl' | 'sampling'>): PolicyLoss =>
  algorithmLoss(loss.algorithm, {
    clipLow: loss.clipLow,
    clipHigh: loss.clipHigh,
    longest: sampling.maxNewTokens,
    ...(kl.in === 'loss' &&
      (kl.coefficient !== 0 || kl.atZero === 'measure') && {
        kl: { to: 'reference', form: kl.form ?? 'k3', coefficient: kl.coefficient },
      }),
  })

/** Algorithms whose advantages are normalized over the whole batch. */
const OVER_BATCH: readonly string[] = ['reinforce++', 'reinforce++-baseline', 'gpg']

/** Throws RangeError for groups of one completion whose advantage would always be 0. */
const checkGroup = (algorithm: string, group: number): void => {
  if (group > 1 || algorithm === 'reinforce++') return
  throw new RangeError(
    `tasks.group: ${algorithm} compares the completions of a task: expected at least 2, got ${group} (reinforce++ compares those of a batch)`,
  )
}

/**
 * Returns the advantage estimator. With `segments`, groups have a member for each segment.
 *
 * Errors   throws RangeError for groups of one, unless the algorithm compares whole batches.
 */
export const advantageOf = (
  { loss, tasks }: Pick<PolicySettings, 'loss' | 'tasks'>,
  segments?: SegmentRule,
): Advantage => {
  checkGroup(loss.algorithm, tasks.group)
  const advantage = batchAdvantage(ALGORITHMS[loss.algorithm].advantage, {
    name: loss.algorithm,
    over: OVER_BATCH.includes(loss.algorithm) ? 'batch' : 'group',
    ...(segments === undefined && { groupSize: tasks.group }),
  })
  return segments === undefined ? advantage : segmentAdvantage(segments, advantage)
}

/**
 * Returns the form of the KL estimate that is computed with the reward. If the KL term is in the
 * loss, the estimate is only measured, in the form `k1`.
 *
 * Errors   throws RangeError for forms that differ from another one only in their gradient.
 */
export const rewardFormOf = ({ kl }: Pick<PolicySettings, 'kl'>): RewardKLForm => {
  if (kl.in === 'loss' || kl.form === null) return 'k1'
  const found = REWARD_KL_FORMS.find((form) => form === kl.form)
  if (found === undefined)
    throw new RangeError(
      `kl.form: a reward has no gradient, so its KL form must be one of ${REWARD_KL_FORMS.join(', ')}; set kl.in to loss to use ${kl.form}`,
    )
  return found
}

/**
 * Returns the KL coefficient of the reward, step by step.
 *
 * Errors   throws RangeError, with all reasons, if the settings do not fit together.
 */
export const klWeightOf = ({ kl }: Pick<PolicySettings, 'kl'>): KLWeight => {
  const { target, horizon, coefficient } = kl
  const isAdaptive = target !== null
  refuse('kl', [
    isAdaptive !== (horizon !== null) && 'target and horizon go together: set both or neither',
    isAdaptive && kl.in === 'loss' && 'a KL target adapts the coefficient in the reward: set kl.in to reward',
    isAdaptive && coefficient === 0 && 'a coefficient of 0 cannot adapt: set kl.coefficient',
  ])
  const controllerFrom = (from: number) =>
    target === null || horizon === null
      ? ConstantKLController(from)
      : AdaptiveKLController({ initial: from, target, horizon })
  return { coefficient, next: (from, divergence, n) => controllerFrom(from).update(divergence, n).coefficient }
}

/** Returns the most sampling rounds for one batch. */
export const samplingRoundsOf = ({ loss, sampling }: Pick<PolicySettings, 'loss' | 'sampling'>): number =>
  sampling.dynamicSampling ?? ALGORITHMS[loss.algorithm].samplingRounds ?? 1

/**
 * Returns the soft length penalty, or `null` if length is not penalized.
 *
 * Errors   throws RangeError if the penalized range is longer than the longest completion.
 */
export const overlongOf = ({ loss, sampling }: Pick<PolicySettings, 'loss' | 'sampling'>): OverlongOptions | null => {
  const { overlongCache, overlongFactor: factor, maxNewTokens: longest } = sampling
  const cache = overlongCache ?? Math.round((ALGORITHMS[loss.algorithm].overlongShare ?? 0) * longest)
  if (cache === 0) return null
  const options = { longest, cache, factor }
  checkOverlong('sampling.overlongCache', options)
  return options
}

/** Default limits of the weights: verl's truncation, and IcePop's range. */
const LIMITS = { truncated: 2, masked: [0.5, 5] } as const

type Correction = PolicySettings['offPolicy']

const weightsOf = ({ correction, correctionLow, correctionHigh }: Correction): CorrectionWeights | undefined => {
  if (correction === 'none') return undefined
  const [level, kind] = correction.split('-') as ['token' | 'sequence', keyof typeof LIMITS] // as the names are made
  if (kind === 'truncated') return { level, limit: correctionHigh ?? LIMITS.truncated }
  const [low, high] = LIMITS.masked
  return { level, limit: [correctionLow ?? low, correctionHigh ?? high] }
}

const correctionOf = (settings: Correction): RolloutCorrectionOptions | undefined => {
  const { correction, correctionLow, correctionHigh, rejection, rejectionLimit, oldLogProbs } = settings
  refuse('offPolicy', [
    correctionLow !== null && !correction.endsWith('masked') && `correction ${correction} has no lower limit`,
    correctionHigh !== null && correction === 'none' && 'correction none has no limits',
    (rejection === 'none') !== (rejectionLimit === null) &&
      'rejection and rejectionLimit go together: set both or neither',
    oldLogProbs === 'sampled' &&
      (correction !== 'none' || rejection !== 'none') &&
      'a correction compares the sampler with the trainer: set oldLogProbs to rescored',
  ])
  const weights = weightsOf(settings)
  if (weights === undefined && rejection === 'none') return undefined
  return {
    ...(weights && { weights }),
    ...(rejection !== 'none' &&
      rejectionLimit !== null && { reject: [{ statistic: rejection, limit: rejectionLimit }] }),
  }
}

/**
 * Returns the off-policy options; none for a loss without a ratio, unless settings ask for some.
 *
 * Errors   throws RangeError that lists every contradicting setting.
 */
export const offPolicyOf = (
  { offPolicy, sampling }: Pick<PolicySettings, 'offPolicy' | 'sampling'>,
  { reads }: Pick<AnyLoss, 'reads'>,
): OffPolicyOptions => {
  const correction = correctionOf(offPolicy)
  const isPlain = correction === undefined && offPolicy.oldLogProbs === 'sampled' && offPolicy.truncated === 'learn'
  if (isPlain && sampling.stale !== 'correct' && !reads.includes('logProbs.response')) return {}
  return {
    oldLogProbs: offPolicy.oldLogProbs,
    truncated: offPolicy.truncated,
    ...(correction && { correction }),
    ...(sampling.stale === 'correct' && { stale: 'correct' }),
  }
}

/** Returns the learning rate schedule. Throws RangeError if the warm-up is as long as the run. */
const scheduleOf = (
  { learner, steps }: Pick<PolicySettings, 'learner' | 'steps'>,
  learningRate: number,
): number | Schedule => {
  const { schedule, warmup } = learner
  if (schedule !== 'constant' && warmup >= steps)
    throw new RangeError(
      `learner.warmup: a warm-up of ${warmup} steps leaves nothing of ${steps} steps for the schedule ${schedule}`,
    )
  if (schedule === 'constant' && warmup === 0) return learningRate
  const falling = { linear, cosine }
  const after = schedule === 'constant' ? constant(learningRate) : falling[schedule](learningRate, 0, steps - warmup)
  return warmup === 0 ? after : warmUp(warmup, after)
}

/** The options of each optimizer, all numbers. With Muon, AdamW's options apply to the rest. */
const OPTIONS = {
  adamw: ['beta1', 'beta2', 'epsilon', 'weightDecay'],
  sgd: ['momentum', 'weightDecay'],
  lion: ['beta1', 'beta2', 'weightDecay'],
  adafactor: ['decay', 'epsilon1', 'epsilon2', 'clip', 'weightDecay'],
  muon: ['momentum', 'iterations', 'beta1', 'beta2', 'epsilon', 'weightDecay'],
} as const satisfies Readonly<Record<PolicySettings['learner']['optimizer'], readonly string[]>>

type Numbers = Readonly<Record<string, number>>

/**
 * Muon for the matrices of hidden layers, scaled to match AdamW's learning rate; AdamW for
 * embeddings, the head, gains and biases.
 */
const muonAndRest = (
  tables: readonly string[],
  { momentum, iterations, ...rest }: Numbers,
  rate: { readonly learningRate: number | Schedule },
): AnyOptimizer =>
  grouped(
    [
      {
        name: 'matrices',
        has: (name, { rank }) => rank === 2 && !tables.includes(name),
        optimizer: muon({
          scale: 'match-adamw',
          weightDecay: rest.weightDecay ?? 0,
          ...(momentum !== undefined && { momentum }),
          ...(iterations !== undefined && { iterations }),
        }),
      },
      { name: 'rest', optimizer: adamW(rest) },
    ],
    rate,
  ) as unknown as AnyOptimizer // it only gets states that it made

/**
 * Returns the optimizer with its learning rate schedule. Weight decay is 0 by default.
 *
 * Errors   throws RangeError for an unknown option and suggests the nearest one.
 */
export const optimizerOf = (
  settings: Pick<PolicySettings, 'learner' | 'steps' | 'lora'>,
  config: DecoderConfig,
): AnyOptimizer => {
  const { optimizer, optimizerOptions: options } = settings.learner
  const known: readonly string[] = OPTIONS[optimizer]
  refuse(
    'learner.optimizerOptions',
    Object.keys(options).map((name) => !known.includes(name) && unknownName(`option of ${optimizer}`, name, known)),
  )
  const { learningRate } = bySize(settings, config)
  const all = { learningRate: scheduleOf(settings, learningRate.value), ...options }
  const made = { adamw: adamW, sgd, lion, adafactor }
  if (optimizer !== 'muon') return made[optimizer](all) as unknown as AnyOptimizer // it only gets states that it made
  const tables = [config.embedding.name, config.learnedPositions, 'lm_head'].map((name) => `${name}.weight`)
  return muonAndRest(tables, options, { learningRate: all.learningRate })
}

/** Returns an upper bound of the optimizer's state, in numbers per trained parameter. */
export const stateNumbers = ({ learner: { optimizer, optimizerOptions } }: Pick<PolicySettings, 'learner'>): number =>
  ({ adamw: 2, muon: 2, lion: 1, sgd: optimizerOptions.momentum ? 1 : 0, adafactor: 0.1 })[optimizer] // muon's rest is AdamW's

/** Returns the LoRA options, or `undefined` if all weights are trained. */
export const loraOf = ({
  lora,
  model,
}: Pick<PolicySettings, 'lora'> & Partial<Pick<PolicySettings, 'model'>>): LoraOptions | undefined =>
  lora.rank === null
    ? undefined
    : {
        rank: lora.rank,
        alpha: lora.alpha,
        scaling: lora.scaling,
        ...(model && { baseModel: model }),
        targetModules: lora.target === 'all-linear' ? 'all-linear' : [lora.target].flat(),
      }

/** The settings that `learnerParts` reads. */
export type LearnerSettings = Pick<PolicySettings, 'seed' | 'steps' | 'learner' | 'lora' | 'compute'> &
  Partial<Pick<PolicySettings, 'model'>>

/**
 * Returns the options of `localLearner` except the loss. Its random key is derived from the seed.
 *
 * Errors   throws RangeError if settings contradict each other.
 */
export const learnerParts = (
  settings: LearnerSettings,
  model: Pretrained,
): Omit<LocalLearnerOptions, 'loss' | 'offPolicy'> => {
  const { compute, learner } = settings
  const sized = bySize(settings, model.config)
  const lora = loraOf(settings)
  return {
    model,
    optimizer: optimizerOf(settings, model.config),
    key: keyFromSeed(settings.seed),
    ...(lora && { lora }),
    passes: {
      epochs: learner.epochs,
      miniBatches: learner.miniBatches,
      maxGradNorm: learner.maxGradNorm ?? Number.POSITIVE_INFINITY,
    },
    compute: {
      threads: compute.workers,
      microBatchTokens: sized.microBatch.value,
      recompute: sized.recompute.value,
    },
    choices: sizedLines(sized),
  }
}

/**
 * Returns the options of `localLearner` for a policy. Default loss: that of the algorithm.
 *
 * Errors   throws RangeError if settings contradict each other.
 */
export const policyLearnerParts = (
  settings: LearnerSettings & Pick<PolicySettings, 'loss' | 'kl' | 'sampling' | 'offPolicy'>,
  model: Pretrained,
  loss: Loss<RolloutEntries> = lossOf(settings),
): LocalLearnerOptions<RolloutEntries> => ({
  ...learnerParts(settings, model),
  loss,
  offPolicy: offPolicyOf(settings, loss),
})

const alarmLimitsOf = (limits: PolicySettings['keep']['alarmLimits']): AlarmLimits => ({
  ...DEFAULT_ALARM_LIMITS,
  ...limits,
})

/** Returns the options of `train`. */
export const trainOptionsOf = ({
  steps,
  keep,
}: Pick<PolicySettings, 'steps' | 'keep'>): Pick<TrainOptions, 'steps' | 'every' | 'keep' | 'alarms'> => ({
  steps,
  every: { evaluate: keep.evalEvery, checkpoint: keep.checkpointEvery },
  keep: {
    trajectories: keep.trajectories,
    batches: keep.keepBatches,
    historyBytes: keep.keepMegabytes * 1e6,
    ...(keep.saveBatches !== null && { batchEvery: keep.saveBatches }),
  },
  alarms: { mode: keep.alarms, limits: alarmLimitsOf(keep.alarmLimits) },
})

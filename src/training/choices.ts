/** Parts of a run from settings. Where settings leave something to the algorithm, its own choice counts. */

import type { LocalLearnerOptions } from '../collectors/learners/localLearner.js'
import type { OffPolicyOptions } from '../collectors/learners/policyRows.js'
import type { LoraOptions } from '../collectors/learners/trainable.js'
import { keyFromSeed } from '../core/key.js'
import { refuse, unknownName } from '../core/options.js'
import { constant, cosine, linear, type Schedule, warmUp } from '../core/schedule.js'
import { REWARD_KL_FORMS, type RewardKLForm } from '../data/rewardKL.js'
import { checkOverlong, type OverlongOptions } from '../envs/rewards/overlong.js'
import type { Pretrained } from '../modules/pretrained.js'
import type { DecoderConfig } from '../modules/transformer/config.js'
import type { Advantage } from '../objectives/advantages/advantage.js'
import { batchAdvantage } from '../objectives/advantages/batchAdvantage.js'
import { ALGORITHMS, algorithmLoss } from '../objectives/algorithms.js'
import { adaptiveKLController, constantKLController } from '../objectives/klControl.js'
import type { PolicyLoss } from '../objectives/policyLoss.js'
import type { CorrectionWeights, RolloutCorrectionOptions } from '../objectives/rolloutCorrection.js'
import { adafactor } from '../objectives/updates/adafactor.js'
import { adamW } from '../objectives/updates/adamW.js'
import { type AnyOptimizer, grouped } from '../objectives/updates/grouped.js'
import { lion } from '../objectives/updates/lion.js'
import { muon } from '../objectives/updates/muon.js'
import { sgd } from '../objectives/updates/sgd.js'
import { type AlarmLimits, DEFAULT_ALARM_LIMITS } from './alarms.js'
import type { TrainOptions } from './options.js'
import type { PolicySettings } from './settings.js'
import type { KLWeight } from './source.js'

/** The loss of settings. Errors: throws RangeError for a clip range that the algorithm cannot have. */
export const lossOf = ({ loss, kl, sampling }: Pick<PolicySettings, 'loss' | 'kl' | 'sampling'>): PolicyLoss =>
  algorithmLoss(loss.algorithm, {
    ...{ clipLow: loss.clipLow, clipHigh: loss.clipHigh, longest: sampling.maxNewTokens },
    ...(kl.in === 'loss' && {
      kl: { to: 'reference', form: kl.form ?? 'k3', coefficient: kl.coefficient },
    }),
  })

/** Algorithms whose advantages are normalized over the whole batch. */
const OVER_BATCH: readonly string[] = ['reinforce++', 'reinforce++-baseline', 'gpg']

/** The advantages of settings. */
export const advantageOf = ({ loss, tasks }: Pick<PolicySettings, 'loss' | 'tasks'>): Advantage =>
  batchAdvantage(ALGORITHMS[loss.algorithm].advantage, {
    ...{ name: loss.algorithm, groupSize: tasks.group },
    over: OVER_BATCH.includes(loss.algorithm) ? 'batch' : 'group',
  })

/**
 * The form of the divergence in the reward, or of the one that is measured where the divergence is in the loss. Errors: throws RangeError for
 * a form that differs from another in its gradient alone.
 */
export const rewardFormOf = ({ kl }: Pick<PolicySettings, 'kl'>): RewardKLForm => {
  if (kl.in === 'loss' || kl.form === null) return 'k1'
  const found = REWARD_KL_FORMS.find((form) => form === kl.form)
  if (found === undefined)
    throw new RangeError(
      `kl.form: a reward has no gradient: its divergence is ${REWARD_KL_FORMS.join(', ')}; set kl.in to loss for ${kl.form}`,
    )
  return found
}

/** The weight of the divergence in the reward, step by step. Errors: throws RangeError for a target that nothing is steered to, with all reasons. */
export const klWeightOf = ({ kl }: Pick<PolicySettings, 'kl'>): KLWeight => {
  const { target, horizon, coefficient } = kl
  const isAdaptive = target !== null
  refuse('kl', [
    isAdaptive !== (horizon !== null) && 'target and horizon go together: set both or neither',
    isAdaptive &&
      kl.in === 'loss' &&
      'the weight that is steered to a target is that in the reward: set kl.in to reward',
    isAdaptive && coefficient === 0 && 'a weight of 0 stays 0: set kl.coefficient',
  ])
  const controllerFrom = (from: number) =>
    target === null || horizon === null
      ? constantKLController(from)
      : adaptiveKLController({ initial: from, target, horizon })
  return { coefficient, next: (from, divergence, n) => controllerFrom(from).update(divergence, n).coefficient }
}

/** How often is sampled for one batch at most. */
export const samplingRoundsOf = ({ loss, sampling }: Pick<PolicySettings, 'loss' | 'sampling'>): number =>
  sampling.dynamicSampling ?? ALGORITHMS[loss.algorithm].samplingRounds ?? 1

/** The soft end of completions; null if their length costs nothing. Errors: throws RangeError for a cache that is longer than a completion may be. */
export const overlongOf = ({ loss, sampling }: Pick<PolicySettings, 'loss' | 'sampling'>): OverlongOptions | null => {
  const { overlongCache, overlongFactor: factor, maxNewTokens: longest } = sampling
  const cache = overlongCache ?? Math.round((ALGORITHMS[loss.algorithm].overlongShare ?? 0) * longest)
  if (cache === 0) return null
  const options = { longest, cache, factor }
  checkOverlong('sampling.overlongCache', options)
  return options
}

/** Limits of the weights where none are set: verl's truncation, and the range of IcePop. */
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

/** How the learner treats tokens of another policy. Errors: throws RangeError for limits that make no sense, all of them. */
export const offPolicyOf = ({
  offPolicy,
  sampling,
}: Pick<PolicySettings, 'offPolicy' | 'sampling'>): OffPolicyOptions => {
  const correction = correctionOf(offPolicy)
  return {
    ...{ oldLogProbs: offPolicy.oldLogProbs, truncated: offPolicy.truncated },
    ...(correction && { correction }),
    ...(sampling.stale === 'correct' && { stale: 'correct' }),
  }
}

/** The learning rate by update. Errors: throws RangeError for a warm-up that is as long as the run. */
const scheduleOf = ({ learner, steps }: Pick<PolicySettings, 'learner' | 'steps'>): number | Schedule => {
  const { schedule, warmup, learningRate } = learner
  if (schedule !== 'constant' && warmup >= steps)
    throw new RangeError(
      `learner.warmup: a warm-up of ${warmup} steps leaves nothing of ${steps} steps for the schedule ${schedule}`,
    )
  if (schedule === 'constant' && warmup === 0) return learningRate
  const falling = { linear, cosine }
  const after = schedule === 'constant' ? constant(learningRate) : falling[schedule](learningRate, 0, steps - warmup)
  return warmup === 0 ? after : warmUp(warmup, after)
}

/** The options of each optimizer, all of them numbers. Muon's are of the matrices, and AdamW's of the rest. */
const OPTIONS = {
  adamw: ['beta1', 'beta2', 'epsilon', 'weightDecay'],
  sgd: ['momentum', 'weightDecay'],
  lion: ['beta1', 'beta2', 'weightDecay'],
  adafactor: ['decay', 'epsilon1', 'epsilon2', 'clip', 'weightDecay'],
  muon: ['momentum', 'iterations', 'beta1', 'beta2', 'epsilon', 'weightDecay'],
} as const satisfies Readonly<Record<PolicySettings['learner']['optimizer'], readonly string[]>>

type Numbers = Readonly<Record<string, number>>

/** Muon for the matrices of hidden layers, at AdamW's learning rates; AdamW for embeddings, the head, gains and biases. */
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
          ...{ scale: 'match-adamw', weightDecay: rest.weightDecay ?? 0 },
          ...(momentum !== undefined && { momentum }),
          ...(iterations !== undefined && { iterations }),
        }),
      },
      { name: 'rest', optimizer: adamW(rest) },
    ],
    rate,
  ) as unknown as AnyOptimizer // it only gets states that it made

/**
 * The optimizer of settings with its learning rate. Without options, none of them decays weights.
 *
 * Errors   throws RangeError for options that the optimizer does not have, with the nearest one.
 */
export const optimizerOf = (
  settings: Pick<PolicySettings, 'learner' | 'steps'>,
  { embedding, learnedPositions }: Pick<DecoderConfig, 'embedding' | 'learnedPositions'>,
): AnyOptimizer => {
  const { optimizer, optimizerOptions: options } = settings.learner
  const known: readonly string[] = OPTIONS[optimizer]
  refuse(
    'learner.optimizerOptions',
    Object.keys(options).map((name) => !known.includes(name) && unknownName(`option of ${optimizer}`, name, known)),
  )
  const all = { learningRate: scheduleOf(settings), ...options }
  const made = { adamw: adamW, sgd, lion, adafactor }
  if (optimizer !== 'muon') return made[optimizer](all) as unknown as AnyOptimizer // it only gets states that it made
  const tables = [embedding.name, learnedPositions, 'lm_head'].map((name) => `${name}.weight`)
  return muonAndRest(tables, options, { learningRate: all.learningRate })
}

/** Numbers that the optimizer keeps for each one that is trained, at most. */
export const stateNumbers = ({ learner: { optimizer, optimizerOptions } }: Pick<PolicySettings, 'learner'>): number =>
  ({ adamw: 2, muon: 2, lion: 1, sgd: optimizerOptions.momentum ? 1 : 0, adafactor: 0.1 })[optimizer] // muon's rest is AdamW's

/** The adapter of settings; undefined where the model's own weights are trained. */
export const loraOf = ({
  lora,
  model,
}: Pick<PolicySettings, 'lora'> & Partial<Pick<PolicySettings, 'model'>>): LoraOptions | undefined =>
  lora.rank === null
    ? undefined
    : {
        ...{ rank: lora.rank, alpha: lora.alpha, scaling: lora.scaling, ...(model && { baseModel: model }) },
        targetModules: lora.target === 'all-linear' ? 'all-linear' : [lora.target].flat(),
      }

/** What `learnerParts` reads of settings. */
export type LearnerSettings = Pick<PolicySettings, 'seed' | 'steps' | 'learner' | 'lora' | 'compute'> &
  Partial<Pick<PolicySettings, 'model'>>

/**
 * The options of `localLearner` that settings decide: everything but the loss. Its random numbers come from the seed.
 *
 * Errors   throws RangeError for settings that contradict each other.
 */
export const learnerParts = (
  settings: LearnerSettings,
  model: Pretrained,
): Omit<LocalLearnerOptions, 'loss' | 'offPolicy'> => {
  const { compute, learner } = settings
  const lora = loraOf(settings)
  return {
    ...{ model, optimizer: optimizerOf(settings, model.config), key: keyFromSeed(settings.seed) },
    ...(lora && { lora }),
    passes: { epochs: learner.epochs, miniBatches: learner.miniBatches, maxGradNorm: learner.maxGradNorm },
    compute: { threads: compute.workers, microBatchTokens: compute.microBatch, recompute: compute.recompute },
  }
}

const alarmLimitsOf = (limits: PolicySettings['keep']['alarmLimits']): AlarmLimits => ({
  ...DEFAULT_ALARM_LIMITS,
  ...limits,
})

/** The options of `train` that settings name. */
export const trainOptionsOf = ({
  steps,
  keep,
}: Pick<PolicySettings, 'steps' | 'keep'>): Pick<TrainOptions, 'steps' | 'every' | 'keep' | 'alarms'> => ({
  steps,
  every: { evaluate: keep.evalEvery, checkpoint: keep.checkpointEvery },
  keep: {
    ...{ trajectories: keep.trajectories, batches: keep.keepBatches },
    ...(keep.saveBatches !== null && { batchEvery: keep.saveBatches }),
  },
  alarms: { mode: keep.alarms, limits: alarmLimitsOf(keep.alarmLimits) },
})

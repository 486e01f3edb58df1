/** Settings shared by recipes: groups of a schema, with defaults and descriptions. */
import { z } from 'zod'
import { MAX_LORA_RANK } from '../../modules/lora/config.js'
import { ALGORITHM_NAMES } from '../../objectives/algorithms.js'
import { REJECTION_STATISTICS } from '../../objectives/rolloutCorrection.js'
import { KL_FORMS } from '../../objectives/tokenLosses/klForms.js'
import { ALARM_KINDS } from '../metrics/alarmRules.js'

const natural = z.number().int().nonnegative()

/** Largest values of settings that size an allocation. `docs/limits.md` lists them. */
export const SETTING_LIMITS = {
  'tasks.prompts': 2 ** 20,
  'tasks.group': 2 ** 16,
  'sampling.maxNewTokens': 2 ** 24,
  'sampling.maxLag': 2 ** 16,
  'sampling.samplerThreads': 512,
  'lora.rank': MAX_LORA_RANK,
  'compute.microBatch': 2 ** 30,
  'compute.workers': 512,
  'keep.evalTasks': 2 ** 20,
  'keep.trajectories': 2 ** 20,
  batch: 2 ** 16,
} as const

/** A positive number of things. */
const countTo = (most: number) => z.number().int().positive().max(most)

/** A positive number of things that an allocation follows. */
const bounded = (path: keyof typeof SETTING_LIMITS) => countTo(SETTING_LIMITS[path])
const count = countTo(Number.MAX_SAFE_INTEGER)

/** Off-policy corrections: weights per token or sequence, truncated or masked beyond the limits. */
const CORRECTIONS = ['none', 'token-truncated', 'sequence-truncated', 'token-masked', 'sequence-masked'] as const

/** Names of the available optimizers. */
export const OPTIMIZER_NAMES = ['adamw', 'sgd', 'lion', 'adafactor', 'muon'] as const

const model = z.string().default('embedded').describe('initial model: a folder, a run folder, a hub name, or embedded')

/** The size of a batch. */
const tasks = z
  .strictObject({
    prompts: bounded('tasks.prompts').default(16).describe('tasks per step'),
    group: bounded('tasks.group').default(8).describe('completions per task'),
  })
  .prefault({})

const sampling = z
  .strictObject({
    maxNewTokens: bounded('sampling.maxNewTokens').default(64).describe('longest completion in tokens'),
    temperature: z.number().positive().default(1).describe('sampling temperature'),
    dynamicSampling: count
      .nullable()
      .default(null)
      .describe(
        'most sampling rounds per batch, replacing groups without a signal; 1: no resampling, off: the default of the algorithm',
      ),
    overlongCache: natural
      .nullable()
      .default(null)
      .describe('number of final tokens with a length penalty; 0: no penalty, off: the default of the algorithm'),
    overlongFactor: z.number().min(0).default(1).describe('length penalty of a completion of maximal length'),
    maxLag: natural
      .max(SETTING_LIMITS['sampling.maxLag'])
      .default(0)
      .describe('largest staleness of a completion in updates; above 0, sampling runs while the learner trains'),
    stale: z
      .enum(['wait', 'drop', 'correct'])
      .default('wait')
      .describe('groups that would exceed maxLag: delay sampling, drop them, or correct their tokens'),
    samplerThreads: bounded('sampling.samplerThreads')
      .default(1)
      .describe('intra-op threads of the asynchronous sampler'),
  })
  .prefault({})

const loss = z
  .strictObject({
    algorithm: z.enum(ALGORITHM_NAMES).default('grpo').describe('algorithm for advantages and loss'),
    clipLow: z
      .number()
      .min(0)
      .lt(1)
      .nullable()
      .default(null)
      .describe('clip range below 1; off: the default of the algorithm'),
    clipHigh: z
      .number()
      .min(0)
      .nullable()
      .default(null)
      .describe('clip range above 1; off: the default of the algorithm'),
  })
  .prefault({})

const kl = z
  .strictObject({
    coefficient: z
      .number()
      .min(0)
      .default(0)
      .describe('coefficient of the KL divergence from the initial weights; 0 only measures it')
      .meta({ flag: 'kl-coefficient' }),
    atZero: z
      .enum(['measure', 'skip'])
      .default('skip')
      .describe('with coefficient 0: measure the KL by a pass of the initial model, for metrics and alarms, or skip it')
      .meta({ flag: 'kl-at-zero' }),
    in: z.enum(['reward', 'loss']).default('reward').describe('place of the KL term').meta({ flag: 'kl-in' }),
    form: z
      .enum(KL_FORMS)
      .nullable()
      .default(null)
      .describe('KL estimator; off: k1 in the reward, k3 in the loss')
      .meta({ flag: 'kl-form' }),
    target: z
      .number()
      .positive()
      .nullable()
      .default(null)
      .describe('target KL per completion in nats; adapts the coefficient in the reward')
      .meta({ flag: 'kl-target' }),
    horizon: z
      .number()
      .positive()
      .nullable()
      .default(null)
      .describe('completions after which the adaptive coefficient can change by a factor of about e')
      .meta({ flag: 'kl-horizon' }),
  })
  .prefault({})

const learner = z
  .strictObject({
    learningRate: z
      .number()
      .positive()
      .nullable()
      .default(null)
      .describe('learning rate; off: by the size of the model, and lower for all weights than for an adapter'),
    schedule: z
      .enum(['constant', 'linear', 'cosine'])
      .default('constant')
      .describe('decay of the learning rate to 0 at the end of the run'),
    warmup: natural.default(0).describe('warm-up steps of the learning rate'),
    optimizer: z.enum(OPTIMIZER_NAMES).default('adamw').describe('optimizer'),
    optimizerOptions: z
      .record(z.string(), z.number())
      .default({})
      .describe('optimizer options, such as {"beta2":0.95}'),
    maxGradNorm: z
      .number()
      .positive()
      .nullable()
      .default(1)
      .describe('gradient norm above which gradients are clipped, or off'),
    epochs: count.default(1).describe('passes over the batch of a step'),
    miniBatches: count.default(1).describe('optimizer steps per pass, each on whole groups'),
  })
  .prefault({})

const offPolicy = z
  .strictObject({
    oldLogProbs: z
      .enum(['sampled', 'rescored'])
      .default('sampled')
      .describe(
        'log-probs in the denominator of ratios: from the sampler, or rescored by the trainer before the update',
      ),
    truncated: z
      .enum(['learn', 'mask'])
      .default('learn')
      .describe('completions at the token limit: train on them, or mask them out of the loss'),
    correction: z
      .enum(CORRECTIONS)
      .default('none')
      .describe('importance weights for the gap between sampler and trainer'),
    correctionLow: z
      .number()
      .min(0)
      .nullable()
      .default(null)
      .describe('weight below which tokens are masked; off: 0.5'),
    correctionHigh: z
      .number()
      .positive()
      .nullable()
      .default(null)
      .describe('largest weight; off: 2 if weights are truncated, 5 if they are masked'),
    rejection: z
      .enum(['none', ...REJECTION_STATISTICS])
      .default('none')
      .describe('statistic for rejecting tokens or sequences'),
    rejectionLimit: z.number().positive().nullable().default(null).describe('limit of that statistic'),
  })
  .prefault({})

const lora = z
  .strictObject({
    rank: bounded('lora.rank')
      .nullable()
      .default(null)
      .describe('train a LoRA adapter of this rank instead of all weights')
      .meta({ flag: 'lora-rank' }),
    alpha: z
      .number()
      .positive()
      .default(16)
      .describe('LoRA alpha, which scales the adapter')
      .meta({ flag: 'lora-alpha' }),
    target: z
      .union([z.string(), z.array(z.string())])
      .default('all-linear')
      .describe('modules with an adapter')
      .meta({ flag: 'lora-target' }),
    scaling: z
      .enum(['alpha/rank', 'alpha/sqrt(rank)'])
      .default('alpha/rank')
      .describe('scaling of the adapter')
      .meta({ flag: 'lora-scaling' }),
  })
  .prefault({})

const compute = z
  .strictObject({
    microBatch: bounded('compute.microBatch')
      .nullable()
      .default(null)
      .describe('approximate tokens per forward and backward pass; off: by the size of the model'),
    recompute: z
      .enum(['none', 'layers'])
      .nullable()
      .default(null)
      .describe('activations to recompute in the backward pass, to save memory; off: by the size of the model'),
    workers: bounded('compute.workers')
      .default(1)
      .describe(
        'parallel threads for sampling, scoring and gradients, which divide the default of --threads; the number affects rounding',
      ),
    dtype: z
      .enum(['F32', 'BF16', 'F16'])
      .nullable()
      .default(null)
      .describe('export the trained model in this number format, with any adapter merged'),
  })
  .prefault({})

const alarmLimit = z.number().nonnegative().nullable()

/** The settings of evaluation, checkpoints, records and alarms. */
const keep = z
  .strictObject({
    evalEvery: count.default(5).describe('steps between evaluations'),
    evalTasks: bounded('keep.evalTasks').default(200).describe('most tasks per evaluation'),
    sharedTasks: z
      .enum(['refuse', 'allow'])
      .default('refuse')
      .describe('evaluated tasks that are also trained on: refuse the run, or allow them'),
    checkpointEvery: count.default(10).describe('steps between checkpoints'),
    trajectories: natural
      .max(SETTING_LIMITS['keep.trajectories'])
      .default(8)
      .describe('trajectories recorded per step'),
    saveBatches: count.nullable().default(null).describe('steps between batches saved for tandem replay'),
    keepBatches: count.default(20).describe('number of newest saved batches to retain'),
    keepMegabytes: natural
      .default(256)
      .describe('megabytes of older checkpoints to retain, spread evenly over the run; 0: none'),
    alarms: z
      .enum(['off', 'warn', 'stop-at-collapse', 'stop'])
      .default('stop-at-collapse')
      .describe('action on an alarm: none, warn, or save and stop after the step, at a collapse or at any alarm'),
    alarmLimits: z
      .partialRecord(z.enum(ALARM_KINDS), alarmLimit)
      .default({})
      .describe('alarm limits to override, such as {"truncation":0.2}; null disables an alarm'),
  })
  .prefault({})

/**
 * Setting groups for recipe schemas:
 * `z.strictObject({ steps: settings.steps, keep: settings.keep })`.
 */
export const settings = {
  model,
  tasks,
  sampling,
  loss,
  kl,
  learner,
  offPolicy,
  lora,
  compute,
  keep,
  heldOut: count.nullable().default(null).describe('first rows, held out for evaluation; off: a tenth, at most 128'),
  seed: natural.default(1).describe('random seed of the run'),
  steps: count.default(60).describe('training steps'),
} as const

/** The settings of a policy-gradient run, as read by `grpoParts`. */
export const policySettings = z.strictObject({
  model: settings.model,
  seed: settings.seed,
  steps: settings.steps,
  tasks,
  sampling,
  loss,
  kl,
  learner,
  offPolicy,
  lora,
  compute,
  keep,
})

/** The settings of a run that trains on the rows of a data set. */
export const dataSettings = z.strictObject({
  model: settings.model,
  seed: settings.seed,
  steps: settings.steps,
  batch: bounded('batch').default(32).describe('rows per step'),
  learner,
  lora,
  compute,
  keep,
})

export type PolicySettings = z.output<typeof policySettings>

/** Settings that do not affect earlier results, so they may change on resume. */
export const MAY_CHANGE: readonly string[] = ['steps', 'keep', 'compute.dtype']

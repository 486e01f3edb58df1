/** Settings that recipes share: groups of a schema, each with defaults and descriptions. */
import { z } from 'zod'
import { ALGORITHM_NAMES } from '../objectives/algorithms.js'
import { KL_FORMS } from '../objectives/klForms.js'
import { REJECTION_STATISTICS } from '../objectives/rolloutCorrection.js'
import { ALARM_KINDS } from './alarms.js'

const count = z.number().int().positive()
const natural = z.number().int().nonnegative()

/** Weights of an off-policy correction: by token or by sequence, truncated or masked beyond the limits. */
const CORRECTIONS = ['none', 'token-truncated', 'sequence-truncated', 'token-masked', 'sequence-masked'] as const

/** The optimizers that settings name. */
export const OPTIMIZER_NAMES = ['adamw', 'sgd', 'lion', 'adafactor', 'muon'] as const

const model = z
  .string()
  .default('embedded')
  .describe('model to begin with: a folder, a run folder, a hub name, or embedded')

/** How many tasks make a batch. */
const tasks = z
  .strictObject({
    prompts: count.default(16).describe('different tasks in a step'),
    group: count.default(8).describe('completions of each task'),
  })
  .prefault({})

const sampling = z
  .strictObject({
    maxNewTokens: count.default(64).describe('longest completion in tokens'),
    temperature: z.number().positive().default(1).describe('sampling temperature'),
    dynamicSampling: count
      .nullable()
      .default(null)
      .describe(
        'rounds in which groups without a signal are sampled again for one batch; 1: never, off: as the algorithm has it',
      ),
    overlongCache: natural
      .nullable()
      .default(null)
      .describe('last tokens of the longest completion that cost something; 0: none, off: as the algorithm has it'),
    overlongFactor: z.number().min(0).default(1).describe('cost of a completion of the longest length'),
    maxLag: natural
      .default(0)
      .describe('updates that a completion may be behind the learner; above 0, sampling runs beside learning'),
    stale: z
      .enum(['wait', 'drop', 'correct'])
      .default('wait')
      .describe('groups that would be older than maxLag: wait for them in time, drop them, or correct their tokens'),
    samplerThreads: count.default(1).describe('threads inside an operation of the sampler that runs beside learning'),
  })
  .prefault({})

const loss = z
  .strictObject({
    algorithm: z.enum(ALGORITHM_NAMES).default('grpo').describe('advantages and loss'),
    clipLow: z
      .number()
      .min(0)
      .lt(1)
      .nullable()
      .default(null)
      .describe('how far a ratio may fall below 1; off: as the algorithm has it'),
    clipHigh: z
      .number()
      .min(0)
      .nullable()
      .default(null)
      .describe('how far a ratio may rise above 1; off: as the algorithm has it'),
  })
  .prefault({})

const kl = z
  .strictObject({
    coefficient: z
      .number()
      .min(0)
      .default(0)
      .describe('weight of the KL divergence from the first weights; 0 measures it')
      .meta({ flag: 'kl-coefficient' }),
    in: z.enum(['reward', 'loss']).default('reward').describe('where the divergence counts').meta({ flag: 'kl-in' }),
    form: z
      .enum(KL_FORMS)
      .nullable()
      .default(null)
      .describe('estimator of the divergence; off: k1 in the reward, k3 in the loss')
      .meta({ flag: 'kl-form' }),
    target: z
      .number()
      .positive()
      .nullable()
      .default(null)
      .describe('divergence of a completion in nats that the weight in the reward is steered to')
      .meta({ flag: 'kl-target' }),
    horizon: z
      .number()
      .positive()
      .nullable()
      .default(null)
      .describe('completions in which that weight changes by a factor of about e')
      .meta({ flag: 'kl-horizon' }),
  })
  .prefault({})

const learner = z
  .strictObject({
    learningRate: z.number().positive().default(1e-4).describe('learning rate'),
    schedule: z
      .enum(['constant', 'linear', 'cosine'])
      .default('constant')
      .describe('how the learning rate falls to 0 at the end of the run'),
    warmup: natural.default(0).describe('steps in which the learning rate rises first'),
    optimizer: z.enum(OPTIMIZER_NAMES).default('adamw').describe('optimizer'),
    optimizerOptions: z.record(z.string(), z.number()).default({}).describe('its options, such as {"beta2":0.95}'),
    maxGradNorm: z.number().positive().default(1).describe('largest gradient norm before clipping'),
    epochs: count.default(1).describe('passes over the batch of a step'),
    miniBatches: count.default(1).describe('optimizer steps of a pass, each on whole groups'),
  })
  .prefault({})

const offPolicy = z
  .strictObject({
    oldLogProbs: z
      .enum(['sampled', 'rescored'])
      .default('sampled')
      .describe('log-probs that ratios are taken against: the sampler’s, or the trainer’s own before the update'),
    truncated: z
      .enum(['learn', 'mask'])
      .default('learn')
      .describe('completions at the token limit: learn from them, or mask them out of the loss'),
    correction: z
      .enum(CORRECTIONS)
      .default('none')
      .describe('weights for tokens that sampler and trainer rate differently'),
    correctionLow: z.number().min(0).nullable().default(null).describe('smallest weight before it is masked; off: 0.5'),
    correctionHigh: z
      .number()
      .positive()
      .nullable()
      .default(null)
      .describe('largest weight; off: 2 where weights are truncated, 5 where they are masked'),
    rejection: z
      .enum(['none', ...REJECTION_STATISTICS])
      .default('none')
      .describe('statistic above whose limit tokens or sequences are left out'),
    rejectionLimit: z.number().positive().nullable().default(null).describe('that limit'),
  })
  .prefault({})

const lora = z
  .strictObject({
    rank: count
      .nullable()
      .default(null)
      .describe('train an adapter of this rank in place of all weights')
      .meta({ flag: 'lora-rank' }),
    alpha: z.number().positive().default(16).describe('strength of the adapter').meta({ flag: 'lora-alpha' }),
    target: z
      .union([z.string(), z.array(z.string())])
      .default('all-linear')
      .describe('modules that the adapter changes')
      .meta({ flag: 'lora-target' }),
    scaling: z
      .enum(['alpha/rank', 'alpha/sqrt(rank)'])
      .default('alpha/rank')
      .describe('scale of the adapter')
      .meta({ flag: 'lora-scaling' }),
  })
  .prefault({})

const compute = z
  .strictObject({
    microBatch: count.default(4096).describe('tokens computed in one run, about'),
    recompute: z
      .enum(['none', 'layers'])
      .default('none')
      .describe('what is computed again for the gradient to save memory'),
    workers: count
      .default(1)
      .describe('threads that sample and compute gradients side by side; another number rounds differently'),
    dtype: z
      .enum(['F32', 'BF16', 'F16'])
      .nullable()
      .default(null)
      .describe('write the trained model at the end in this number format; an adapter is merged'),
  })
  .prefault({})

const alarmLimit = z.number().nonnegative().nullable()

/** What `train` does beside learning. */
const keep = z
  .strictObject({
    evalEvery: count.default(5).describe('steps between evaluations'),
    evalTasks: count.default(200).describe('tasks in an evaluation'),
    checkpointEvery: count.default(10).describe('steps between checkpoints'),
    trajectories: natural.default(8).describe('trajectories kept of each step'),
    saveBatches: count.nullable().default(null).describe('steps between batches that are kept for tandem replay'),
    keepBatches: count.default(20).describe('how many of them are kept, the newest'),
    alarms: z
      .enum(['off', 'warn', 'stop'])
      .default('warn')
      .describe('when a run gets into trouble: off, warn, or stop after the step, saved'),
    alarmLimits: z
      .partialRecord(z.enum(ALARM_KINDS), alarmLimit)
      .default({})
      .describe('other limits of alarms, such as {"truncation":0.2}; null switches one off'),
  })
  .prefault({})

/** Groups of settings for schemas of recipes: `z.strictObject({ ...settings.run, sampling: settings.sampling })`. */
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
  seed: natural.default(1).describe('seed of everything random'),
  steps: count.default(60).describe('batches that are collected and learned from'),
} as const

/** The settings of a run by policy gradients: everything that `policyRun` reads. */
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

/** The settings of a run that learns from the rows of a data set. */
export const dataSettings = z.strictObject({
  model: settings.model,
  seed: settings.seed,
  steps: settings.steps,
  batch: count.default(32).describe('rows of a step'),
  learner,
  lora,
  compute,
  keep,
})

export type PolicySettings = z.output<typeof policySettings>

/** Groups whose fields change nothing of what has been computed. */
export const MAY_CHANGE: readonly string[] = ['steps', 'keep', 'compute.dtype']

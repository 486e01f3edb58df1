/** The settings of a run, each of its kind. Whether they agree with each other is checked where they are read (`parseSettings`). */
import { z } from 'zod'
import { ALGORITHM_NAMES } from '../objectives/algorithms.js'
import { KL_FORMS } from '../objectives/klForms.js'
import { REJECTION_STATISTICS } from '../objectives/rolloutCorrection.js'

/** Truncated importance sampling limits weights; masked importance sampling makes those beyond the limits 0. */
const CORRECTIONS = ['none', 'token-truncated', 'sequence-truncated', 'token-masked', 'sequence-masked'] as const

/** How weights follow gradients. */
export const OPTIMIZER_NAMES = ['adamw', 'sgd', 'lion', 'adafactor', 'muon'] as const

export type OptimizerName = (typeof OPTIMIZER_NAMES)[number]

const count = z.number().int().positive()

export const settingsSchema = z.strictObject({
  /** Folder of the model to begin with. */
  model: z.string(),
  /** GSM8K rows: a .jsonl or .parquet file, or `hub:` and a dataset on the hub; null for the built-in word problems. */
  dataset: z.string().nullable(),
  /** Rows to evaluate on; null for rows held out from the dataset, or held-out word problems. */
  evalDataset: z.string().nullable(),
  seed: z.number().int().nonnegative(),
  steps: count,
  /** Different problems in a step. */
  prompts: count,
  /** Completions of each problem. */
  group: count.min(2),
  maxNewTokens: count,
  temperature: z.number().positive(),
  learningRate: z.number().positive(),
  /** How far a ratio may go below and above 1; null for the algorithm's own range. */
  clipLow: z.number().min(0).lt(1).nullable(),
  clipHigh: z.number().min(0).nullable(),
  /** Weight of the divergence from the first weights in the reward; 0 only measures it. */
  klCoefficient: z.number().min(0),
  maxGradNorm: z.number().positive(),
  /** Steps between evaluations. */
  evalEvery: count,
  evalProblems: count,
  /** Steps between checkpoints. */
  checkpointEvery: count,
  /** Completions written to trajectories.jsonl in each step. */
  trajectories: z.number().int().nonnegative(),
  // What follows has defaults, so that runs of earlier versions can be resumed.
  /** Rank of the adapter that is trained in the place of the model's own weights; null trains all of those. */
  loraRank: count.nullable().default(null),
  loraAlpha: z.number().positive().default(16),
  /** Modules that the adapter changes: ends of paths with commas between them, or all-linear. */
  loraTarget: z.string().default('all-linear'),
  /** What the adapter's products are multiplied by. */
  loraScaling: z.enum(['alpha/rank', 'alpha/sqrt(rank)']).default('alpha/rank'),
  /** About how many tokens are computed in one run. */
  microBatch: count.default(4096),
  /** What is computed again for the gradient instead of being kept. */
  recompute: z.enum(['none', 'layers']).default('none'),
  /** How the numbers of the model folder are stored that is written at the end; null writes none. */
  dtype: z.enum(['F32', 'BF16', 'F16']).nullable().default(null),
  /** How advantages and the loss are made. */
  algorithm: z.enum(ALGORITHM_NAMES).default('grpo'),
  /** Passes over the completions of a step. */
  epochs: count.default(1),
  /** Optimizer steps of a pass. */
  miniBatches: count.default(1),
  /** Whose log-probabilities ratios are taken against: those of the sampler, or the trainer's own before the first update of the step. */
  oldLogProbs: z.enum(['sampled', 'rescored']).default('sampled'),
  /** How often is sampled for one batch at most, until every group has a signal; null as the algorithm has it, 1 for once. */
  dynamicSampling: count.nullable().default(1),
  /** The last tokens of the longest completion that cost something; null as the algorithm has it, 0 for none. */
  overlongCache: z.number().int().nonnegative().nullable().default(0),
  /** What a completion of the longest length costs. */
  overlongFactor: z.number().min(0).default(1),
  /** Whether completions that the token limit cut off are learned from. */
  truncated: z.enum(['learn', 'mask']).default('learn'),
  /** What happens when a run gets into trouble: nothing, a warning, or the end of the run. */
  alarms: z.enum(['off', 'warn', 'stop']).default('warn'),
  /** Limits of alarms other than the defaults: none, or `name=number` and `name=off` with commas between them. */
  alarmLimits: z.string().default('none'),
  /** Steps between batches that are kept to be replayed; null keeps none but those of alarms. */
  saveBatches: count.nullable().default(null),
  /** How many of them are kept, the newest. */
  keepBatches: count.default(20),
  /** What becomes of tokens that the trainer finds more or less probable than the sampler did: weights with limits, of tokens or completions. */
  correction: z.enum(CORRECTIONS).default('none'),
  /** Limits of the weights; null for 2, or for 0.5 and 5 where weights beyond them become 0. */
  correctionLow: z.number().min(0).nullable().default(null),
  correctionHigh: z.number().positive().nullable().default(null),
  /** What is left out of the loss if it is above a limit. */
  rejection: z.enum(['none', ...REJECTION_STATISTICS]).default('none'),
  rejectionLimit: z.number().positive().nullable().default(null),
  /** How weights follow gradients. Muon is for the matrices of hidden layers; the rest is AdamW's. */
  optimizer: z.enum(OPTIMIZER_NAMES).default('adamw'),
  /** Its options other than the defaults: none, or `name=number` with commas between them. */
  optimizerOptions: z.string().default('none'),
  /** How the learning rate goes from its first value to 0 at the end of the run. */
  schedule: z.enum(['constant', 'linear', 'cosine']).default('constant'),
  /** Steps in which it rises first. */
  warmup: z.number().int().nonnegative().default(0),
  /** Where the divergence from the first weights counts. */
  klIn: z.enum(['reward', 'loss']).default('reward'),
  /** How it is estimated; null for k1 in the reward and k3 in the loss. */
  klForm: z.enum(KL_FORMS).nullable().default(null),
  /** The divergence of a completion in nats that the weight in the reward is to lead to, from klCoefficient on; null leaves the weight as it is. */
  klTarget: z.number().positive().nullable().default(null),
  /** Completions over which an error of 1 changes that weight by a factor of about e. */
  klHorizon: z.number().positive().nullable().default(null),
  /** Updates that the weights of a completion's oldest token may be behind those that learn from it. 0: sampling and learning take turns. */
  maxLag: z.number().int().nonnegative().default(0),
  /** What becomes of groups that would be older. */
  stale: z.enum(['wait', 'drop', 'correct']).default('wait'),
  /** Threads that sample and compute gradients, each with the weights. Other numbers of them round otherwise. */
  workers: count.default(1),
})

export type RunSettings = Readonly<z.infer<typeof settingsSchema>>

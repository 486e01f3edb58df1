/** What defines a training run. Two runs with equal settings on equal files give equal results. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { type LoraConfig, loraConfig } from '../../modules/lora/config.js'
import { ALGORITHM_NAMES, algorithmLoss } from '../../objectives/algorithms.js'
import type { PolicyLoss } from '../../objectives/policyLoss.js'

export { ALGORITHM_NAMES }

const count = z.number().int().positive()

const settingsSchema = z.strictObject({
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
})

/** The loss of settings. Errors: throws RangeError for a clip range that the algorithm cannot have. */
export const lossOf = ({
  algorithm,
  clipLow,
  clipHigh,
  maxNewTokens,
}: Pick<RunSettings, 'algorithm' | 'clipLow' | 'clipHigh' | 'maxNewTokens'>): PolicyLoss =>
  algorithmLoss(algorithm, { clipLow, clipHigh, longest: maxNewTokens })

const checkedSchema = settingsSchema.superRefine((settings, context) => {
  if (settings.miniBatches > settings.prompts)
    context.addIssue({
      code: 'custom',
      path: ['miniBatches'],
      message: `${settings.miniBatches} mini-batches of whole groups need as many prompts, got ${settings.prompts}`,
    })
  try {
    lossOf(settings)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    context.addIssue({ code: 'custom', path: ['algorithm'], message: error.message })
  }
})

export type RunSettings = Readonly<z.infer<typeof settingsSchema>>

/** The settings of `npm start`, all but the model. */
export const DEFAULT_SETTINGS: Omit<RunSettings, 'model'> = {
  dataset: null,
  evalDataset: null,
  seed: 1,
  steps: 60,
  prompts: 16,
  group: 8,
  maxNewTokens: 64,
  temperature: 1,
  learningRate: 1e-4,
  clipLow: null,
  clipHigh: null,
  klCoefficient: 0,
  maxGradNorm: 1,
  evalEvery: 5,
  evalProblems: 200,
  checkpointEvery: 10,
  trajectories: 8,
  loraRank: null,
  loraAlpha: 16,
  loraTarget: 'all-linear',
  loraScaling: 'alpha/rank',
  microBatch: 4096,
  recompute: 'none',
  dtype: null,
  algorithm: 'grpo',
  epochs: 1,
  miniBatches: 1,
  oldLogProbs: 'sampled',
}

/** The adapter that settings ask for; null if they train the model's own weights. */
export const loraOf = (settings: RunSettings): LoraConfig | null =>
  settings.loraRank === null
    ? null
    : loraConfig({
        rank: settings.loraRank,
        alpha: settings.loraAlpha,
        targetModules:
          settings.loraTarget === 'all-linear'
            ? 'all-linear'
            : settings.loraTarget.split(',').map((name) => name.trim()),
        scaling: settings.loraScaling,
      })

/** Settings that do not agree, or cannot be read. */
export interface SettingsFailure {
  readonly _tag: 'SettingsFailure'
  readonly reason: string
}

/** Reads stored settings. Errors: `Left(SettingsFailure)` naming fields that are missing, unknown or ill-typed. */
export const parseSettings = (json: unknown): E.Either<SettingsFailure, RunSettings> => {
  const parsed = checkedSchema.safeParse(json)
  return parsed.success
    ? E.right(parsed.data)
    : E.left({ _tag: 'SettingsFailure', reason: z.prettifyError(parsed.error) })
}

/** Settings that may change when a run is resumed: they do not change what has been computed. */
const EXTENDABLE: readonly (keyof RunSettings)[] = [
  'steps',
  'evalEvery',
  'evalProblems',
  'checkpointEvery',
  'trajectories',
  'dtype',
]

/**
 * The settings to resume with: the stored ones, with the extendable ones among `asked`.
 *
 * Errors   `Left(SettingsFailure)` naming every setting of `asked` that differs from the stored one and may not.
 */
export const resumeSettings = (
  stored: RunSettings,
  asked: Partial<RunSettings>,
): E.Either<SettingsFailure, RunSettings> => {
  const keys = Object.keys(asked) as (keyof RunSettings)[] // keys of a partial RunSettings
  const changed = keys.filter((key) => asked[key] !== undefined && asked[key] !== stored[key])
  const refused = changed.filter((key) => !EXTENDABLE.includes(key))
  if (refused.length > 0) {
    const list = refused
      .map((key) => `${key} is ${JSON.stringify(stored[key])}, not ${JSON.stringify(asked[key])}`)
      .join('; ')
    return E.left({
      _tag: 'SettingsFailure',
      reason: `the run folder belongs to another configuration: ${list}. Resume without these options, or start a new run with --out`,
    })
  }
  return E.right(
    Object.fromEntries([...Object.entries(stored), ...changed.map((key) => [key, asked[key]])]) as RunSettings,
  ) // same keys
}

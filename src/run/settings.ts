/** What defines a training run. Two runs with equal settings on equal files give equal results. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { type LoraConfig, loraConfig } from '../modules/lora/config.js'
import { ALGORITHM_NAMES } from '../objectives/algorithms.js'
import { alarmLimits } from './alarms.js'
import { correctionOf, klControllerOf, lossOf, overlongOf, rewardFormOf, scheduleOf } from './choices.js'
import { checkOptimizer } from './optimizerChoice.js'
import { OPTIMIZER_NAMES, type RunSettings, settingsSchema } from './settingsSchema.js'

export { ALGORITHM_NAMES, OPTIMIZER_NAMES, type RunSettings }

/** One thing that is wrong with settings that are each of their kind. */
interface SettingProblem {
  readonly name: keyof RunSettings
  readonly reason: string
}

/** What a part of a run says about the settings that it is made of, if it cannot be made. */
const refusal = (name: keyof RunSettings, make: () => unknown): readonly SettingProblem[] => {
  try {
    make()
    return []
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return [{ name, reason: error.message }]
  }
}

/** Settings that do not agree with each other: all that does not. */
const disagreements = (settings: RunSettings): readonly SettingProblem[] => [
  ...(settings.miniBatches > settings.prompts
    ? [
        {
          name: 'miniBatches' as const,
          reason: `${settings.miniBatches} mini-batches of whole groups need as many prompts, got ${settings.prompts}`,
        },
      ]
    : []),
  ...refusal('algorithm', () => lossOf(settings)),
  ...refusal('alarmLimits', () => alarmLimits(settings.alarmLimits)),
  ...refusal('optimizerOptions', () => checkOptimizer(settings)),
  ...refusal('overlongCache', () => overlongOf(settings)),
  ...refusal('correction', () => correctionOf(settings)),
  ...refusal('klForm', () => rewardFormOf(settings)),
  ...refusal('klTarget', () => klControllerOf(settings, settings.klCoefficient)),
  ...refusal('schedule', () => scheduleOf(settings)),
  ...(settings.maxLag === 0 && settings.stale !== 'wait'
    ? [{ name: 'stale' as const, reason: `with maxLag 0 nothing is stale: give maxLag with stale ${settings.stale}` }]
    : []),
]

const checkedSchema = settingsSchema.superRefine((settings, context) => {
  for (const { name, reason } of disagreements(settings))
    context.addIssue({ code: 'custom', path: [name], message: reason })
})

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
  dynamicSampling: null,
  overlongCache: null,
  overlongFactor: 1,
  truncated: 'learn',
  alarms: 'warn',
  alarmLimits: 'none',
  saveBatches: null,
  keepBatches: 20,
  correction: 'none',
  correctionLow: null,
  correctionHigh: null,
  rejection: 'none',
  rejectionLimit: null,
  optimizer: 'adamw',
  optimizerOptions: 'none',
  schedule: 'constant',
  warmup: 0,
  klIn: 'reward',
  klForm: null,
  klTarget: null,
  klHorizon: null,
  maxLag: 0,
  stale: 'wait',
  workers: 1,
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
  'alarms',
  'alarmLimits',
  'saveBatches',
  'keepBatches',
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
  const isFixed = (key: keyof RunSettings): boolean =>
    !EXTENDABLE.includes(key) || (key === 'steps' && stored.schedule !== 'constant') // such a schedule ends with the steps
  const refused = changed.filter(isFixed)
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

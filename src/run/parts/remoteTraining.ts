/** Training on a server: what a run needs of it, and the settings that it can follow. */
import { type Key, refuse } from '@tandem-rl/base'
import type { WeightUpdater } from '../../collectors/weightSync.js'
import type { LogProbModel, Policy, TokenAction, TokenPrompt } from '../../data/policy.js'
import type { NamedTensors } from '../../data/weights.js'
import type { Learner } from '../../learners/learner.js'
import type { PassOptions } from '../../learners/localLearner.js'
import type { OffPolicyOptions } from '../../learners/offPolicy.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import type { Loss, LossMetrics } from '../../objectives/loss.js'
import type { RolloutEntries } from '../../objectives/lossRows.js'
import type { AnyOptimizer } from '../../objectives/updates/grouped.js'
import type { PolicySettings } from './settings.js'

type RemoteGroup = 'sampling' | 'lora' | 'compute'

const CHOSEN_ALPHA = 'the server chooses the scale of adapters, mostly alpha 32 divided by the rank'
const CHOSEN_TARGET = 'the server chooses the modules of adapters, mostly all linear layers'

/** The settings of a run that a server follows. */
interface TrainingRequest {
  readonly config: DecoderConfig
  readonly loss: Loss<RolloutEntries>
  readonly optimizer: AnyOptimizer
  readonly key: Key
  readonly passes: Omit<PassOptions, 'maxGradNorm'>
  readonly maxGradNorm: number
  /** Rank of the adapter, or null to train all weights. */
  readonly lora: number | null
  readonly maxTokens: number
  readonly offPolicy: OffPolicyOptions
}

/** A model on a server. */
interface RemoteTraining {
  readonly learner: Learner<RolloutEntries, LossMetrics>
  /** Samples with the weights that were pushed last. */
  readonly policy: Policy<TokenPrompt, TokenAction>
  /** The same weights, at another temperature. */
  readonly at: (sampling: { readonly temperature: number }) => Policy<TokenPrompt, TokenAction>
  /** The model before training. */
  readonly reference: LogProbModel
  readonly updater: WeightUpdater<NamedTensors>
  /** Metrics of the server since the last call, one call for each step. */
  readonly metrics: () => Readonly<Record<string, number>>
  /** Called after the learner is closed. */
  readonly close: () => Promise<void>
}

/** Starts to train a model on a server. */
export type OpenTraining = (request: TrainingRequest) => Promise<RemoteTraining>

/** Settings that have no effect on a server, and why. Their values here are the defaults. */
const NO_EFFECT = {
  lora: {
    alpha: [16, CHOSEN_ALPHA],
    target: ['all-linear', CHOSEN_TARGET],
    scaling: ['alpha/rank', CHOSEN_ALPHA],
  },
  compute: {
    microBatch: [null, 'the server splits batches'],
    recompute: [null, 'the server computes gradients'],
    workers: [1, 'the server samples and computes gradients'],
    dtype: [null, 'the weights stay on the server: download its archive'],
  },
  sampling: { samplerThreads: [1, 'the server samples'] },
} as const satisfies {
  readonly [G in RemoteGroup]: { readonly [K in keyof PolicySettings[G]]?: readonly [PolicySettings[G][K], string] }
}

/** Errors: throws RangeError for settings that have no effect on a server, all of them. */
export const checkRemote = (settings: Pick<PolicySettings, RemoteGroup>): void =>
  refuse('training on a server', [
    settings.sampling.temperature !== 1 && `sampling.temperature must be 1, got ${settings.sampling.temperature}`,
    ...Object.entries(NO_EFFECT).flatMap(([group, fields]) =>
      Object.entries(fields).map(([name, [expected, why]]) => {
        const given = (settings[group as RemoteGroup] as Readonly<Record<string, unknown>>)[name] // a field of its group
        return given !== expected && `${group}.${name} must be ${expected ?? 'off'}, got ${given}: ${why}`
      }),
    ),
  ])

/** Training on a server: what a run needs of it, and the settings that it can follow. */
import type { Learner } from '../collectors/learners/learner.js'
import type { PassOptions } from '../collectors/learners/localLearner.js'
import type { PolicyBatch } from '../collectors/learners/lossKinds.js'
import type { StepMetrics } from '../collectors/steps/stepMetrics.js'
import type { WeightUpdater } from '../collectors/weightSync.js'
import type { Key } from '../core/key.js'
import { refuse } from '../core/options.js'
import type { LogProbModel, Policy, TokenAction, TokenPrompt } from '../data/policy.js'
import type { NamedTensors } from '../data/weights.js'
import type { DecoderConfig } from '../modules/transformer/config.js'
import type { PolicyLoss } from '../objectives/policyLoss.js'
import type { AnyOptimizer } from '../objectives/updates/grouped.js'
import type { PolicySettings } from './settings.js'

/** The settings of a run that a server follows. */
interface TrainingRequest {
  readonly config: DecoderConfig
  readonly loss: PolicyLoss
  readonly optimizer: AnyOptimizer
  readonly key: Key
  readonly passes: Omit<PassOptions, 'maxGradNorm'>
  readonly maxGradNorm: number
  /** Rank of the adapter, or null to train all weights. */
  readonly lora: number | null
  readonly maxTokens: number
}

/** A model on a server. */
interface RemoteTraining {
  readonly learner: Learner<PolicyBatch, StepMetrics>
  /** Samples with the weights that were pushed last. */
  readonly policy: Policy<TokenPrompt, TokenAction>
  /** The same weights, at another temperature. */
  readonly at: (sampling: { readonly temperature: number }) => Policy<TokenPrompt, TokenAction>
  /** The model before training. */
  readonly reference: LogProbModel
  readonly updater: WeightUpdater<NamedTensors>
  /** Called after the learner is closed. */
  readonly close: () => Promise<void>
}

/** Starts to train a model on a server. */
export type OpenTraining = (request: TrainingRequest) => Promise<RemoteTraining>

/** Errors: throws RangeError for settings that a server does not follow, all of them. */
export const checkRemote = ({ sampling, offPolicy }: Pick<PolicySettings, 'sampling' | 'offPolicy'>): void =>
  refuse('training on a server', [
    sampling.temperature !== 1 && `sampling.temperature must be 1, got ${sampling.temperature}`,
    sampling.maxLag > 0 && 'sampling.maxLag must be 0',
    offPolicy.oldLogProbs !== 'sampled' && `offPolicy.oldLogProbs must be sampled, got ${offPolicy.oldLogProbs}`,
    offPolicy.truncated !== 'learn' && `offPolicy.truncated must be learn, got ${offPolicy.truncated}`,
  ])

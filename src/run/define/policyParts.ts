/** Parts that runs of an environment and runs of the user's agent share. */
import { orThrow } from '@tandem-rl/base'
import { liveMachine } from '@tandem-rl/base/host'
import type { WeightUpdater } from '../../collectors/weightSync.js'
import type { EngineClient } from '../../data/engineClient.js'
import type { Policy, TokenAction, TokenPrompt } from '../../data/policy.js'
import type { NamedTensors } from '../../data/weights.js'
import type { MemoryEstimate } from '../../learners/memoryEstimate.js'
import { memoryEstimate, requireMemory } from '../../learners/memoryEstimate.js'
import type { Pretrained } from '../../modules/pretrained/pretrained.js'
import { parameterCount } from '../../modules/transformer/params.js'
import type { Advantage } from '../../objectives/advantages/advantage.js'
import type { BatchAdvantage } from '../../objectives/advantages/defineAdvantage.js'
import type { Loss } from '../../objectives/loss.js'
import type { RolloutEntries } from '../../objectives/lossRows.js'
import type { BuildContext } from '../parts/recipe.js'
import type { AnyRun } from '../parts/run.js'
import type { PolicySettings } from '../parts/settings.js'
import { bySize } from './bySize.js'
import type { LearningTrials } from './calibrate.js'
import { loraOf, stateNumbers } from './choices.js'

/** The settings of a run. A recipe that trains its own start model has no `model`. */
export type PolicyRunSettings = Omit<PolicySettings, 'model'> & Partial<Pick<PolicySettings, 'model'>>

/** The parts that `grpoParts` makes of settings. A run may replace loss and advantage. */
export interface RunPlan {
  readonly settings: PolicyRunSettings
  readonly loss: Loss<RolloutEntries>
  /** An advantage, or a function that adds `advantage` to a batch. */
  readonly advantage: Advantage | BatchAdvantage
}

/** A policy for sampling, and the updater that sends it new weights. */
export interface PolicySampler {
  readonly policy: Policy<TokenPrompt, TokenAction>
  readonly updater: WeightUpdater<NamedTensors>
  /** The server, if there is exactly one: the user's agent samples from it. */
  readonly client?: EngineClient
  /** Called once before the run samples or pushes. */
  readonly begin?: () => Promise<void>
  readonly close: () => Promise<void>
}

/** A run of this process or of a server. */
export interface PolicyRun extends AnyRun {
  /** The memory that it is estimated to need, unless a server trains. */
  readonly memory?: MemoryEstimate
  /** Measures other threads and micro-batches, unless a server trains. */
  readonly trials?: LearningTrials
}

/** The parts of a run's memory estimate besides its settings and model. */
export interface RunSizes {
  /** Tokens of a prompt. */
  readonly prompt: number
  readonly weights: NamedTensors
  readonly context: BuildContext
}

const numbersOf = (tensors: NamedTensors): number => Object.values(tensors).reduce((sum, { size }) => sum + size, 0)

/** Returns the number of trained parameters. */
const trainedNumbers = (settings: PolicyRunSettings, { config }: Pretrained, weights: NamedTensors): number => {
  const all = parameterCount(config)
  return loraOf(settings) === undefined ? all : numbersOf(weights) - all
}

/** Returns the sizes from which the memory of a run is estimated. */
export const memoryRequest = (settings: PolicyRunSettings, model: Pretrained, { prompt, weights }: RunSizes) => {
  const { microBatch, recompute } = bySize(settings, model.config)
  return {
    config: model.config,
    trained: trainedNumbers(settings, model, weights),
    stateNumbers: stateNumbers(settings),
    batch: {
      prompts: settings.tasks.prompts,
      group: settings.tasks.group,
      promptTokens: prompt,
      completionTokens: settings.sampling.maxNewTokens,
    },
    microBatchTokens: microBatch.value,
    recompute: recompute.value,
    threads: settings.compute.workers - 1 + (settings.sampling.maxLag > 0 ? 1 : 0),
  }
}

/**
 * Estimates the memory of a run. Throws FailureError if it exceeds the machine's, unless the
 * context ignores that.
 */
export const runMemory = (settings: PolicyRunSettings, model: Pretrained, sizes: RunSizes): MemoryEstimate => {
  const request = memoryRequest(settings, model, sizes)
  return sizes.context.memory === 'ignore'
    ? memoryEstimate(request)
    : orThrow(requireMemory(request, liveMachine.memoryBytes()))
}

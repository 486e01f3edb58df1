/** The parts of a run on word problems, wired together. */
import { pipe } from 'fp-ts/lib/function.js'
import { child, keyFromSeed } from '../../core/key.js'
import type { LogProbModel, TokenAction, TokenPrompt } from '../../data/policy.js'
import { shuffled, type TaskSource } from '../../data/task.js'
import type { DeepMerge } from '../../data/tensorDict/merge.js'
import type { NamedTensors } from '../../data/weights.js'
import type { Env } from '../../envs/env.js'
import { GSM8KEnv, type GSM8KState } from '../../envs/gsm8kEnv.js'
import { type KLEntries, KLRewardTransform } from '../../envs/transforms/klRewardTransform.js'
import { PolicyVersion, type VersionEntry } from '../../envs/transforms/policyVersion.js'
import { TemplateTransform, type TextEntries } from '../../envs/transforms/templateTransform.js'
import { Tokenizer } from '../../envs/transforms/tokenizer.js'
import { append } from '../../envs/transforms/transform.js'
import type { ModelText, Pretrained } from '../../modules/pretrained.js'
import { type TransformersPolicy, TransformersWrapper } from '../../modules/transformersWrapper.js'
import { MCAdvantage } from '../../objectives/advantages/mcAdvantage.js'
import { ALGORITHMS } from '../../objectives/algorithms.js'
import { type AdamWState, adamW } from '../../objectives/updates/adamW.js'
import { type GroupedRows, groupRows, trainingRows } from '../groups.js'
import { type CollectedBatch, type CollectorPosition, LLMCollector } from '../llmCollector.js'
import { type TrainingRows, withNoise } from '../stepRows.js'
import { type TrainStep, trainStep } from '../trainStep.js'
import { lossOf, type RunSettings } from './settings.js'

/** What the states of word problems have once text and tokens are added. */
export type WordProblemState = DeepMerge<DeepMerge<GSM8KState, TextEntries>, TokenPrompt>

/** Word problems as token ids: the environment of `tandem train` and `tandem eval`. */
export const wordProblemEnv = (
  source: TaskSource,
  text: ModelText,
  batch: { readonly prompts: number; readonly repeats?: number },
): Env<WordProblemState, TokenAction> =>
  pipe(
    GSM8KEnv({ source, ...batch }),
    append(TemplateTransform({ template: text.template, endOfTurn: text.endOfTurn })),
    append(Tokenizer({ tokenizer: text.tokenizer })),
  )

/** The state with what training adds to it. */
export type TrainingState = DeepMerge<DeepMerge<WordProblemState, KLEntries>, VersionEntry>

export interface Pipeline {
  readonly policy: TransformersPolicy
  readonly collector: LLMCollector<TrainingState>
  /** Advantages of the groups of a batch. */
  readonly group: (batch: CollectedBatch<TrainingState>) => GroupedRows
  /** What step `step` learns from. */
  readonly rows: (batch: CollectedBatch<TrainingState>, grouped: GroupedRows, step: number) => TrainingRows
  readonly step: TrainStep<AdamWState>
  readonly release: () => void
}

/** The run's stream of random numbers for each purpose. */
export const runKeys = (seed: number) => {
  const root = keyFromSeed(seed)
  return {
    tasks: child(root, 'tasks'),
    rollouts: child(root, 'rollouts'),
    evaluation: child(root, 'evaluation'),
    adapter: child(root, 'adapter'),
    noise: child(root, 'noise'),
  } as const
}

/** What a run is wired from, besides its settings and its model. */
export interface PipelineParts {
  readonly params: NamedTensors
  /** Those among `params` that training leaves alone. Default: none. */
  readonly frozen?: NamedTensors
  readonly reference: LogProbModel
  readonly tasks: TaskSource
  /** Default: the beginning. */
  readonly start?: CollectorPosition
}

/**
 * Wires a run: environment, policy, collector, advantages, training step.
 *
 * Effects  the policy keeps `params`; `release` frees them, the compiled graphs and the reference's.
 */
export const makePipeline = (
  settings: RunSettings,
  model: Pick<Pretrained, 'config' | 'text'>,
  { params, frozen, reference, tasks, start }: PipelineParts,
): Pipeline => {
  const { config, text } = model
  const keys = runKeys(settings.seed)
  const policy = TransformersWrapper({
    config,
    params,
    sampling: { temperature: settings.temperature, maxNewTokens: settings.maxNewTokens },
  })
  const env = pipe(
    wordProblemEnv(shuffled(tasks, keys.tasks), text, { prompts: settings.prompts, repeats: settings.group }),
    append(KLRewardTransform({ reference, coefficient: settings.klCoefficient })),
    append(PolicyVersion()),
  )
  const loss = lossOf(settings)
  const estimator = MCAdvantage({ groupSize: settings.group })
  const step = trainStep({
    config,
    optimizer: adamW(),
    loss,
    maxGradNorm: settings.maxGradNorm,
    microBatchTokens: settings.microBatch,
    recompute: settings.recompute,
    ...(frozen && { frozen }),
  })
  return {
    policy,
    collector: LLMCollector({ env, policy, key: keys.rollouts, ...(start && { start }) }),
    group: (batch) => groupRows(batch, estimator, ALGORITHMS[settings.algorithm].advantage),
    rows: (batch, grouped, number) => {
      const rows = trainingRows(batch, grouped)
      return loss.needs.noise === 'yes' ? withNoise(rows, child(keys.noise, number)) : rows
    },
    step,
    release: () => {
      policy.release()
      step.release()
    },
  }
}

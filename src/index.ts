/**
 * Tandem, reinforcement-learning post-training of language models: the road from a task to weights.
 *
 * The root is for everybody who trains a model: environments and transforms, the collector,
 * advantages, losses, learners, runs and recipes, failures and random keys. Everything else has a
 * door of its own, named after the job: `@tandem-rl/text`, `tandem-rl/rewards`, `tandem-rl/files`
 * and so on. A name has one door. `TD` is the door `tandem-rl/tensordict` as a namespace. `pipe`,
 * `E` and `TE` are fp-ts's, `tf` is tfjs-core and `z` is zod: programs need no dependency on them.
 *
 * @module
 */
import '@tandem-rl/tfjs-onnxruntime'

export {
  type Calendar,
  type Clock,
  type ConfigFailure,
  child,
  constant,
  cosine,
  describe,
  type Failure,
  FailureError,
  type FileFailure,
  type Files,
  type FormatFailure,
  fileFailure,
  formatKey,
  type Ids,
  type Key,
  keyFromSeed,
  linear,
  type ModelFailure,
  normals,
  type Output,
  type OutputFailure,
  orThrow,
  parseKey,
  permutation,
  type RowFailure,
  rowFailure,
  type Schedule,
  type TemplateFailure,
  type Timers,
  uniform,
  uniformInteger,
  uniforms,
  warmUp,
} from '@tandem-rl/base'
export { liveCalendar, liveClock, liveOutput } from '@tandem-rl/base/host'
export type { Task } from '@tandem-rl/text'
export * as tf from '@tensorflow/tfjs-core'
export * as E from 'fp-ts/lib/Either.js'
export { pipe } from 'fp-ts/lib/function.js'
export * as TE from 'fp-ts/lib/TaskEither.js'
export { z } from 'zod'
export {
  type BatchOptions,
  type Collected,
  type CollectorEnded,
  type CollectorFailure,
  type ConcurrentCollectorOptions,
  type ConcurrentLLMCollector,
  LLMCollector,
  type LLMCollectorOptions,
} from './collectors/llmCollector.js'
export type { CollectedBatch, TurnEntries } from './collectors/rollouts/turnRows.js'
export { inProcessUpdater, type WeightUpdater } from './collectors/weightSync.js'
export {
  type ApplyChatTemplateOptions,
  applyChatTemplate,
  type ChatPadding,
  type ChatTokens,
  type PaddedChatTokens,
} from './data/applyChatTemplate.js'
export type {
  AdvantageEntry,
  GroupEntry,
  ReturnsEntry,
  RowIdentity,
} from './data/batch.js'
export { gsm8kTasks } from './data/datasets/gsm8k.js'
export { wordProblems } from './data/datasets/wordProblems/wordProblems.js'
export type {
  HistoryAction,
  HistoryPrompt,
  LogProbModel,
  Policy,
  PolicyFailure,
  SamplingRecord,
  StopReason,
  TextAction,
  TextPrompt,
  TokenAction,
  TokenPrompt,
} from './data/policy.js'
export {
  endlessTasks,
  type RowSource,
  type RowTask,
  rowList,
  shuffled,
  type TaskSource,
  taskList,
} from './data/task.js'
export * as TD from './doors/tensordict.js'
export type { AnswerEnv, EpisodeOptions } from './envs/answerEnv.js'
export { type Env, type EnvFailure, envFailure, type Outcome, type StepOptions } from './envs/base/env.js'
export { ChatEnv, type ChatEnvOptions, type ChatQuery, type ChatState } from './envs/chatEnv.js'
export { CountdownEnv, type CountdownEnvOptions } from './envs/countdownEnv.js'
export type { DatasetChatStateOf } from './envs/datasetChatEnv.js'
export { DatasetChatEnv, type DatasetChatEnvOptions } from './envs/datasetChatEnv.js'
export { GSM8KEnv, type GSM8KEnvOptions, type GSM8KState } from './envs/gsm8kEnv.js'
export { IFEvalEnv, type IFEvalEnvOptions } from './envs/ifEvalEnv.js'
export { LLMEnv, type LLMEnvOptions } from './envs/llmEnv.js'
export { makeGSM8KEnv } from './envs/makeGSM8KEnv.js'
export { MATHEnv, type MATHEnvOptions } from './envs/mathEnv.js'
export type { MultiTurnState } from './envs/multiTurnEnv.js'
export {
  MultiTurnEnv,
  type MultiTurnEnvOptions,
  type ReplyFunction,
  type TurnReply,
  type TurnScene,
} from './envs/multiTurnEnv.js'
export { type RolloutOptions, type RolloutSteps, rollout } from './envs/rollout.js'
export type { SingleTurnState } from './envs/singleTurnEnv.js'
export { SingleTurnEnv, type SingleTurnEnvOptions } from './envs/singleTurnEnv.js'
export type { TokenEnvState } from './envs/tokenEnv.js'
export { type TokenEnvText, tokenEnv } from './envs/tokenEnv.js'
export { AddThinkingPrompt, type AddThinkingPromptOptions } from './envs/transforms/addThinkingPrompt.js'
export { CountdownRewardParser, GSM8KRewardParser, MATHRewardParser } from './envs/transforms/answerParsers.js'
export { DataLoadingPrimer, type DataLoadingPrimerOptions } from './envs/transforms/dataLoadingPrimer.js'
export { type FormatPenaltyOptions, formatPenalty } from './envs/transforms/formatPenalty.js'
export { IfEvalScorer } from './envs/transforms/ifEvalScorer.js'
export { IncrementalTokenizer, type IncrementalTokenizerOptions } from './envs/transforms/incrementalTokenizer.js'
export {
  KLComputation,
  type KLComputationOptions,
  type KLPenalty,
  type KLShape,
} from './envs/transforms/klComputation.js'
export {
  type KLEntries,
  KLRewardTransform,
  type KLRewardTransformOptions,
  RetrieveKL,
  type RetrieveKLOptions,
} from './envs/transforms/klRewardTransform.js'
export { type ObservationLimitOptions, observationLimit } from './envs/transforms/observationLimit.js'
export { overlongPenalty } from './envs/transforms/overlongPenalty.js'
export { PolicyVersion, type VersionEntry } from './envs/transforms/policyVersion.js'
export { type LogProbEntries, RetrieveLogProb, type RetrieveLogProbOptions } from './envs/transforms/retrieveLogProb.js'
export type { RewardEntries } from './envs/transforms/rewardEntries.js'
export { type EpisodeSums, RewardSum, type RewardSumOptions } from './envs/transforms/rewardSum.js'
export { type RewardTransformOptions, rewardTransform } from './envs/transforms/rewardTransform.js'
export { type StepCount, StepCounter } from './envs/transforms/stepCounter.js'
export {
  TemplateTransform,
  type TemplateTransformOptions,
  type TextEntries,
} from './envs/transforms/templateTransform.js'
export { type TokenBudgetOptions, tokenBudget } from './envs/transforms/tokenBudget.js'
export { Tokenizer } from './envs/transforms/tokenizer.js'
export {
  type Added,
  append,
  compose,
  identity,
  type StepContext,
  type Stepped,
  type Transform,
  type TransformParts,
  transform,
} from './envs/transforms/transform.js'
export type { Learner, LearnerFailure, Update } from './learners/learner.js'
export {
  type ComputeOptions,
  type LocalLearner,
  type LocalLearnerOptions,
  localLearner,
  type PassOptions,
} from './learners/localLearner.js'
export { formatEstimate, type MemoryEstimate, memoryEstimate } from './learners/memoryEstimate.js'
export type { OffPolicyOptions } from './learners/offPolicy.js'
export { chatBatch, pairBatch } from './learners/textBatch.js'
export { type MaskedBatch, preferenceBatch, tokenBatch } from './learners/tokenBatch.js'
export type { LoraOptions } from './learners/trainable.js'
export { EMBEDDED_MODEL } from './live/embeddedModel.js'
export { type HistoryPolicyOptions, historyPolicy } from './modules/historyPolicy.js'
export { loadPretrained, type ModelText, type Pretrained } from './modules/pretrained/pretrained.js'
export { saveModel } from './modules/pretrained/saveModel.js'
export {
  type TransformersPolicy,
  TransformersWrapper,
  type TransformersWrapperOptions,
} from './modules/transformersWrapper.js'
export { defineAdvantage } from './objectives/advantages/defineAdvantage.js'
export { MCAdvantage, type MCAdvantageOptions } from './objectives/advantages/mcAdvantage.js'
export { MCAdvantageSelector, type MCAdvantageSelectorOptions } from './objectives/advantages/mcAdvantageSelector.js'
export { GAE } from './objectives/advantages/valueAdvantages.js'
export { type DistillationBatch, DistillationLoss } from './objectives/distillationLoss.js'
export { type DPOLossOptions, dpoLoss } from './objectives/dpoLoss.js'
export { GRPOLoss, type GRPOLossOptions } from './objectives/grpoLoss.js'
export { defineLoss, type Loss } from './objectives/loss.js'
export type { CompletionEntries, PreferenceBatch } from './objectives/lossRows.js'
export { type PolicyBatch, type PolicyLoss, policyLoss } from './objectives/policyLoss.js'
export { type PPOBatch, ppoLoss } from './objectives/ppoLoss.js'
export { rewardModelLoss } from './objectives/rewardModelLoss.js'
export { SFTLoss } from './objectives/sftLoss.js'
export { tokenMean } from './objectives/tokenLosses/aggregation.js'
export { adafactor } from './objectives/updates/adafactor.js'
export { type AdamWOptions, adamW } from './objectives/updates/adamW.js'
export { lion } from './objectives/updates/lion.js'
export { muon } from './objectives/updates/muon.js'
export type { Optimizer } from './objectives/updates/optimizer.js'
export { sgd } from './objectives/updates/sgd.js'
export { type ValueBatch, valueLoss } from './objectives/valueLoss.js'
export {
  type AgentRecipeOptions,
  defineRecipe,
  type RecipeContext,
  type RecipeEnv,
  type RecipeOptions,
  type TaskRecipeOptions,
} from './run/define/defineRecipe.js'
export { defineRun } from './run/define/defineRun.js'
export { grpoParts } from './run/define/grpoParts.js'
export { makeModel } from './run/define/makeModel.js'
export type { PolicyRunParts, TaskContext, TaskEnv } from './run/define/modelRun.js'
export {
  type EvaluationContext,
  type EvaluationResult,
  type Evaluator,
  type EvaluatorOptions,
  evaluator,
} from './run/metrics/evaluation.js'
export { lossEvaluator } from './run/parts/lossEvaluator.js'
export type { BuildContext, Recipe, RecipeAgent, SettingsFailure, SettingsSchema } from './run/parts/recipe.js'
export { rowBatches, splitRows } from './run/parts/rowBatches.js'
export type { AnyRun, DataRunParts, RunParts } from './run/parts/run.js'
export { dataSettings, type PolicySettings, policySettings, settings } from './run/parts/settings.js'
export { heldOutProblems, rowSettings, rowTasks, type TaskSettings, trainingTasks } from './run/parts/tasks.js'
export { withDefaults } from './run/parts/withDefaults.js'
export type { AlarmOptions, KeepOptions, TrainOptions } from './run/store/options.js'
export { type RunStore, runFolder } from './run/store/store.js'
export { describeEvent } from './run/train/describeEvent.js'
export type { RunEvent } from './run/train/events.js'
export { train } from './run/train/train.js'

/**
 * For those who build on runs: the records and events of a run, its parts and settings in detail,
 * checkpoints, replay, evaluation and the settings that recipes share. `defineRun`, `train` and
 * `defineRecipe` are in the root.
 *
 * @module
 */
import '../engine/defaultBackend.js'

export type { AgentReward } from '../run/agentReward.js'
export type { AgentHeldOut, AgentRunParts } from '../run/agentRun.js'
export { ALARM_KINDS, type Alarm, type AlarmKind, type AlarmLimits, DEFAULT_ALARM_LIMITS } from '../run/alarms.js'
export { type BatchMetrics, batchMetrics, type TrajectoryNumbers, trajectoryNumbers } from '../run/batchMetrics.js'
export { type LearnerSettings, learnerParts } from '../run/choices.js'
export type { CollectOptions, EnvContext, EnvOf } from '../run/collecting.js'
export type { RecipeHeldOut, RecipeSettings } from '../run/defineRecipe.js'
export type { EvaluationPart, Measure, Scores } from '../run/evaluation.js'
export { exportsOf } from '../run/exported.js'
export {
  type LoadCheckpointOptions,
  type LoopState,
  loadCheckpoint,
  type SaveCheckpointOptions,
  saveCheckpoint,
} from '../run/loopCheckpoint.js'
export type { LossEvaluatorOptions } from '../run/lossEvaluator.js'
export {
  type MakeModelEvent,
  type MakeModelFailure,
  type MakeModelOptions,
  type ModelStage,
  type TrainModelEvent,
  type TrainModelFailure,
  type TrainModelOptions,
  trainModel,
} from '../run/makeModel.js'
export type { HeldOut } from '../run/modelRun.js'
export type { RunRhythm } from '../run/options.js'
export type { PolicyRun, PolicyRunSettings, PolicySampler, RunPlan } from '../run/policyParts.js'
export { type QueuedOptions, queuedRun } from '../run/queued.js'
export { pairRater, type RatedEntries, type Rater, teacherRater, valueRater } from '../run/rater.js'
export type { SettingsSchema } from '../run/recipe.js'
export type {
  EvaluationRecord,
  EvaluationSummary,
  OverlapRecord,
  PhaseSeconds,
  RunSummary,
  StepRecord,
  TrajectoryRecord,
  UpdateMetrics,
} from '../run/records.js'
export { type ReplayEvent, type ReplayOptions, replay } from '../run/replay.js'
export type { RowBatches, RowBatchOptions, SplitRowsOptions } from '../run/rowBatches.js'
export { closing, type RecordOptions, type RunGroups } from '../run/run.js'
export { type SampledText, type SampleOptions, sampleCompletions } from '../run/sample.js'
export type { AheadOptions, BatchSource, KLWeight, OpenSource, SourceBatch, SourceStart } from '../run/source.js'
export { DATASET_HELP, type RowTaskSettings, type RunTasks } from '../run/tasks.js'
export { type VLLMSamplerOptions, vLLMSampler } from '../run/vLLMSampler.js'

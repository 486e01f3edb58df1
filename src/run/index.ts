/** Training runs: recipes, steps, checkpoints, resume, evaluation, alarms and reports. Custom loops do not need this module. */
export {
  ALARM_KINDS,
  type Alarm,
  type AlarmKind,
  type AlarmLimits,
  DEFAULT_ALARM_LIMITS,
} from './alarms.js'
export { type BatchMetrics, batchMetrics, type TrajectoryNumbers, trajectoryNumbers } from './batchMetrics.js'
export { type LearnerSettings, learnerParts } from './choices.js'
export type { CollectOptions, EnvContext, EnvOf } from './collecting.js'
export { describeEvent } from './describeEvent.js'
export {
  type EvaluationContext,
  type EvaluationPart,
  type EvaluationResult,
  type Evaluator,
  type EvaluatorOptions,
  evaluator,
  type Measure,
  type Scores,
} from './evaluation.js'
export type { RunEvent } from './events.js'
export { exportsOf } from './exported.js'
export {
  type LoadCheckpointOptions,
  type LoopState,
  loadCheckpoint,
  type SaveCheckpointOptions,
  saveCheckpoint,
} from './loopCheckpoint.js'
export { type LossEvaluatorOptions, lossEvaluator } from './lossEvaluator.js'
export {
  type MakeModelEvent,
  type MakeModelFailure,
  type MakeModelOptions,
  type ModelStage,
  makeModel,
  type TrainModelEvent,
  type TrainModelFailure,
  type TrainModelOptions,
  trainModel,
} from './makeModel.js'
export type { AlarmOptions, KeepOptions, RunRhythm, TrainOptions } from './options.js'
export {
  type HeldOut,
  type PolicyRun,
  type PolicyRunParts,
  type PolicyRunSettings,
  type PolicySampler,
  policyRun,
  type TaskContext,
  type TaskEnv,
} from './policyRun.js'
export { type QueuedOptions, queuedRun } from './queued.js'
export { pairRater, type RatedEntries, type Rater, teacherRater, valueRater } from './rater.js'
export {
  type BuildContext,
  defineRecipe,
  type Recipe,
  type RecipeOptions,
  type SettingsFailure,
  type SettingsSchema,
} from './recipe.js'
export type {
  EvaluationRecord,
  EvaluationSummary,
  OverlapRecord,
  PhaseSeconds,
  RunSummary,
  StepRecord,
  TrajectoryRecord,
  UpdateMetrics,
} from './records.js'
export { type ReplayEvent, type ReplayOptions, replay } from './replay.js'
export { type RowBatches, type RowBatchOptions, rowBatches, type SplitRowsOptions, splitRows } from './rowBatches.js'
export {
  type AnyRun,
  closing,
  type DataRunParts,
  defineRun,
  type RecordOptions,
  type RunGroups,
  type RunParts,
} from './run.js'
export { type SampledText, type SampleOptions, sampleCompletions } from './sample.js'
export { dataSettings, type PolicySettings, policySettings, settings } from './settings.js'
export type { AheadOptions, BatchSource, KLWeight, OpenSource, SourceBatch, SourceStart } from './source.js'
export { type RunStore, runFolder } from './store.js'
export {
  DATASET_HELP,
  heldOutProblems,
  type RowTaskSettings,
  type RunTasks,
  rowSettings,
  rowTasks,
  type TaskSettings,
  trainingTasks,
} from './tasks.js'
export { train } from './train.js'
export { type VLLMSamplerOptions, vLLMSampler } from './vLLMSampler.js'
export { withDefaults } from './withDefaults.js'

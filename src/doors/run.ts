/**
 * For those who build on runs: the records and events of a run, its parts and settings in detail,
 * checkpoints, replay, evaluation, readers of run folders and the settings that recipes share.
 * `defineRun`, `train` and `defineRecipe` are in the root.
 *
 * @module
 */
import '@tandem-rl/tfjs-onnxruntime'

export type { AgentHeldOut, AgentRunParts } from '../run/define/agentRun.js'
export { type LearnerSettings, learnerParts, policyLearnerParts } from '../run/define/choices.js'
export type { RecipeHeldOut, RecipeSettings } from '../run/define/defineRecipe.js'
export { exportsOf } from '../run/define/exported.js'
export {
  type MakeModelEvent,
  type MakeModelFailure,
  type MakeModelOptions,
  type ModelStage,
  type TrainModelEvent,
  type TrainModelFailure,
  type TrainModelOptions,
  trainModel,
} from '../run/define/makeModel.js'
export type { HeldOut } from '../run/define/modelRun.js'
export type { PolicyRun, PolicyRunSettings, PolicySampler, RunPlan } from '../run/define/policyParts.js'
export { type RunReference, runReference } from '../run/define/runReference.js'
export { type VLLMSamplerOptions, vLLMSampler } from '../run/define/vLLMSampler.js'
export type { AlarmKind } from '../run/metrics/alarmRules.js'
export type { Alarm, AlarmLimits } from '../run/metrics/alarms.js'
export type { BatchMetrics } from '../run/metrics/batchMetrics.js'
export type { EvaluationPart, Measure, Scores } from '../run/metrics/evaluation.js'
export type {
  EvaluationRecord,
  EvaluationSummary,
  OverlapRecord,
  PhaseSeconds,
  RunSummary,
  StepRecord,
  TrajectoryRecord,
  UpdateMetrics,
} from '../run/metrics/records.js'
export type { AgentReward } from '../run/parts/agentReward.js'
export type { EnvContext } from '../run/parts/collecting.js'
export type { LossEvaluatorOptions } from '../run/parts/lossEvaluator.js'
export { pairRater, type RatedEntries, type Rater, teacherRater, valueRater } from '../run/parts/rater.js'
export type { RowBatches, RowBatchOptions, SplitRowsOptions } from '../run/parts/rowBatches.js'
export { closing, type RecordOptions, type RunGroups } from '../run/parts/run.js'
export type { AheadOptions, BatchSource, KLWeight, OpenSource, SourceBatch, SourceStart } from '../run/parts/source.js'
export { DATASET_HELP, type RowTaskSettings, type RunTasks } from '../run/parts/tasks.js'
export { readReportStyle } from '../run/report/reportAssets.js'
export {
  type LoadCheckpointOptions,
  type LoopState,
  loadCheckpoint,
  type SaveCheckpointOptions,
  saveCheckpoint,
} from '../run/store/loopCheckpoint.js'
export type { RunRhythm } from '../run/store/options.js'
export { checkFree } from '../run/store/runFolder.js'
export { type RunReader, type RunRecords, readRun } from '../run/store/runReader.js'
export { createRunFolder, type RunWriter, writeRun } from '../run/store/runWriter.js'
export { type ReplayEvent, type ReplayOptions, replay } from '../run/train/replay.js'
export { resampleStep } from '../run/train/resampleStep.js'
export { evaluationKey } from '../run/train/train.js'
export { trajectoryRecordsOf } from '../run/train/trajectoryRecords.js'

/** Whole training runs: checkpoints, resume, evaluation, alarms, report. For those who train with `train`; loops of one's own need none of it. */
export {
  ALARM_KINDS,
  type Alarm,
  type AlarmKind,
  type AlarmLimits,
  type AlarmState,
  alarmLimits,
  DEFAULT_ALARM_LIMITS,
  NO_ALARMS,
  watchStep,
  watchSteps,
} from './alarms.js'
export { type RowsFailure, rowsFromTensorDict, rowsToTensorDict } from './batchFolder.js'
export {
  type EvaluationOptions,
  type EvaluationScores,
  evaluateProblems,
  type ProblemResult,
  scoresOf,
} from './evaluate.js'
export type { RunEvent } from './events.js'
export { makePipeline, type Pipeline, wordProblemEnv } from './pipeline.js'
export {
  finishRun,
  type PreparedRun,
  type PrepareFailure,
  type PrepareOptions,
  prepareRun,
  type RunRequest,
} from './prepare.js'
export type { EvaluationRecord, PhaseSeconds, RunSummary, StepRecord, TrajectoryRecord } from './records.js'
export { renderReport } from './report.js'
export { type SampledText, type SampleOptions, sampleCompletions } from './sample.js'
export type { TrainOptions } from './session.js'
export { DEFAULT_SETTINGS, type RunSettings } from './settings.js'
export { evaluationTasks, loadTasks, openTasks, type RunTasks } from './tasks.js'
export { train } from './train.js'

/** What a run holds from its first step to its last. */
import type { Clock, Files } from '../core/capabilities.js'
import type { Changing } from '../core/changing.js'
import type { TaskSource } from '../data/task.js'
import type { AlarmWatch } from './alarmWatch.js'
import type { Checkpoint } from './checkpoint.js'
import type { Learner } from './learner.js'
import type { EvaluationRecord, StepRecord } from './records.js'
import type { LineLog, RunPaths } from './runFolder.js'
import type { SamplerEngine } from './runSampler.js'
import type { RunSettings } from './settings.js'
import type { Trainable } from './weights.js'

export interface TrainOptions extends Trainable {
  readonly settings: RunSettings
  readonly paths: RunPaths
  readonly tasks: TaskSource
  readonly evalTasks: TaskSource
  /** Where to go on, with the records up to there. */
  readonly resume?: { readonly checkpoint: Checkpoint; readonly records: readonly (StepRecord | EvaluationRecord)[] }
  /** What samples beside the run, where `maxLag` is not 0. */
  readonly sampler?: SamplerEngine
  /** Of the completions that are kept of a step, how many are told as an event. Default 0: none, and no event. */
  readonly samples?: number
  /** When aborted, the run finishes its step, saves and ends. */
  readonly signal?: AbortSignal
  readonly files?: Files
  readonly clock?: Clock
}

export interface Session {
  readonly options: TrainOptions
  readonly files: Files
  readonly clock: Clock
  readonly learner: Learner
  readonly metrics: LineLog
  readonly trajectories: LineLog
  readonly records: (StepRecord | EvaluationRecord)[]
  readonly startedAt: number
  /** Seconds of earlier sessions. */
  readonly secondsBefore: number
  /** Null if nobody wants alarms. */
  readonly watch: AlarmWatch | null
  readonly state: Changing<{
    /** By an alarm: the run saves and ends. */
    readonly isStopped: boolean
    readonly checkpointSeconds: number
  }>
}

/** Of all sessions of the run. */
export const secondsTotal = ({ clock, startedAt, secondsBefore }: Session): number =>
  secondsBefore + (clock.now() - startedAt) / 1000

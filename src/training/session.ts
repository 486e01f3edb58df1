/** What a run holds from its first step to its last. */
import type { Clock, Files } from '../core/capabilities.js'
import type { Changing } from '../core/changing.js'
import type { AlarmWatch } from './alarmWatch.js'
import type { TrainOptions } from './options.js'
import type { EvaluationRecord, StepRecord } from './records.js'
import type { LineLog } from './runFolder.js'
import type { OpenRun } from './step.js'
import type { OpenStore } from './store.js'

export interface Session {
  readonly options: TrainOptions
  readonly open: OpenRun
  /** Null for a run that keeps nothing. */
  readonly store: OpenStore | null
  readonly files: Files
  readonly clock: Clock
  readonly metrics: LineLog
  readonly trajectories: LineLog
  readonly records: (StepRecord | EvaluationRecord)[]
  readonly startedAt: number
  /** Seconds of earlier sessions. */
  readonly secondsBefore: number
  /** Null where alarms are off. */
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

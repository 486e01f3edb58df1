/** The state of a run while it executes. */
import type { Changing, Clock, Files } from '@tandem-rl/base'
import type { EvaluationRecord, StepRecord } from '../metrics/records.js'
import type { TrainOptions } from '../store/options.js'
import type { LineLog } from '../store/runFolder.js'
import type { OpenStore } from '../store/store.js'
import type { AlarmWatch } from './alarmWatch.js'
import type { OpenRun } from './step.js'

export interface Session {
  readonly options: TrainOptions
  readonly open: OpenRun
  /** `null` for a run without a folder. */
  readonly store: OpenStore | null
  readonly files: Files
  readonly clock: Clock
  readonly metrics: LineLog
  readonly trajectories: LineLog
  readonly records: (StepRecord | EvaluationRecord)[]
  readonly startedAt: number
  /** Wall-clock seconds of earlier sessions. */
  readonly secondsBefore: number
  /** `null` if alarms are off. */
  readonly watch: AlarmWatch | null
  readonly state: Changing<{
    /** Set by an alarm in `stop` mode: the run saves and ends. */
    readonly isStopped: boolean
    readonly checkpointSeconds: number
  }>
}

/** Returns the wall-clock seconds over all sessions of the run. */
export const secondsTotal = ({ clock, startedAt, secondsBefore }: Session): number =>
  secondsBefore + (clock.now() - startedAt) / 1000

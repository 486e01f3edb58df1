/** The events of a run. */
import type { Json } from '@tandem-rl/base'
import type { Alarm } from '../metrics/alarms.js'
import type { Calibration } from '../metrics/calibration.js'
import type { EvaluationRecord, RunSummary, StepRecord, TrajectoryRecord } from '../metrics/records.js'

/** An event of a run. `train` yields events in order. */
export type RunEvent =
  | {
      readonly type: 'start'
      readonly firstStep: number
      readonly steps: number
      /** The settings of the recipe, or the description of the run's parts. */
      readonly settings: Readonly<Record<string, Json>>
    }
  /** The measurements that chose threads, workers and micro-batch. Follows the first `start`. */
  | ({ readonly type: 'calibration' } & Calibration)
  /** A condition that may change results, such as resuming with another number of threads. */
  | { readonly type: 'warning'; readonly message: string }
  | {
      readonly type: 'evaluating'
      readonly name: string
      readonly step: number
      readonly done: number
      readonly tasks: number
    }
  | EvaluationRecord
  | StepRecord
  | ({
      readonly type: 'alarm'
      /** The folder of the saved batch, or `null` if it was not saved. */
      readonly path: string | null
    } & Alarm)
  /** Completions for inspection; emitted if any trajectories are recorded. */
  | { readonly type: 'samples'; readonly step: number; readonly samples: readonly TrajectoryRecord[] }
  | { readonly type: 'checkpoint'; readonly step: number; readonly path: string }
  | { readonly type: 'end'; readonly summary: RunSummary }

/** What a run tells while it goes. */
import type { Alarm } from './alarms.js'
import type { EvaluationRecord, RunSummary, StepRecord, TrajectoryRecord } from './records.js'
import type { RunSettings } from './settings.js'

/** What happens during a run, in order. */
export type RunEvent =
  | {
      readonly type: 'start'
      readonly parameters: number
      /** How many numbers are trained. */
      readonly trained: number
      readonly firstStep: number
      readonly settings: RunSettings
    }
  | { readonly type: 'evaluating'; readonly step: number; readonly done: number; readonly problems: number }
  | EvaluationRecord
  | StepRecord
  | ({
      readonly type: 'alarm' /** Of the batch; null if it could not be kept. */
      readonly path: string | null
    } & Alarm)
  /** Completions to be looked at, where they are asked for. */
  | { readonly type: 'samples'; readonly step: number; readonly samples: readonly TrajectoryRecord[] }
  | { readonly type: 'checkpoint'; readonly step: number; readonly path: string }
  | { readonly type: 'export'; readonly path: string }
  | { readonly type: 'end'; readonly summary: RunSummary }

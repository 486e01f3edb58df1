/** The events of a run. */
import type { Json } from '../data/codecs/plainValues.js'
import type { Alarm } from './alarms.js'
import type { EvaluationRecord, RunSummary, StepRecord, TrajectoryRecord } from './records.js'

/** What happens during a run, in order. */
export type RunEvent =
  | {
      readonly type: 'start'
      readonly firstStep: number
      readonly steps: number
      /** The settings of the recipe, or the parts of the run. */
      readonly settings: Readonly<Record<string, Json>>
    }
  /** The run may not be what it seems, as when it goes on with another number of threads. */
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
      /** The folder of the batch; null if it could not be kept. */
      readonly path: string | null
    } & Alarm)
  /** Completions to be looked at, where they are asked for. */
  | { readonly type: 'samples'; readonly step: number; readonly samples: readonly TrajectoryRecord[] }
  | { readonly type: 'checkpoint'; readonly step: number; readonly path: string }
  | { readonly type: 'end'; readonly summary: RunSummary }

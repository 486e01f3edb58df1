/** What a run tells those who watch it, and what a place is that it is told to. */
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Failure } from '../core/failure.js'

/** A setting of a run. */
export type SettingValue = string | number | boolean | null

/** A text to be looked at, such as a sampled completion. */
export interface SampleText {
  /** Where it is shown: samples of one name follow each other from step to step. */
  readonly name: string
  readonly text: string
}

/** When a phase began and ended, in milliseconds since 1970. */
export interface PhaseSpan {
  readonly name: string
  readonly from: number
  readonly to: number
}

/**
 * An event of a run. `at` is a time of the calendar in milliseconds since 1970.
 *
 * `start`: told first in every session. `from`: steps from here on are told again; what an earlier session told of them no longer counts.
 * `scalars`: numbers by name, such as `train/loss`, and seconds by phase, such as `generation`, in the order in which the phases came.
 * `saved`: something was written down, such as a checkpoint. `failure`: something failed and the run went on, such as a rollout.
 * `spans`: when phases were, where that is known. What happened before the first step is told of step 0.
 */
export type TrackedEvent =
  | {
      readonly type: 'start'
      readonly at: number
      readonly run: string
      readonly from: number
      readonly settings: Readonly<Record<string, SettingValue>>
    }
  | {
      readonly type: 'scalars'
      readonly at: number
      readonly step: number
      readonly values: Readonly<Record<string, number>>
      readonly seconds: Readonly<Record<string, number>>
      readonly spans?: readonly PhaseSpan[]
    }
  | { readonly type: 'samples'; readonly at: number; readonly step: number; readonly samples: readonly SampleText[] }
  | {
      readonly type: 'saved'
      readonly at: number
      readonly step: number
      readonly what: string
      readonly path: string
      readonly spans?: readonly PhaseSpan[]
    }
  | { readonly type: 'alarm'; readonly at: number; readonly step: number; readonly name: string; readonly text: string }
  | {
      readonly type: 'failure'
      readonly at: number
      readonly step: number
      readonly name: string
      readonly text: string
    }
  | { readonly type: 'end'; readonly at: number; readonly step: number; readonly status: RunStatus }

/** How a session ended. */
export type RunStatus = 'finished' | 'interrupted' | 'failed'

/** A sink could not take events. */
export interface SinkFailure {
  readonly _tag: 'SinkFailure'
  readonly sink: string
  /** `later`: the same events may be taken at another time. `never`: they are lost for this sink. */
  readonly again: 'later' | 'never'
  readonly reason: string
  readonly cause?: Failure
}

/**
 * A place that events go to.
 *
 * One write is underway at a time. After a failure with `later` the same events are given again, with what came after them: a sink takes
 * care that nothing of them stands there twice.
 */
export interface Sink {
  readonly name: string
  readonly write: (events: readonly TrackedEvent[]) => TE.TaskEither<SinkFailure, void>
  /** After the last write. A second time does nothing. */
  readonly close: TE.TaskEither<SinkFailure, void>
}

/** For sinks with nothing to close. */
export const nothingToClose: TE.TaskEither<SinkFailure, void> = TE.right(undefined)

/**
 * A failure of a sink because of something else that failed.
 *
 * @example
 * sinkFailure('mlflow', 'later', { _tag: 'HttpFailure', reason: 'no answer' }).reason // 'mlflow has not taken events'
 */
export const sinkFailure = (sink: string, again: SinkFailure['again'], cause: Failure): SinkFailure => ({
  _tag: 'SinkFailure',
  sink,
  again,
  reason: `${sink} has not taken events`,
  cause,
})

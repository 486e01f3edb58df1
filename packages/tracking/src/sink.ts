/** Events of a run, and the interface of their destinations. */
import type { Failure } from '@tandem-rl/base'
import * as TE from 'fp-ts/lib/TaskEither.js'

/** A setting of a run. */
export type SettingValue = string | number | boolean | null

/** A text for inspection, such as a sampled completion. */
export interface SampleText {
  /** Name of the series: samples with the same name are shown step by step. */
  readonly name: string
  readonly text: string
}

/** The start and end of a phase, in milliseconds since 1970. */
export interface PhaseSpan {
  readonly name: string
  readonly from: number
  readonly to: number
}

/**
 * An event of a run. `at` is the time in milliseconds since 1970.
 *
 * - `start` is the first event of every session. Steps from `from` on are reported again and
 *   replace those of earlier sessions.
 * - `scalars`: numbers by name, such as `train/loss`, and seconds by phase, such as `generation`,
 *   in the order of the phases.
 * - `saved`: something was saved, such as a checkpoint.
 * - `failure`: something failed without ending the run, such as a rollout.
 *
 * `spans` are the times of phases, if known. Events before the first step have step 0.
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

/** The end of a session. */
export type RunStatus = 'finished' | 'interrupted' | 'failed'

/** A sink failed to write events. */
export interface SinkFailure {
  readonly _tag: 'SinkFailure'
  readonly sink: string
  /** `later`: retrying the same events may succeed. `never`: they are lost for this sink. */
  readonly again: 'later' | 'never'
  readonly reason: string
  readonly cause?: Failure
}

/**
 * A destination of events.
 *
 * Only one write is pending at a time. After a failure with `later`, the same events are written
 * again, with newer ones. The sink must not record any of them twice.
 */
export interface Sink {
  readonly name: string
  readonly write: (events: readonly TrackedEvent[]) => TE.TaskEither<SinkFailure, void>
  /** Called after the last write. Later calls do nothing. */
  readonly close: TE.TaskEither<SinkFailure, void>
}

/** The `close` of sinks without resources. */
export const nothingToClose: TE.TaskEither<SinkFailure, void> = TE.right(undefined)

/**
 * Makes the failure of a sink from its cause.
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

/** Options of `tandem train` that name places to follow the run at, and the tracker that they ask for. */
import { resolve } from 'node:path'
import { Option } from 'commander'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { PreparedRun } from '../collectors/run/prepare.js'
import type { RunEvent } from '../collectors/run/train.js'
import { mlflowSink } from '../collectors/tracking/mlflow.js'
import type { Sink } from '../collectors/tracking/sink.js'
import { tensorBoardSink } from '../collectors/tracking/tensorBoard.js'
import { trackedEvents } from '../collectors/tracking/trackedEvents.js'
import { makeTracker, type SinkReport } from '../collectors/tracking/tracker.js'
import type { Environment, Files } from '../core/capabilities.js'
import { describe, type FileFailure } from '../core/failure.js'
import { liveCalendar } from '../live/clock.js'
import { liveEnvironment } from '../live/environment.js'
import { liveFiles } from '../live/files.js'
import { liveIds } from '../live/ids.js'
import { liveTransport } from '../live/transport/liveTransport.js'
import { CommandError, orFail } from './failure.js'

export interface TrackingFlags {
  readonly tensorboard?: string | true
  readonly mlflow?: string
}

/** Follows a run. */
export interface Tracking {
  readonly show: (event: RunEvent) => void
  /** Says that the run failed. */
  readonly fail: () => void
  /** Waits for what the places still take, and says what they have not taken. */
  readonly close: () => Promise<void>
}

export const trackingOptions = (): readonly Option[] => [
  new Option(
    '--tensorboard [folder]',
    'write event files for TensorBoard (default folder: tensorboard in the run folder)',
  ),
  new Option(
    '--mlflow <url>',
    'log to an MLflow server; MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, are sent to it',
  ),
]

/** What tells the server who asks. */
const authorization = ({ variables }: Environment): Readonly<Record<string, string>> => {
  const { MLFLOW_TRACKING_TOKEN: token, MLFLOW_TRACKING_USERNAME: user, MLFLOW_TRACKING_PASSWORD: password } = variables
  if (token) return { authorization: `Bearer ${token}` }
  if (!user) return {}
  return { authorization: `Basic ${Buffer.from(`${user}:${password ?? ''}`).toString('base64')}` }
}

/** A name of the run that no other one has, the same in every session: it is in the run folder. */
const markOf = (files: Files, folder: string): TE.TaskEither<FileFailure, string> => {
  const path = `${folder}/tracking-id`
  return pipe(
    files.exists(path),
    TE.chain((isMarked) => {
      if (isMarked) return files.readText(path)
      const mark = liveIds.fresh()
      return pipe(
        files.write(path, mark),
        TE.map(() => mark),
      )
    }),
  )
}

const mlflowOf = async (url: string, folder: string): Promise<Sink> => {
  const runId = await orFail(markOf(liveFiles, folder))
  try {
    const headers = authorization(liveEnvironment)
    return mlflowSink({ transport: liveTransport({ servers: url, headers, retry: { attempts: 2 } }), runId })
  } catch (error) {
    throw new CommandError(`--mlflow: ${error instanceof Error ? error.message : String(error)}`)
  }
}

const untold = ({ sink, dropped, waiting, lastFailure }: SinkReport): string =>
  `${sink} lacks ${dropped + waiting} events${lastFailure === null ? '' : `: ${describe(lastFailure)}`}\n`

/** Starts to follow a run at the places of the flags. `say` is told once of each place that fails, and at the end of what it lacks. */
export const startTracking = async (
  { tensorboard, mlflow }: TrackingFlags,
  run: PreparedRun,
  say: (text: string) => void,
): Promise<Tracking> => {
  const { folder } = run.paths
  const board = tensorboard === true ? `${folder}/tensorboard` : tensorboard
  const sinks = [
    ...(board === undefined ? [] : [tensorBoardSink(resolve(board))]),
    ...(mlflow === undefined ? [] : [await mlflowOf(mlflow, folder)]),
  ]
  const tracker = makeTracker(sinks, { onFailure: (failure) => say(`${describe(failure)}\n`) })
  const now = (): number => liveCalendar.today().getTime()
  let step = 0
  return {
    show: (event) => {
      if ('step' in event) step = event.step
      tracker.track(trackedEvents(event, { run: folder, isResumed: run.resume !== undefined, at: now() }))
    },
    fail: () => tracker.track([{ type: 'end', at: now(), step, status: 'failed' }]),
    close: async () => {
      for (const report of await tracker.close()) if (report.dropped + report.waiting > 0) say(untold(report))
    },
  }
}

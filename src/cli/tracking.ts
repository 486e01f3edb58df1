/** Tracking options of `tandem train`, whose trackers are in `@tandem-rl/tracking`. */
import { Option } from 'commander'
import type { RunEvent } from '../run/train/events.js'
import { importGuest } from './guest.js'
import { naturalNumber } from './options.js'

export interface TrackingFlags {
  readonly tensorboard?: string | true
  readonly mlflow?: string
  readonly trackio?: string
  readonly wandb?: string
  readonly metricsPort?: number
  readonly metricsHost?: string
  readonly otel?: true
  readonly trackSamples?: number
}

/** A tracked run. */
export interface FollowedRun {
  readonly folder: string
  readonly isResumed: boolean
}

/** Opened trackers of a run. */
export interface Tracking {
  /** Passes the events of a run on and sends them to the trackers. Call once. */
  readonly follow: (run: FollowedRun, events: AsyncIterable<RunEvent>) => AsyncIterable<RunEvent>
  /** Flushes and closes the trackers, and reports lost events. Later calls do nothing. */
  readonly close: () => Promise<void>
}

export const trackingOptions = (): readonly Option[] => [
  new Option(
    '--tensorboard [folder]',
    'write event files for TensorBoard (default folder: tensorboard in the run folder)',
  ),
  new Option(
    '--mlflow <url>',
    'log to an MLflow server, authorized by the variables MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD',
  ),
  new Option('--trackio <url>', 'log to a Trackio server, authorized by the variable TRACKIO_WRITE_TOKEN'),
  new Option(
    '--wandb <project>',
    'log to a project of Weights & Biases, authorized by the variable WANDB_API_KEY; WANDB_ENTITY and WANDB_BASE_URL set the team and the server',
  ),
  new Option(
    '--metrics-port <n>',
    'serve Prometheus metrics at /metrics on this port during the run; 0 picks a free port',
  ).argParser(naturalNumber),
  new Option('--metrics-host <address>', 'address for --metrics-port (default: 127.0.0.1)'),
  new Option(
    '--otel',
    "record metrics and a trace of each step with OpenTelemetry's API; set up an SDK with NODE_OPTIONS=--import",
  ),
  new Option(
    '--track-samples <n>',
    'completions per step to track as text, at most as many as --trajectories (default: 0)',
  ).argParser(naturalNumber),
]

/**
 * Opens the trackers of the flags before the run starts. `say` prints the URL of the metrics, each
 * tracker's first failure, and at the end the number of lost events.
 *
 * Errors   rejects with CommandError if the package of the trackers is not installed, a port is
 *          taken, a URL is invalid, a token is missing, or OpenTelemetry is not set up.
 */
export type OpenTracking = (flags: TrackingFlags, say: (text: string) => void) => Promise<Tracking>

const UNTRACKED: Tracking = { follow: (_, events) => events, close: () => Promise.resolve() }

/** Opens the trackers of the flags; without flags, none. */
export const openTracking: OpenTracking = async (flags, say) => {
  const given = trackingOptions().find((option) => Object.hasOwn(flags, option.attributeName()))
  if (given === undefined) return UNTRACKED
  const guest = await importGuest<{ readonly openTrackers: OpenTracking }>(
    '@tandem-rl/tracking/command',
    `${given.long}`,
  )
  return guest.openTrackers(flags, say)
}

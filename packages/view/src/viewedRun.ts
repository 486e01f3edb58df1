/** A run that is open in the viewer. */
import type { Files } from '@tandem-rl/base'
import type { RunReader, RunRecords } from 'tandem-rl/run'
import type { RunNote } from './notes.js'
import type { Annotation, MetricsAnswer } from './protocol.js'
import type { RolloutLog } from './rolloutLog.js'

/** The records of a run, or of a log of another program. */
export interface RunLog extends RunRecords {
  /** The curves of a log of another program. Default: those of the steps. */
  readonly columns?: MetricsAnswer
}

/** A run that is open in the viewer. */
export interface ViewedRun extends RolloutLog {
  readonly id: string
  readonly folder: string
  /** The files of the folder. Links below it are not followed. */
  readonly files: Files
  /** `read` for logs of other programs, in whose folders nothing is written. */
  readonly access: 'write' | 'read'
  readonly log: () => Promise<RunLog>
  readonly alarms: RunReader['alarms']
  readonly note: () => Promise<RunNote>
  readonly annotations: () => Promise<ReadonlyMap<string, Annotation>>
}

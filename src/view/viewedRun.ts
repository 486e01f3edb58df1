/** A run that is open in the viewer. */
import type { Files } from '@tandem-rl/base'
import type { RunNote } from './notes.js'
import type { Annotation } from './protocol.js'
import type { RolloutLog } from './rolloutLog.js'
import type { RunLog } from './runLog.js'

/** A run that is open in the viewer. */
export interface ViewedRun extends RolloutLog {
  readonly id: string
  readonly folder: string
  /** The files of the folder. Links below it are not followed. */
  readonly files: Files
  /** `read` for logs of other programs, in whose folders nothing is written. */
  readonly access: 'write' | 'read'
  readonly log: () => Promise<RunLog>
  readonly note: () => Promise<RunNote>
  readonly annotations: () => Promise<ReadonlyMap<string, Annotation>>
}

/** The options of `train`. */
import type { Clock, Json } from '@tandem-rl/base'
import type { AlarmLimits } from '../metrics/alarms.js'
import type { Calibration } from '../metrics/calibration.js'
import type { RunStore } from './store.js'

/** The intervals of evaluations and checkpoints. */
export interface RunRhythm {
  /** Steps between evaluations. Default 5. */
  readonly evaluate?: number
  /** Steps between checkpoints. Default 10. */
  readonly checkpoint?: number
}

/** The records and batches that a run saves. */
export interface KeepOptions {
  /** Trajectories per step written to trajectories.jsonl. Default 8. */
  readonly trajectories?: number
  /** Steps between batches saved for replay. Default: only batches of alarms are saved. */
  readonly batchEvery?: number
  /** Number of newest saved batches to retain. Default 20. */
  readonly batches?: number
  /**
   * Bytes of older checkpoints to retain, spread evenly over the run; at most 16 of them. Default
   * 0: none.
   */
  readonly historyBytes?: number
}

/** The options of alarms. */
export interface AlarmOptions {
  /**
   * `off` disables alarms, and `warn` emits them. `stop` also saves and ends the run after any
   * alarm, `stop-at-collapse` after that of a collapse. Default `stop-at-collapse`.
   */
  readonly mode?: 'off' | 'warn' | 'stop-at-collapse' | 'stop'
  /** Default: `DEFAULT_ALARM_LIMITS`. */
  readonly limits?: AlarmLimits
}

export interface TrainOptions {
  /** Number of training steps, over all sessions of the run. */
  readonly steps: number
  /** The folder of the run. Default: nothing is saved. */
  readonly store?: RunStore
  readonly every?: RunRhythm
  readonly keep?: KeepOptions
  readonly alarms?: AlarmOptions
  /** When aborted, the run finishes its current step, saves and ends. */
  readonly signal?: AbortSignal
  /** The recipe and its settings, stored in the run folder. */
  readonly recipe?: RecipeRecord
  readonly clock?: Clock
}

/** The recipe of a run, as its folder stores it. */
export interface RecipeRecord {
  readonly name: string
  /** The file that exports it, or `null` for a built-in recipe. */
  readonly file: string | null
  readonly settings: Readonly<Record<string, Json>>
  /** A digest of the file. Resuming with another one is a changed input. Default: not compared. */
  readonly digest?: string
  /** The measurements that chose some of the settings. Default: none. */
  readonly calibration?: Calibration
}

/** The options of `train`. */
import type { Clock } from '../core/capabilities.js'
import type { Json } from '../data/codecs/plainValues.js'
import type { AlarmLimits } from './alarms.js'
import type { RunStore } from './store.js'

/** How often a run does what it does beside learning. */
export interface RunRhythm {
  /** Steps between evaluations. Default 5. */
  readonly evaluate?: number
  /** Steps between checkpoints. Default 10. */
  readonly checkpoint?: number
}

/** What a run keeps of its steps. */
export interface KeepOptions {
  /** Trajectories of each step that are written to trajectories.jsonl. Default 8. */
  readonly trajectories?: number
  /** Steps between batches that are kept to be replayed. Default: none but those of alarms. */
  readonly batchEvery?: number
  /** How many of them are kept, the newest. Default 20. */
  readonly batches?: number
}

/** What happens when a run gets into trouble. */
export interface AlarmOptions {
  /** Nothing, a warning, or the end of the run, saved. Default `warn`. */
  readonly mode?: 'off' | 'warn' | 'stop'
  /** Default: `DEFAULT_ALARM_LIMITS`. */
  readonly limits?: AlarmLimits
}

export interface TrainOptions {
  /** Batches that are collected and learned from, over all sessions of the run. */
  readonly steps: number
  /** Where the run is kept. Default: nowhere. */
  readonly store?: RunStore
  readonly every?: RunRhythm
  readonly keep?: KeepOptions
  readonly alarms?: AlarmOptions
  /** When aborted, the run finishes its step, saves and ends. */
  readonly signal?: AbortSignal
  /** The recipe of the run with its settings, for the run folder. */
  readonly recipe?: RecipeRecord
  readonly clock?: Clock
}

/** The recipe of a run, as its folder stores it. */
export interface RecipeRecord {
  readonly name: string
  /** The file that exports it; null for a recipe that comes with Tandem. */
  readonly file: string | null
  readonly settings: Readonly<Record<string, Json>>
}

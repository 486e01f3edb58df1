/**
 * What a measured process says, one JSON object a line after the mark, and what it is told: `turn <seconds> <runs>` asks it to run for that
 * long, at least once and at most so often; `end` asks it to say its last word and exit.
 */

/** Distinguishes our lines from the output of libraries. */
export const MARK = '@bench '

export interface Ready {
  readonly tag: 'Ready'
  /** Of the package or library that computes. */
  readonly version: string
  readonly threads: number
  /** Compared between the programs: do they compute the same? */
  readonly value: number
  /** The first run, compilation included. */
  readonly firstSeconds: number
  /** A run after it. */
  readonly warmSeconds: number
}

export interface Turn {
  readonly tag: 'Turn'
  /** One number for each run. */
  readonly seconds: readonly number[]
}

export interface End {
  readonly tag: 'End'
  /** The largest resident memory of the process since it began. */
  readonly peakMiB: number
  /** Graphs compiled during the timed runs. */
  readonly compiles?: number
  /** Kernels that ran on tfjs's cpu backend instead during the timed runs. */
  readonly fallbacks?: number
}

export interface Failed {
  readonly tag: 'Failed'
  readonly problem: string
}

export type Message = Ready | Turn | End | Failed

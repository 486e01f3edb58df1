/** One measured figure, as it is printed and put on the page. */
import type { Spread } from '@tandem-rl/bench'
import type { Contestant } from './contestants.js'
import type { Workload } from './workloads.js'

/**
 * The figures of one contestant at one workload. Spreads are medians with the middle half of the
 * runs, or of the turns for ratios.
 */
export interface Figure {
  readonly tag: 'Figure'
  readonly workload: Workload
  readonly contestant: Contestant
  readonly version: string
  readonly threads: number
  readonly seconds: Spread
  readonly runs: number
  readonly rounds: number
  /** How many times longer it took than the reference. */
  readonly ratio?: Spread
  readonly firstSeconds: number
  readonly peakMiB: number
  readonly value: number
  readonly compiles?: number
  readonly fallbacks?: number
}

/** A figure that there is not, and why. */
export interface Absent {
  readonly tag: 'Absent'
  readonly workload?: Workload
  readonly contestant: Contestant
  readonly threads: number
  readonly problem: string
}

export type Outcome = Figure | Absent

/** Units of work in a second. */
export const rateOf = ({ workload, seconds }: Figure): number => workload.amount / seconds.median

/** The JSON line of an outcome. */
export const lineOf = (outcome: Outcome): object => {
  const { contestant, threads, workload } = outcome
  const names = {
    program: 'engine',
    contestant,
    threads,
    ...(workload && { workload: workload.name, ...workload.sizes }),
  }
  if (outcome.tag === 'Absent') return { ...names, problem: outcome.problem }
  const { seconds, version, runs, rounds, ratio, firstSeconds, peakMiB, value, compiles, fallbacks } = outcome
  return {
    ...names,
    version,
    seconds: seconds.median,
    spread: { low: seconds.low, high: seconds.high },
    [`${outcome.workload.unit}_per_second`.toLowerCase()]: rateOf(outcome),
    runs,
    rounds,
    ratio: ratio && { seconds_over_reference: ratio.median, low: ratio.low, high: ratio.high },
    first_seconds: firstSeconds,
    peak_mib: peakMiB,
    value,
    compiles,
    fallbacks,
  }
}

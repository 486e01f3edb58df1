/** Candidates for threads and micro-batches, and the choice among them by measured times. */
import { median } from '@tandem-rl/base'
import { z } from 'zod'

const count = z.number().int().positive()

const candidateSchema = z.strictObject({
  /** Threads inside one operation, or `null` if the backend's number is fixed. */
  threads: count.nullable(),
  workers: count,
  microBatch: count,
})

/** A way to compute one update. Candidates differ in speed and rounding only. */
export type Candidate = Readonly<z.infer<typeof candidateSchema>>

const measuredSchema = candidateSchema.extend({
  /** Median seconds of the learning of one batch. */
  seconds: z.number(),
  /** Median of the paired speeds relative to the best candidate before it; 1 for the first one. */
  speed: z.number(),
})

/** A measured candidate. The first one is that of the settings. */
export type MeasuredCandidate = Readonly<z.infer<typeof measuredSchema>>

/** Schema of `Calibration`. */
export const calibrationSchema = z.strictObject({
  chosen: candidateSchema,
  measured: z.array(measuredSchema),
  /** Number of candidates that were left out by the limits of time and memory. */
  omitted: z.number().int().nonnegative(),
})

/** The measured candidates of a run, and the chosen one. */
export type Calibration = Readonly<z.infer<typeof calibrationSchema>>

/** The times of two candidates that took turns, in milliseconds. */
export interface PairedTimes {
  readonly best: number
  readonly candidate: number
}

/** Number of paired rounds. */
const ROUNDS = 5

/** Number of rounds that outnumber the others. */
const MAJORITY = (ROUNDS + 1) / 2

/** Speed that a candidate must have, relative to the best one before it. */
const LEAST_SPEED = 1.05

const speeds = (rounds: readonly PairedTimes[]): readonly number[] =>
  rounds.map(({ best, candidate }) => best / candidate)

/** Returns the median speed of a candidate in paired rounds, of which there is at least one. */
export const pairedSpeed = (rounds: readonly PairedTimes[]): number => median(speeds(rounds))

/** Returns `true` if further rounds cannot change the choice. */
export const isDecided = (rounds: readonly PairedTimes[]): boolean => {
  const faster = speeds(rounds).filter((speed) => speed >= LEAST_SPEED).length
  return faster >= MAJORITY || rounds.length - faster >= MAJORITY
}

/**
 * Returns `candidate` if it is at least 5 % faster in the median of at least three rounds, else
 * `best`.
 */
export const chooseCandidate = (rounds: readonly PairedTimes[]): 'best' | 'candidate' =>
  rounds.length >= MAJORITY && pairedSpeed(rounds) >= LEAST_SPEED ? 'candidate' : 'best'

/** Returns the powers of two up to a number. */
const powersOfTwo = (most: number): readonly number[] =>
  Array.from({ length: Math.floor(Math.log2(Math.max(1, most))) + 1 }, (_, i) => 2 ** i)

/** Returns `true` for equal candidates. */
export const isSameCandidate = (a: Candidate, b: Candidate): boolean =>
  a.threads === b.threads && a.workers === b.workers && a.microBatch === b.microBatch

/**
 * Returns the candidates that divide all cores, or half of them, among workers and their threads.
 */
export const parallelCandidates = (
  base: Candidate,
  { cores, mostWorkers }: { readonly cores: number; readonly mostWorkers: number },
): readonly Candidate[] => {
  const all = [cores, cores >> 1].flatMap((busy) =>
    powersOfTwo(Math.min(cores, mostWorkers))
      .filter((workers) => workers <= busy)
      .map((workers) => ({ ...base, workers, threads: base.threads === null ? null : Math.floor(busy / workers) })),
  )
  return all.filter(
    (each, i) => !isSameCandidate(each, base) && all.findIndex((other) => isSameCandidate(each, other)) === i,
  )
}

/** Sizes of micro-batches in tokens. */
const MICRO_BATCHES = [1024, 2048, 4096, 8192] as const

/**
 * Returns candidates with other micro-batches. Sizes that divide the batch equally are one
 * candidate.
 */
export const microBatchCandidates = (
  base: Candidate,
  pieces: (candidate: Candidate) => number,
): readonly Candidate[] => {
  const all = [base, ...MICRO_BATCHES.map((microBatch) => ({ ...base, microBatch }))]
  const counts = all.map(pieces)
  return all.filter((_, i) => i > 0 && counts.indexOf(counts[i]!) === i)
}

/**
 * Formats a candidate.
 *
 * @example
 * candidateText({ threads: null, workers: 2, microBatch: 1024 }) // 'workers 2, micro-batch 1024'
 */
export const candidateText = ({ threads, workers, microBatch }: Candidate): string =>
  `${threads === null ? '' : `threads ${threads}, `}workers ${workers}, micro-batch ${microBatch}`

/** Formats a measured candidate as one line. */
export const measuredText = (measured: MeasuredCandidate): string =>
  `${candidateText(measured)}: ${measured.seconds.toFixed(3)} s per batch, speed ${measured.speed.toFixed(2)}`

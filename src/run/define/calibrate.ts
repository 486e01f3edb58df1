/** Measures the learning of one batch, to choose threads and micro-batches for this machine. */
import { type Clock, median } from '@tandem-rl/base'
import type { EngineThreads } from '@tandem-rl/tfjs-onnxruntime'
import {
  type Calibration,
  type Candidate,
  chooseCandidate,
  isDecided,
  type MeasuredCandidate,
  microBatchCandidates,
  type PairedTimes,
  pairedSpeed,
  parallelCandidates,
} from '../metrics/calibration.js'

/** A learner of its own for one candidate. */
interface Trial {
  /** Learns from one synthetic batch. */
  readonly learn: () => Promise<void>
  readonly close: () => Promise<void>
}

/** The trials of a run. They share nothing with the run's own learner but the model. */
export interface LearningTrials {
  /** The workers and the micro-batch of the settings. */
  readonly base: Omit<Candidate, 'threads'>
  /** Number of workers above which some have nothing to do. */
  readonly mostWorkers: number
  readonly open: (candidate: Candidate) => Trial
  /** Returns the number of micro-batches of an optimizer step. */
  readonly pieces: (candidate: Candidate) => number
  /** Returns `true` if the candidate can be measured within the machine's memory. */
  readonly fits: (candidate: Candidate) => boolean
}

export interface CalibrateOptions {
  readonly trials: LearningTrials
  /** `null` if the number of threads is fixed. */
  readonly threads: EngineThreads | null
  readonly cores: number
  readonly clock: Clock
  /** When aborted, the calibration ends after the current measurement. */
  readonly signal: AbortSignal
  readonly onMeasured: (measured: MeasuredCandidate) => void
}

/** Time for all candidates. */
const LIMIT_MS = 30_000

/** Batches that measuring a candidate takes at least: two for the warm-up, and three rounds. */
const LEAST_BATCHES = 8

/** A candidate with its open trial. */
interface Contender {
  readonly candidate: Candidate
  /** Returns the milliseconds of one batch. */
  readonly time: () => Promise<number>
  readonly close: () => Promise<void>
}

const contender = (candidate: Candidate, { trials, threads, clock }: CalibrateOptions): Contender => {
  const trial = trials.open(candidate)
  return {
    candidate,
    time: async () => {
      await clock.breathe()
      if (candidate.threads !== null) threads?.use(candidate.threads)
      const started = clock.now()
      await trial.learn()
      return clock.now() - started
    },
    close: trial.close,
  }
}

/** Lets two contenders take turns, the first one in every second round, until one is chosen. */
const takeTurns = async (
  best: Contender,
  other: Contender,
  mayGoOn: () => boolean,
): Promise<readonly PairedTimes[]> => {
  const rounds: PairedTimes[] = []
  while (!isDecided(rounds) && mayGoOn()) {
    const isBestFirst = rounds.length % 2 === 0
    const first = await (isBestFirst ? best : other).time()
    const second = await (isBestFirst ? other : best).time()
    rounds.push(isBestFirst ? { best: first, candidate: second } : { best: second, candidate: first })
  }
  return rounds
}

/**
 * Chooses threads, workers and micro-batches by the time that the learning of one batch takes.
 *
 * The candidate of the settings is the first best one. Every other one takes turns with the best
 * one so far, after a warm-up, and replaces it if it is at least 5 % faster in the median of five
 * rounds. Fewer rounds are measured if they decide. Micro-batches follow after threads and workers.
 *
 * Returns  the choice, or `null` if the signal ended it.
 * Errors   rejects with the errors of the trials.
 * Effects  holds two trials at a time. The engine's threads are afterwards those from before.
 * Cost     about 30 seconds at most, but always two batches with the settings. Candidates that do
 *          not fit into the time are omitted.
 */
export const calibrate = async (options: CalibrateOptions): Promise<Calibration | null> => {
  const { trials, threads, cores, clock, signal, onMeasured } = options
  const started = clock.now()
  const base: Candidate = { threads: threads?.count() ?? null, ...trials.base }
  const measured: MeasuredCandidate[] = []
  const add = (row: MeasuredCandidate): void => {
    measured.push(row)
    onMeasured(row)
  }
  const open = new Set<Contender>()
  const opened = (candidate: Candidate): Contender => {
    const made = contender(candidate, options)
    open.add(made)
    return made
  }
  const closed = async (each: Contender): Promise<void> => {
    open.delete(each)
    await each.close()
  }
  try {
    let best = opened(base)
    await best.time() // the warm-up
    if (signal.aborted) return null
    const batchMs = await best.time()
    add({ ...base, seconds: batchMs / 1000, speed: 1 })
    const mayGoOn = (neededMs: number): boolean => !signal.aborted && clock.now() - started + neededMs <= LIMIT_MS
    let omitted = 0
    const measure = async (candidate: Candidate): Promise<void> => {
      const other = opened(candidate)
      await other.time() // the warm-up
      const rounds = await takeTurns(best, other, () => mayGoOn(0))
      if (rounds.length === 0)
        omitted++ // the warm-up took the rest of the time
      else
        add({
          ...candidate,
          seconds: median(rounds.map((round) => round.candidate)) / 1000,
          speed: pairedSpeed(rounds),
        })
      const loser = chooseCandidate(rounds) === 'candidate' ? best : other
      best = loser === best ? other : best
      await closed(loser)
    }
    for (const candidates of [
      () => parallelCandidates(base, { cores, mostWorkers: trials.mostWorkers }),
      () => microBatchCandidates(best.candidate, trials.pieces),
    ])
      for (const candidate of candidates())
        if (trials.fits(candidate) && mayGoOn(LEAST_BATCHES * batchMs)) await measure(candidate)
        else omitted++
    return signal.aborted ? null : { chosen: best.candidate, measured, omitted }
  } finally {
    if (base.threads !== null) threads?.use(base.threads)
    for (const each of open) await each.close()
  }
}

/** The times in which sampling and training ran, alone and together. */
import type { Clock } from '@tandem-rl/base'

/** Seconds since the previous step. */
export interface OverlapSeconds {
  /** Time in which the trainer was idle for lack of groups. */
  readonly waiting: number
  /** Time in which groups were being sampled. */
  readonly sampling: number
  /** Time in which sampling and training both ran, as seen from the training thread. */
  readonly both: number
}

/** Measures the activities of overlapped training. */
export interface OverlapStopwatch {
  /** Adds the time since the last call to each activity that was running. */
  readonly note: (now: Readonly<Record<'waiting' | 'sampling' | 'learning', boolean>>) => void
  /** The sums since the last call. */
  readonly read: () => OverlapSeconds
}

/** Makes a stopwatch that starts now. */
export const overlapStopwatch = (clock: Clock): OverlapStopwatch => {
  const none = { waiting: 0, sampling: 0, both: 0 }
  let [last, sums] = [clock.now(), none]
  return {
    note: (was) => {
      const now = clock.now()
      const seconds = (now - last) / 1000
      last = now
      sums = {
        waiting: sums.waiting + (was.waiting ? seconds : 0),
        sampling: sums.sampling + (was.sampling ? seconds : 0),
        both: sums.both + (was.sampling && was.learning ? seconds : 0),
      }
    },
    read: () => {
      const read = sums
      sums = none
      return read
    },
  }
}

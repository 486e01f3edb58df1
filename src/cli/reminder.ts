/** Lines that are printed while something takes long, so that silence has a reason. */
import type { Clock, Timers } from '@tandem-rl/base'
import { liveClock, liveTimers, printError } from '@tandem-rl/base/host'

/** The real world of a reminder, or a test's. */
export interface ReminderWorld {
  readonly clock: Clock
  readonly timers: Timers
}

export interface Reminder {
  /** Sets the work in progress. The next line follows a whole period later. */
  readonly begin: (work: string) => void
  readonly stop: () => void
}

/** Calls `remind` with the work in progress and its seconds so far, once in each period. */
export const reminder = (
  periodMs: number,
  remind: (work: string, seconds: number) => void,
  { clock, timers }: ReminderWorld = { clock: liveClock, timers: liveTimers },
): Reminder => {
  let [work, since, cancel] = ['', clock.now(), (): void => {}]
  const arm = (): void => {
    cancel = timers.after(periodMs, () => {
      remind(work, Math.round((clock.now() - since) / 1000))
      arm()
    })
  }
  return {
    begin: (next) => {
      if (next !== work) since = clock.now()
      work = next
      cancel()
      arm()
    },
    stop: () => cancel(),
  }
}

/** Waits for work, and prints every ten seconds that it is not done yet. */
export const reminded = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
  const waiting = reminder(10_000, (each, seconds) => printError(`${each}: ${seconds} s so far\n`))
  waiting.begin(what)
  try {
    return await work()
  } finally {
    waiting.stop()
  }
}

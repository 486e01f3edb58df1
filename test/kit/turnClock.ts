/** A clock whose turns a test gives out one by one. */
import type { Clock } from '@tandem-rl/base'

/** Time moves by one millisecond with each turn. */
export interface TurnClock extends Clock {
  /** Lets whoever breathes go on, and all promises that follow from it. */
  readonly turn: () => Promise<void>
}

/** Makes a clock at 0. */
export const turnClock = (): TurnClock => {
  let breathing: (() => void)[] = []
  let now = 0
  return {
    now: () => now,
    breathe: () =>
      new Promise((go) => {
        breathing.push(go)
      }),
    turn: async () => {
      now++
      const due = breathing
      breathing = []
      for (const go of due) go()
      await new Promise((go) => setImmediate(go))
    },
  }
}

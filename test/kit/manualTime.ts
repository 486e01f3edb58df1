/**
 * Time that passes when a test says so: what waits for something that never comes need not wait for
 * long, and nothing else is cut short.
 */
import type { Timers } from '@tandem-rl/base'
import type { Timing } from '../../packages/host/src/transport/settings.js'

/**
 * Some turns of the event loop. A client in this process reads in each of them what was sent to it.
 */
export const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn++) await new Promise((go) => setTimeout(go, 4))
}

/** Waits up to this are over at once: pauses between attempts. */
const SHORT_MS = 50

interface Bell {
  readonly atMs: number
  readonly ring: () => void
}

export interface ToldTime extends Timing, Timers {
  /** Moves time on; rings what is due, in order. */
  readonly pass: (ms: number) => void
  /**
   * The remaining times of the other waits in milliseconds, in the order in which they began.
   */
  readonly waits: () => readonly number[]
}

/** Time for transports and clients, from 0. The calendar is the real one. */
export const manualTime = (): ToldTime => {
  let now = 0
  const bells = new Set<Bell>()
  const soon = (ms: number, ring: () => void): (() => void) => {
    const turn = setImmediate(() => {
      now += ms
      ring()
    })
    return () => clearImmediate(turn)
  }
  return {
    now: () => now,
    wall: () => Date.now(),
    after: (ms, ring) => {
      if (ms <= SHORT_MS) return soon(ms, ring)
      const bell = { atMs: now + ms, ring }
      bells.add(bell)
      return () => void bells.delete(bell)
    },
    pass: (ms) => {
      now += ms
      const due = [...bells].filter(({ atMs }) => atMs <= now).sort((one, other) => one.atMs - other.atMs)
      for (const bell of due) if (bells.delete(bell)) bell.ring()
    },
    waits: () => [...bells].map(({ atMs }) => atMs - now),
  }
}

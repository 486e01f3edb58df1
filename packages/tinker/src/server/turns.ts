/** The order of a model's requests: by their numbers, whatever the order in which they arrive. */
import type { Timers } from '@tandem-rl/base'

/** A request of a model. `fail` is called instead of `run` if its turn never comes. */
interface Turn {
  readonly run: () => Promise<void>
  readonly fail: (reason: string) => void
}

/** A mutable value: the requests of one model, one at a time. */
export interface Turns {
  /**
   * Runs a request when all before it have run. Requests without a number run in order of arrival.
   *
   * Errors   returns a reason for a number that was used, and if too many wait.
   */
  readonly take: (seqId: number | null, turn: Turn) => string | undefined
  /** Fails what waits, and resolves when the running request has ended. */
  readonly close: (reason: string) => Promise<void>
}

interface TurnLimits {
  /** Requests that wait for their turn. */
  readonly waiting: number
  /** Time that a request waits for a missing number. */
  readonly gapMs: number
}

/** Makes the order of one model. The first number is 1, or 0 if the first request has it. */
export const makeTurns = (timers: Timers, { waiting, gapMs }: TurnLimits): Turns => {
  const held = new Map<number, Turn>()
  let running: Promise<void> = Promise.resolve()
  let inLine = 0
  let next = 1
  let hasBegun = false
  let stopTimer = (): void => undefined

  const start = (turn: Turn): void => {
    inLine++
    running = running.then(turn.run).finally(() => {
      inLine--
    })
  }
  const failAll = (reason: string): void => {
    for (const [seqId, turn] of held) {
      turn.fail(reason)
      next = Math.max(next, seqId + 1)
    }
    held.clear()
  }
  const watch = (): void => {
    stopTimer()
    stopTimer = () => undefined
    if (held.size === 0) return
    const missing = next
    stopTimer = timers.after(gapMs, () =>
      failAll(`request ${missing} of the model did not arrive within ${gapMs} ms, and later ones waited for it`),
    )
  }
  const release = (): void => {
    for (let turn = held.get(next); turn !== undefined; turn = held.get(next)) {
      held.delete(next)
      next++
      start(turn)
    }
    watch()
  }

  return {
    take: (seqId, turn) => {
      if (inLine + held.size >= waiting) return `${waiting} requests of the model wait already`
      if (seqId === null) {
        start(turn)
        return undefined
      }
      if (!hasBegun && seqId === 0) next = 0
      hasBegun = true
      if (seqId < next || held.has(seqId)) return `seq_id ${seqId} was used for another request; the next is ${next}`
      held.set(seqId, turn)
      release()
      return undefined
    },
    close: async (reason) => {
      failAll(reason)
      stopTimer()
      await running
    },
  }
}

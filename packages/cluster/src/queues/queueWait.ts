/** Waiting for a queue that its trainer has not created yet. */
import type { Timers } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type * as TE from 'fp-ts/lib/TaskEither.js'
import { type QueueFailure, queueFailure } from './queueLog.js'

/** The wait for a queue. */
export interface QueueWait {
  /** Longest time in milliseconds. */
  readonly limitMs: number
  /** Ends the wait when it aborts: the failure is then `closed`. */
  readonly signal?: AbortSignal
  /** Called once if the queue does not exist. */
  readonly onWait?: () => void
}

/** Milliseconds between two looks for a queue that does not exist yet. */
const LOOK_MS = 1000

/** Opens a queue again and again while it does not exist. */
export const waitForQueue = <T>(
  open: TE.TaskEither<QueueFailure, T>,
  { limitMs, signal, onWait }: QueueWait,
  timers: Timers,
): TE.TaskEither<QueueFailure, T> => {
  const pause = (): Promise<void> =>
    new Promise((go) => {
      const end = (): void => {
        cancel()
        signal?.removeEventListener('abort', end)
        go()
      }
      const cancel = timers.after(LOOK_MS, end)
      signal?.addEventListener('abort', end, { once: true })
    })
  return async () => {
    for (let waitedMs = 0; ; waitedMs += LOOK_MS) {
      const opened = await open()
      if (E.isRight(opened) || opened.left.kind !== 'absent') return opened
      if (waitedMs >= limitMs) return queueFailure('absent', `${opened.left.reason}, also after ${limitMs / 1000} s`)
      if (waitedMs === 0) onWait?.()
      if (signal?.aborted !== true) await pause()
      if (signal?.aborted === true) return queueFailure('closed', 'the wait for the queue was cancelled')
    }
  }
}

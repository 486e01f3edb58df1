/** The life of a call: it ends by its deadline, by its caller's signal, or with the transport. */

import type { Trouble } from './retry.js'
import type { Timing } from './settings.js'

/** One call, from its start to the last byte of its answer. */
export interface Life {
  /** Until the deadline. */
  readonly leftMs: () => number
  /** Why it was ended, if it was. */
  readonly ended: () => Trouble | undefined
  /** What is done now, to be stopped when the call is ended: at once, if it was. Replaces what was done before. */
  readonly during: (stop: (why: Trouble) => void) => void
  /** Ends it from within the transport. */
  readonly end: (why: Trouble) => void
  /** To be called when all is done: nothing is left behind on the signal or the clock. */
  readonly finish: () => void
}

const nothing = (): void => undefined

/** Starts the life of a call. `onFinish` is called once, when it is over. */
export const startLife = (
  { deadlineMs, signal }: { readonly deadlineMs: number; readonly signal: AbortSignal | undefined },
  timing: Timing,
  onFinish: () => void,
): Life => {
  const untilMs = timing.now() + deadlineMs
  let ended: Trouble | undefined
  let stop: (why: Trouble) => void = nothing
  let cancel = nothing
  let isFinished = false

  const end = (why: Trouble): void => {
    if (ended !== undefined || isFinished) return
    ended = why
    stop(why)
  }
  const abort = (): void => end({ kind: 'cancelled', reason: 'the request was cancelled', acted: 'no' })
  /** Timers of a long deadline may ring early. */
  const ring = (): void => {
    const leftMs = untilMs - timing.now()
    if (leftMs > 0) cancel = timing.after(leftMs, ring)
    else end({ kind: 'timeout', reason: `the deadline of ${deadlineMs} ms passed`, acted: 'no' })
  }
  if (deadlineMs !== Infinity) cancel = timing.after(deadlineMs, ring)
  if (signal?.aborted === true) abort()
  else signal?.addEventListener('abort', abort, { once: true })

  return {
    leftMs: () => untilMs - timing.now(),
    ended: () => ended,
    during: (next) => {
      stop = next
      if (ended !== undefined) next(ended)
    },
    end,
    finish: () => {
      if (isFinished) return
      isFinished = true
      cancel()
      signal?.removeEventListener('abort', abort)
      onFinish()
    },
  }
}

/**
 * Waits until `start` settles, or the life ends: then what `start` gave is called.
 *
 * Left is why it was ended.
 */
export const waitIn = (life: Life, start: (go: () => void) => () => void): Promise<Trouble | undefined> =>
  new Promise((resolve) => {
    let isOver = false
    const over = (why: Trouble | undefined): void => {
      isOver = true
      resolve(why)
    }
    const before = life.ended()
    if (before !== undefined) return resolve(before)
    const cancel = start(() => {
      if (!isOver) over(undefined)
    })
    if (isOver) return life.during(nothing)
    life.during((why) => {
      if (isOver) return
      cancel()
      over(why)
    })
  })

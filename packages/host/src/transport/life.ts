/** The lifetime of a call, which ends by its deadline, its caller's signal, or the transport. */
import type { Trouble } from './retry.js'
import type { Timing } from './settings.js'

/** One call, from its start to the last byte of its answer. */
export interface Life {
  /** Milliseconds until the deadline. */
  readonly leftMs: () => number
  /** Returns the reason if the call was ended early. */
  readonly ended: () => Trouble | undefined
  /**
   * Sets the function that stops the current activity when the call is ended; calls it at once if
   * it already was.
   */
  readonly during: (stop: (why: Trouble) => void) => void
  /** Ends the call from within the transport. */
  readonly end: (why: Trouble) => void
  /** Cleans up listeners and timers. Must be called when the call has finished. */
  readonly finish: () => void
}

const nothing = (): void => undefined

/** Starts the lifetime of a call. `onFinish` is called once, at its end. */
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
  /** Checks the deadline, because timers of long deadlines may fire early. */
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
 * Waits until `start` calls back, or until the lifetime ends. Then the function that `start`
 * returned is called.
 *
 * Resolves with the reason if the lifetime ended.
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

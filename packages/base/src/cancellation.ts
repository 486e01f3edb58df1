/** Cancellation of work: one signal that combines several reasons, and waits that end with it. */
import type { Timers } from './capabilities.js'

/** The cancellation of one piece of work. */
export interface Cancellation {
  /** Aborts for the first of the reasons. */
  readonly signal: AbortSignal
  /**
   * Creates a signal for one of many parts, which aborts with all of them. Many listeners on one
   * signal would be slow, and Node warns about them.
   */
  readonly part: () => { readonly signal: AbortSignal; readonly release: () => void }
  /** Cancels the work, because part of it failed. */
  readonly stop: () => void
  /** Returns the reason of the abort, or null before it. */
  readonly why: () => 'caller' | 'deadline' | 'stopped' | null
  /** Removes the listener from the caller's signal and the timer. Call it when the work is over. */
  readonly release: () => void
}

/**
 * Creates a signal that aborts with the caller's signal, at a deadline, or when `stop` is called.
 *
 * Effects  a listener on the caller's signal and a timer, until `release`.
 */
export const cancellation = (
  options: { readonly signal?: AbortSignal | undefined; readonly deadlineMs?: number | undefined } = {},
): Cancellation => {
  const { signal: caller, deadlineMs } = options
  const controller = new AbortController()
  let why: ReturnType<Cancellation['why']> = null
  const parts = new Set<AbortController>()
  const end = (reason: NonNullable<typeof why>) => (): void => {
    why ??= reason
    controller.abort()
    for (const part of parts) part.abort()
  }
  const onCaller = end('caller')
  const timer = deadlineMs === undefined ? undefined : setTimeout(end('deadline'), deadlineMs)
  if (caller?.aborted === true) onCaller()
  else caller?.addEventListener('abort', onCaller, { once: true })
  return {
    signal: controller.signal,
    part: () => {
      const part = new AbortController()
      if (why === null) parts.add(part)
      else part.abort()
      return { signal: part.signal, release: () => void parts.delete(part) }
    },
    stop: end('stopped'),
    why: () => why,
    release: () => {
      clearTimeout(timer)
      caller?.removeEventListener('abort', onCaller)
    },
  }
}

/** The result of a cancelled wait. */
export const ABORTED = Symbol('aborted')

/**
 * Waits for a promise, or until the signal aborts. After the abort, a rejection of the promise is
 * ignored.
 *
 * Errors   rejects as the promise does.
 */
export const unlessAborted = <T>(promise: Promise<T>, signal: AbortSignal): Promise<T | typeof ABORTED> =>
  new Promise((resolve, reject) => {
    const onAbort = (): void => resolve(ABORTED)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })

/**
 * Waits for a promise, at most `ms` milliseconds. After that, a rejection is ignored.
 *
 * Errors   rejects as the promise does.
 */
export const unlessLate = <T>(promise: Promise<T>, ms: number, timers: Timers): Promise<T | typeof ABORTED> =>
  new Promise((resolve, reject) => {
    const cancelTimer = Number.isFinite(ms) ? timers.after(ms, () => resolve(ABORTED)) : () => {}
    promise.then(resolve, reject).finally(cancelTimer)
  })

/** Waits for some milliseconds, or until the signal aborts. */
export const pauseFor = async (ms: number, timers: Timers, signal?: AbortSignal): Promise<void> => {
  let cancelTimer = (): void => {}
  const over = new Promise<void>((resolve) => {
    cancelTimer = timers.after(ms, resolve)
  })
  await (signal === undefined ? over : unlessAborted(over, signal))
  cancelTimer()
}

/**
 * Yields the items of a stream until it ends or the signal aborts, whether or not the stream
 * handles the signal.
 *
 * Errors   throws what the stream throws.
 * Effects  a stream that is left early gets a call of `return`, which is not awaited, because a
 *          hanging one would block its reader.
 */
export async function* untilAborted<T>(items: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T, void> {
  const reader = items[Symbol.asyncIterator]()
  let isOver = false
  try {
    while (!signal.aborted) {
      const next = await unlessAborted(reader.next(), signal)
      if (next === ABORTED) return
      if (next.done === true) {
        isOver = true
        return
      }
      yield next.value
    }
  } finally {
    if (!isOver) Promise.resolve(reader.return?.()).catch(() => {}) // the end of an abandoned stream is not awaited, and its errors are ignored
  }
}

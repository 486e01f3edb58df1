/** Work that can be called off: one signal made of several reasons, and waits that end with it. */

/** A signal of its own for one piece of work. */
export interface Cancellation {
  /** Aborts for the first reason that there is. */
  readonly signal: AbortSignal
  /** A signal for one of many parts, which aborts with all of them: so many listeners on one signal would be slow, and Node warns of them. */
  readonly part: () => { readonly signal: AbortSignal; readonly release: () => void }
  /** Calls the work off, because part of it failed. */
  readonly stop: () => void
  /** Why the signal aborted; null while it has not. */
  readonly why: () => 'caller' | 'deadline' | 'stopped' | null
  /** To be called when the work is over: nothing of it stays with the caller's signal or the clock. */
  readonly release: () => void
}

/**
 * Makes a signal that aborts with the caller's, after a time, or when told.
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

/** What a wait gives that was called off. */
export const ABORTED = Symbol('aborted')

/**
 * Waits for a promise, or until the signal aborts. A promise that nobody waits for any longer may reject in silence.
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
 * The items of a stream until it ends or the signal aborts, whatever the stream does about the signal.
 *
 * Errors   throws what the stream throws.
 * Effects  a stream that is left early is told so by `return`, whose end is not waited for: one that hangs would hang its reader.
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
    if (!isOver) Promise.resolve(reader.return?.()).catch(() => {}) // it was told to end: how it ends is its own affair
  }
}

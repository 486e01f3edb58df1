/**
 * A queue with one writer and one reader. The reader is an async iterator; the writer never waits.
 */

/** A mutable queue. */
export interface EventQueue<T> extends AsyncIterableIterator<T, undefined, undefined> {
  readonly return: () => Promise<IteratorReturnResult<undefined>>
  /** Adds an event. Does nothing after `end`. */
  readonly push: (event: T) => void
  /** Ends the queue. Earlier events can still be read. */
  readonly end: () => void
}

export interface EventQueueOptions<T> {
  /** Called when an event was read. */
  readonly onRead?: (event: T) => void
  /** Called when the reader stops before the end. `return` waits for the result. */
  readonly onReturn?: () => Promise<void>
}

const DONE: IteratorReturnResult<undefined> = { done: true, value: undefined }

/**
 * Makes an empty queue.
 *
 * Effects  keeps unread events without a limit, which the writer must enforce. `return` drops them.
 */
export const eventQueue = <T>({ onRead, onReturn }: EventQueueOptions<T> = {}): EventQueue<T> => {
  let waiting: T[] = []
  let next = 0
  let readers: ((result: IteratorResult<T, undefined>) => void)[] = []
  let state: 'open' | 'ended' = 'open'

  const read = (event: T): IteratorResult<T, undefined> => {
    onRead?.(event)
    return { done: false, value: event }
  }

  const end = (): void => {
    if (state === 'ended') return
    state = 'ended'
    for (const reader of readers) reader(DONE)
    readers = []
  }

  const queue: EventQueue<T> = {
    push: (event) => {
      if (state === 'ended') return
      const reader = readers.shift()
      if (reader === undefined) waiting.push(event)
      else reader(read(event))
    },
    end,
    next: () => {
      if (next < waiting.length) {
        const event = waiting[next++]!
        if (next === waiting.length) {
          waiting = []
          next = 0
        }
        return Promise.resolve(read(event))
      }
      if (state === 'ended') return Promise.resolve(DONE)
      return new Promise((resolve) => readers.push(resolve))
    },
    return: async () => {
      const isEarly = state === 'open'
      waiting = []
      next = 0
      end()
      if (isEarly) await onReturn?.()
      return DONE
    },
    [Symbol.asyncIterator]: () => queue,
  }
  return queue
}

/** A queue between one writer and one reader: the reader is an async iterator, the writer never waits. */

/** Mutable: it lives at the edge of the engine. */
export interface EventQueue<T> extends AsyncIterableIterator<T, undefined, undefined> {
  readonly return: () => Promise<IteratorReturnResult<undefined>>
  /** Does nothing after `end`. */
  readonly push: (event: T) => void
  /** What was pushed before is still read. */
  readonly end: () => void
}

export interface EventQueueOptions<T> {
  /** An event was read. */
  readonly onRead?: (event: T) => void
  /** The reader stops before the end. `return` waits for the result. */
  readonly onReturn?: () => Promise<void>
}

const DONE: IteratorReturnResult<undefined> = { done: true, value: undefined }

/**
 * Makes a queue.
 *
 * Effects  unread events are kept without a limit: whoever writes sees to that. `return` drops them.
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

/** Merged streams, and responses with server-sent events. */
import { condition } from '@tandem-rl/base'

/** An item of a source: a value, or its end. */
type Arrival<T> = { readonly source: number; readonly result: IteratorResult<T> }

/**
 * Merges several streams. Yields each value with the index of its stream, in order of arrival.
 * Leaving the loop ends all of them.
 *
 * Errors   passes on exceptions of the streams.
 */
export async function* merged<T>(sources: readonly AsyncIterable<T>[]): AsyncGenerator<readonly [number, T]> {
  const iterators = sources.map((source) => source[Symbol.asyncIterator]())
  const ready: (Arrival<T> | { readonly error: unknown })[] = []
  const arrived = condition()
  const ask = (source: number): void => {
    iterators[source]!.next()
      .then(
        (result) => ready.push({ source, result }),
        (error: unknown) => ready.push({ error }),
      )
      .then(arrived.notify)
  }
  for (let i = 0; i < iterators.length; i++) ask(i)
  let open = iterators.length
  try {
    while (open > 0) {
      const next = ready.shift()
      if (next === undefined) await arrived.wait()
      else if ('error' in next) throw next.error
      else if (next.result.done === true) open--
      else {
        yield [next.source, next.result.value]
        ask(next.source)
      }
    }
  } finally {
    for (const iterator of iterators) void iterator.return?.()
  }
}

/** Returns a frame of a stream with a value as JSON. */
export const frame = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`

/** Returns a frame with the name of its event. */
export const namedFrame = (name: string, value: unknown): string => `event: ${name}\n${frame(value)}`

/** The last frame of a stream. */
export const DONE = 'data: [DONE]\n\n'

/**
 * Makes a response with server-sent events. `stop` is called when the client disconnects.
 *
 * Effects  frames are generated as the client reads them.
 */
export const eventStream = (frames: AsyncGenerator<string>, stop: () => void): Response => {
  const encoder = new TextEncoder()
  const body = new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      const next = await frames.next()
      if (next.done === true) controller.close()
      else controller.enqueue(encoder.encode(next.value))
    },
    cancel: () => {
      stop()
      void frames.return(undefined)
    },
  })
  return new Response(body, {
    headers: { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' },
  })
}

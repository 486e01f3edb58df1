/** How a server's answer to one request becomes events: whole, or from server-sent events. What its texts say is the client's to know. */
import * as E from 'fp-ts/lib/Either.js'
import type { HttpEvents, HttpFailure, HttpRequest, Transport } from '../../core/http.js'
import type { GenerationEvent, GenerationFailure } from '../../data/generation.js'
import { generationFailure } from './failures.js'

/** Events, or the one that ends them. */
type ReadEvents = E.Either<GenerationEvent, readonly GenerationEvent[]>

/** The reading of one answer. */
export interface DeliveredAnswer {
  /** Of the text of a whole answer, or of a frame of a stream. */
  readonly read: (text: string) => ReadEvents
  /** After the last text: what follows, or what is missing. */
  readonly end: () => ReadEvents
  /** Completions that are not finished yet. */
  readonly open: () => readonly number[]
  readonly failureOf: (failure: HttpFailure) => GenerationFailure
}

/** The event of a failure. */
export const failed = (failure: GenerationFailure): GenerationEvent => ({ _tag: 'Failed', failure })

/** The event of an answer that cannot be: of kind `protocol`. */
export const wrong = (reason: string): GenerationEvent =>
  failed(generationFailure('protocol', `the answer cannot be used: ${reason}`))

/** What an HTTP failure makes of a request: one that was cancelled ends with `abort`. */
const broken = (failure: HttpFailure, { open, failureOf }: DeliveredAnswer): readonly GenerationEvent[] =>
  failure.kind === 'cancelled'
    ? open().map((index) => ({ _tag: 'Finished', index, finishReason: 'abort', stopReason: null }))
    : [failed(failureOf(failure))]

async function* streamed({ events }: HttpEvents, reading: DeliveredAnswer): AsyncGenerator<GenerationEvent> {
  let isDone = false
  for await (const item of events) {
    if (item._tag === 'HttpFailure') return yield* broken(item, reading)
    isDone = item.event.data === '[DONE]'
    if (isDone) break
    const read = reading.read(item.event.data)
    if (E.isLeft(read)) return yield read.left
    yield* read.right
  }
  if (!isDone) return yield wrong('the stream ended before its last frame')
  const rest = reading.end()
  if (E.isLeft(rest)) yield rest.left
  else yield* rest.right
}

/**
 * Sends a request and gives the events of its answer. It never throws. Of a whole answer nothing is told before all of it is read.
 *
 * Effects  one request, repeated by the transport until an answer begins. Aborting the request's signal closes the connection, which ends the
 *          work on the server: what was not finished ends with `abort`.
 */
export async function* delivered(
  { transport, delivery }: { readonly transport: Transport; readonly delivery: 'whole' | 'stream' },
  request: HttpRequest,
  reading: DeliveredAnswer,
): AsyncGenerator<GenerationEvent> {
  if (delivery === 'stream') {
    const stream = await transport.events(request)()
    return yield* E.isLeft(stream) ? broken(stream.left, reading) : streamed(stream.right, reading)
  }
  const reply = await transport.send(request)()
  if (E.isLeft(reply)) return yield* broken(reply.left, reading)
  const read = reading.read(reply.right.text)
  if (E.isLeft(read)) return yield read.left
  const rest = reading.end()
  if (E.isLeft(rest)) return yield rest.left
  yield* read.right
  yield* rest.right
}

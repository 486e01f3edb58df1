/**
 * Turns a server's answer to one request into events: a whole answer, or server-sent events. The
 * client parses the texts.
 */
import type { HttpEvents, HttpFailure, HttpRequest, Transport } from '@tandem-rl/base'
import type { GenerationEvent, GenerationFailure } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { generationFailure } from '../failures.js'

/** Events, or a final event that ends the stream. */
type ReadEvents = E.Either<GenerationEvent, readonly GenerationEvent[]>

/** A parser of one answer. */
export interface DeliveredAnswer {
  /** Reads a whole answer, or one frame of a stream. */
  readonly read: (text: string) => ReadEvents
  /** Returns the remaining events after the last text, or the error that something is missing. */
  readonly end: () => ReadEvents
  /** Indices of unfinished completions. */
  readonly open: () => readonly number[]
  readonly failureOf: (failure: HttpFailure) => GenerationFailure
}

/** Returns the event of a failure. */
export const failed = (failure: GenerationFailure): GenerationEvent => ({ _tag: 'Failed', failure })

/** Returns the event of an invalid answer, a failure of kind `protocol`. */
export const wrong = (reason: string): GenerationEvent =>
  failed(generationFailure('protocol', `the answer cannot be used: ${reason}`))

/** Returns the events of an HTTP failure. A cancelled request ends with `abort`. */
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
    if (item._tag === 'Unfinished') continue
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
 * Sends a request and yields the events of its answer. Never throws. A whole answer yields events
 * only after all of it is read.
 *
 * Effects  sends one request, which the transport retries until an answer starts. Aborting the
 *          request's signal closes the connection, which ends the work on the server. Unfinished
 *          completions then end with `abort`.
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

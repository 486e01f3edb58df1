/** One request on the wire: sent, answered or broken off, as events. */
import * as E from 'fp-ts/lib/Either.js'
import type { HttpEvents, HttpFailure, HttpRequest, Transport } from '../../../core/http.js'
import { parseJson } from '../../../core/json.js'
import type { FinishReason, GenerationEvent, GenerationFailure, GenerationRequest } from '../../../data/generation.js'
import { type AnswerReader, answerReader, type Expected } from '../vllm/answerEvents.js'
import { generationFailure, requestFailure } from '../vllm/failures.js'
import { type ReplyReader, replyReader } from './reply.js'
import { type BodySettings, generateBody } from './request.js'

/** How a request goes out. */
export interface SendOptions {
  readonly transport: Transport
  readonly delivery: BodySettings['delivery']
  readonly deadlineMs: number | null
  readonly signal: AbortSignal | undefined
  readonly expected: Expected
  readonly labelHolds: () => boolean
  /** Told the names of each attempt, under which the server knows the completions. */
  readonly onAttempt: (names: readonly string[]) => void
}

/** The two readers that an answer goes through: of its form, and of what it says. */
interface Readers {
  readonly reply: ReplyReader
  readonly answer: AnswerReader
}

const failed = (failure: GenerationFailure): GenerationEvent => ({ _tag: 'Failed', failure })

const wrong = (reason: string): GenerationEvent =>
  failed(generationFailure('protocol', `the answer cannot be used: ${reason}`))

const finished = (index: number, finishReason: FinishReason): GenerationEvent => ({
  _tag: 'Finished',
  index,
  finishReason,
  stopReason: null,
})

/** The server refuses an adapter that it does not have as it refuses any other field. */
const failureOf = (failure: HttpFailure, { adapter }: GenerationRequest): GenerationFailure => {
  const told = requestFailure(failure, adapter)
  const isAdapters = adapter !== null && failure.status === 400 && /lora/i.test(failure.body ?? '')
  return isAdapters ? { ...told, kind: 'unknown-adapter' } : told
}

/** What an HTTP failure makes of a request: one that was cancelled ends with `abort`. */
const broken = (failure: HttpFailure, { answer }: Readers, request: GenerationRequest): readonly GenerationEvent[] =>
  failure.kind === 'cancelled'
    ? answer.open().map((index) => finished(index, 'abort'))
    : [failed(failureOf(failure, request))]

/** The names of an attempt: those of others are never used again, since the server may still know them. */
const namesOf = ({ id, sampling }: GenerationRequest, attempt: number): readonly string[] => {
  const name = attempt === 1 ? id : `${id}~${attempt}`
  return sampling.n === 1 ? [name] : Array.from({ length: sampling.n }, (_, i) => `${name}#${i}`)
}

const httpRequest = (request: GenerationRequest, options: SendOptions): HttpRequest => {
  const { delivery, deadlineMs, signal, expected } = options
  return {
    method: 'POST',
    path: '/generate',
    json: (attempt: number) => {
      const names = namesOf(request, attempt)
      options.onAttempt(names)
      return generateBody(request, { delivery, names, maxTokens: expected.maxTokens })
    },
    repeat: 'fresh',
    ...(deadlineMs !== null && { deadlineMs }),
    ...(signal !== undefined && { signal }),
    tokens: request.sampling.n * (request.prompt.length + expected.maxTokens),
    ...(request.conversation !== undefined && { conversation: request.conversation }),
  }
}

/** Events of one JSON text of the server, or why it is none. */
const readText = (text: string, { reply, answer }: Readers): E.Either<GenerationEvent, readonly GenerationEvent[]> => {
  const json = parseJson(text)
  if (E.isLeft(json)) return E.left(wrong(`it is ${json.left}`))
  const told = reply.read(json.right)
  if (E.isLeft(told)) return E.left(failed(told.left))
  const events = answer.accept(told.right)
  return E.isLeft(events) ? E.left(wrong(events.left)) : events
}

/** What is missing at the end. SGLang tells the end of every completion. */
const endOf = ({ answer }: Readers): GenerationEvent | null => {
  const [missing] = answer.open()
  return missing === undefined ? null : wrong(`completion ${missing} is missing or has no end`)
}

async function* whole(
  request: GenerationRequest,
  options: SendOptions,
  readers: Readers,
): AsyncGenerator<GenerationEvent> {
  const reply = await options.transport.send(httpRequest(request, options))()
  if (E.isLeft(reply)) return yield* broken(reply.left, readers, request)
  const events = readText(reply.right.text, readers)
  if (E.isLeft(events)) return yield events.left
  const missing = endOf(readers)
  if (missing !== null) return yield missing
  yield* events.right
}

async function* streamed(
  stream: HttpEvents,
  request: GenerationRequest,
  readers: Readers,
): AsyncGenerator<GenerationEvent> {
  let isDone = false
  for await (const item of stream.events) {
    if (item._tag === 'HttpFailure') return yield* broken(item, readers, request)
    isDone = item.event.data === '[DONE]'
    if (isDone) break
    const events = readText(item.event.data, readers)
    if (E.isLeft(events)) return yield events.left
    yield* events.right
  }
  if (!isDone) return yield wrong('the stream ended before its last frame')
  const missing = endOf(readers)
  if (missing !== null) yield missing
}

/**
 * Sends a request and gives its events. It never throws.
 *
 * Effects  one request, repeated by the transport until an answer begins; each attempt has names of its own. Aborting the signal closes the
 *          connection, which ends the work on the server: what was not finished ends with `abort`.
 */
export async function* sampleOnce(request: GenerationRequest, options: SendOptions): AsyncGenerator<GenerationEvent> {
  const readers: Readers = {
    reply: replyReader({ request, labelHolds: options.labelHolds }),
    answer: answerReader(options.expected),
  }
  if (options.delivery === 'whole') return yield* whole(request, options, readers)
  const stream = await options.transport.events(httpRequest(request, options))()
  if (E.isLeft(stream)) yield* broken(stream.left, readers, request)
  else yield* streamed(stream.right, request, readers)
}

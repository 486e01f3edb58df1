/** Sends one request and yields the events of its answer. */
import * as E from 'fp-ts/lib/Either.js'
import type { HttpFailure, HttpRequest, Transport } from '../../../core/http.js'
import { parseJson } from '../../../core/json.js'
import type { GenerationEvent, GenerationFailure, GenerationRequest } from '../../../data/generation.js'
import { type DeliveredAnswer, delivered, failed, wrong } from '../delivery.js'
import { requestFailure } from '../failures.js'
import { answerReader, type Expected } from '../vllm/answerEvents.js'
import { replyReader } from './reply.js'
import { type BodySettings, generateBody } from './request.js'

/** The settings for sending a request. */
export interface SGLangSendOptions {
  readonly transport: Transport
  readonly delivery: BodySettings['delivery']
  readonly deadlineMs: number | null
  readonly signal: AbortSignal | undefined
  readonly expected: Expected
  readonly labelHolds: () => boolean
  /** Called with the server's names of the completions in each attempt. */
  readonly onAttempt: (names: readonly string[]) => void
}

/** Converts a failure. The server refuses an unknown adapter like any other invalid field. */
const failureOf = (failure: HttpFailure, { adapter }: GenerationRequest): GenerationFailure => {
  const reported = requestFailure(failure, adapter)
  const isAdapters = adapter !== null && failure.status === 400 && /lora/i.test(failure.body ?? '')
  return isAdapters ? { ...reported, kind: 'unknown-adapter' } : reported
}

/**
 * Returns the names of an attempt. Names are never reused, because the server may still know them.
 */
const namesOf = ({ id, sampling }: GenerationRequest, attempt: number): readonly string[] => {
  const name = attempt === 1 ? id : `${id}~${attempt}`
  return sampling.n === 1 ? [name] : Array.from({ length: sampling.n }, (_, i) => `${name}#${i}`)
}

const httpRequest = (request: GenerationRequest, options: SGLangSendOptions): HttpRequest => {
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
  }
}

/**
 * Makes the parser of an answer, which checks its format, then its content. SGLang reports the end
 * of every completion.
 */
const readingOf = (request: GenerationRequest, { labelHolds, expected }: SGLangSendOptions): DeliveredAnswer => {
  const reply = replyReader({ request, labelHolds })
  const answer = answerReader(expected)
  return {
    read: (text) => {
      const json = parseJson(text)
      if (E.isLeft(json)) return E.left(wrong(`it is ${json.left}`))
      const result = reply.read(json.right)
      if (E.isLeft(result)) return E.left(failed(result.left))
      const events = answer.accept(result.right)
      return E.isLeft(events) ? E.left(wrong(events.left)) : events
    },
    end: () => {
      const [missing] = answer.open()
      return missing === undefined ? E.right([]) : E.left(wrong(`completion ${missing} is missing or has no end`))
    },
    open: answer.open,
    failureOf: (failure) => failureOf(failure, request),
  }
}

/** Sends a request and yields its events, like `delivered`. Each attempt has unique names. */
export const sampleOnce = (request: GenerationRequest, options: SGLangSendOptions): AsyncGenerator<GenerationEvent> =>
  delivered(options, httpRequest(request, options), readingOf(request, options))

/** One request on the wire: sent, answered or broken off, as events. */
import * as E from 'fp-ts/lib/Either.js'
import type { Ids } from '../../../core/capabilities.js'
import type { HttpEvents, HttpFailure, HttpRequest, Transport } from '../../../core/http.js'
import { parseJson } from '../../../core/json.js'
import type { FinishReason, GenerationEvent, GenerationRequest } from '../../../data/generation.js'
import { checkRequest } from '../../generation/requestCheck.js'
import type { AnswerReader } from './answerEvents.js'
import type { DetectedServer } from './detect.js'
import { generationFailure, requestFailure, serverError } from './failures.js'
import { untoldReason } from './toldLogProbs.js'
import { readAnswer } from './wireAnswer.js'
import { askedLogProbs, type Delivery, SAMPLING_PATHS, type SamplingEndpoint, wireBody } from './wireRequest.js'

/** A request that can be sent, and how. */
export interface PlannedRequest {
  readonly request: GenerationRequest
  readonly endpoint: SamplingEndpoint
  readonly delivery: Delivery
  readonly model: string
  readonly maxTokens: number
}

/** What a client asks for besides the request. */
export interface PlanOptions {
  readonly model: string
  /** 'auto': another endpoint than the detected one may be taken for a request that only that one can answer. */
  readonly endpoint: 'auto' | SamplingEndpoint
  readonly delivery: Delivery
}

/** vLLM cuts larger biases, and samples from another distribution than was asked for. */
const MOST_BIAS = 100

const biasProblem = ({ sampling }: GenerationRequest): string | null => {
  const wrong = [...sampling.logitBias].find(([, bias]) => Math.abs(bias) > MOST_BIAS)
  return wrong === undefined
    ? null
    : `logitBias must be from -${MOST_BIAS} to ${MOST_BIAS} on a vLLM server, got ${wrong[1]} for token ${wrong[0]}`
}

const endpointFor = (
  { sampling }: GenerationRequest,
  { endpoint, maxLogProbs }: DetectedServer,
  asked: PlanOptions['endpoint'],
): SamplingEndpoint | string => {
  const fits = (path: SamplingEndpoint): boolean => askedLogProbs(sampling, path) <= maxLogProbs
  if (fits(endpoint)) return endpoint
  if (asked === 'auto' && fits('completions')) return 'completions'
  const needs = `topLogProbs ${sampling.topLogProbs} needs ${askedLogProbs(sampling, endpoint)} log-probabilities of each place`
  return `${needs}, and the server allows ${maxLogProbs}: start it with a higher --max-logprobs`
}

/**
 * How a request is sent. Prompt log-probabilities come with whole answers only: vLLM leaves them out of streams.
 *
 * Errors   `Left` with one sentence for what no answer could fulfil: what `checkRequest` refuses, biases that the server would cut,
 *          log-probabilities that it does not tell.
 */
export const planRequest = (
  request: GenerationRequest,
  detected: DetectedServer,
  options: PlanOptions,
): E.Either<string, PlannedRequest> => {
  const { abilities, logProbs } = detected
  const checked = checkRequest(request, { info: abilities, text: 'decoded' })
  if (E.isLeft(checked)) return E.left(checked.left.reason)
  const problem = biasProblem(checked.right) ?? untoldReason(logProbs, checked.right.sampling)
  if (problem !== null) return E.left(problem)
  const endpoint = endpointFor(checked.right, detected, options.endpoint)
  if (endpoint !== 'generate' && endpoint !== 'completions') return E.left(endpoint)
  const { maxTokens, promptLogProbs } = checked.right.sampling
  const room = abilities.maxModelLength - request.prompt.length
  return E.right({
    request: checked.right,
    endpoint,
    delivery: promptLogProbs === null ? options.delivery : 'whole',
    model: options.model,
    maxTokens: Math.min(room, maxTokens ?? room),
  })
}

/** How a planned request goes out. */
export interface SendOptions {
  readonly transport: Transport
  readonly ids: Ids
  readonly deadlineMs: number
  readonly signal: AbortSignal
  /** Told the name of each attempt, under which the server knows it. */
  readonly onAttempt: (requestId: string) => void
}

const failed = (failure: ReturnType<typeof generationFailure>): GenerationEvent => ({ _tag: 'Failed', failure })

const wrong = (reason: string): GenerationEvent =>
  failed(generationFailure('protocol', `the answer cannot be used: ${reason}`))

const finished = (index: number, finishReason: FinishReason): GenerationEvent => ({
  _tag: 'Finished',
  index,
  finishReason,
  stopReason: null,
})

/** What an HTTP failure makes of a request: one that was cancelled ends with `abort`. */
const broken = (failure: HttpFailure, reader: AnswerReader, { request }: PlannedRequest): readonly GenerationEvent[] =>
  failure.kind === 'cancelled'
    ? reader.open().map((index) => finished(index, 'abort'))
    : [failed(requestFailure(failure, request.adapter))]

const httpRequest = (plan: PlannedRequest, options: SendOptions): HttpRequest => {
  const { request, maxTokens } = plan
  return {
    method: 'POST',
    path: SAMPLING_PATHS[plan.endpoint],
    json: () => {
      const requestId = options.ids.fresh()
      options.onAttempt(requestId)
      return wireBody(request, { ...plan, requestId })
    },
    repeat: 'fresh',
    deadlineMs: options.deadlineMs,
    signal: options.signal,
    tokens: request.prompt.length + request.sampling.n * maxTokens,
    ...(request.conversation !== undefined && { conversation: request.conversation }),
  }
}

/** Events of one JSON text of the server, or why it is none. */
const readText = (
  text: string,
  reader: AnswerReader,
  { endpoint, request }: PlannedRequest,
): E.Either<GenerationEvent, readonly GenerationEvent[]> => {
  const json = parseJson(text)
  if (E.isLeft(json)) return E.left(wrong(`it is ${json.left}`))
  const error = serverError(json.right)
  if (error !== null) {
    const kind = request.adapter !== null && /NotFound/.test(error.type) ? 'unknown-adapter' : 'internal'
    return E.left(failed(generationFailure(kind, `the server broke off: ${error.message}`)))
  }
  const answer = readAnswer(endpoint, json.right)
  const events = E.isLeft(answer) ? answer : reader.accept(answer.right)
  return E.isLeft(events) ? E.left(wrong(events.left)) : events
}

async function* wholeAnswer(
  plan: PlannedRequest,
  options: SendOptions,
  reader: AnswerReader,
): AsyncGenerator<GenerationEvent> {
  const reply = await options.transport.send(httpRequest(plan, options))()
  if (E.isLeft(reply)) return yield* broken(reply.left, reader, plan)
  const events = readText(reply.right.text, reader, plan)
  if (E.isLeft(events)) return yield events.left
  const [missing] = reader.open()
  if (missing !== undefined) return yield wrong(`completion ${missing} is missing or has no end`)
  const end = reader.end()
  if (E.isLeft(end)) return yield wrong(end.left)
  yield* events.right
}

async function* streamed(
  stream: HttpEvents,
  plan: PlannedRequest,
  reader: AnswerReader,
): AsyncGenerator<GenerationEvent> {
  let isDone = false
  for await (const item of stream.events) {
    if (item._tag === 'HttpFailure') return yield* broken(item, reader, plan)
    isDone = item.event.data === '[DONE]'
    if (isDone) break
    const events = readText(item.event.data, reader, plan)
    if (E.isLeft(events)) return yield events.left
    yield* events.right
  }
  if (!isDone) return yield wrong('the stream ended before its last frame')
  const end = reader.end()
  if (E.isLeft(end)) yield wrong(end.left)
  else yield* end.right
}

/**
 * Sends a request and gives its events. It never throws.
 *
 * Effects  one request, repeated by the transport until an answer begins; each attempt has a name of its own. Aborting the signal closes the
 *          connection, which ends the work on the server: what was not finished ends with `abort`.
 */
export async function* sampleRequest(
  plan: PlannedRequest,
  options: SendOptions,
  reader: AnswerReader,
): AsyncGenerator<GenerationEvent> {
  if (plan.delivery === 'whole') return yield* wholeAnswer(plan, options, reader)
  const stream = await options.transport.events(httpRequest(plan, options))()
  if (E.isLeft(stream)) yield* broken(stream.left, reader, plan)
  else yield* streamed(stream.right, plan, reader)
}

/** Sends one request and yields the events of its answer. */
import { type HttpRequest, type Ids, parseJson, type Transport } from '@tandem-rl/base'
import type { GenerationEvent, GenerationRequest } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { checkRequest } from '../../generation/requestCheck.js'
import { generationFailure, requestFailure, serverError } from '../failures.js'
import type { AnswerReader } from './answerEvents.js'
import { type DeliveredAnswer, delivered, failed, wrong } from './delivery.js'
import type { DetectedVLLM } from './detect.js'
import { missingLogProbs } from './serverLogProbs.js'
import { readAnswer } from './wireAnswer.js'
import { type Delivery, requestedLogProbs, SAMPLING_PATHS, type SamplingEndpoint, wireBody } from './wireRequest.js'

/** A request that can be sent, with its settings. */
export interface PlannedSample {
  readonly request: GenerationRequest
  readonly endpoint: SamplingEndpoint
  readonly delivery: Delivery
  readonly model: string
  readonly maxTokens: number
}

/** The settings of a client for its requests. */
export interface PlanSampleOptions {
  readonly model: string
  /**
   * 'auto': a request that only the other endpoint supports may use that one instead of the
   * detected one.
   */
  readonly endpoint: 'auto' | SamplingEndpoint
  readonly delivery: Delivery
}

/** Largest absolute bias. vLLM clips larger ones, which would change the distribution. */
const MOST_BIAS = 100

const biasProblem = ({ sampling }: GenerationRequest): string | null => {
  const wrong = [...sampling.logitBias].find(([, bias]) => Math.abs(bias) > MOST_BIAS)
  return wrong === undefined
    ? null
    : `logitBias must be from -${MOST_BIAS} to ${MOST_BIAS} on a vLLM server, got ${wrong[1]} for token ${wrong[0]}`
}

const endpointFor = (
  { sampling }: GenerationRequest,
  { endpoint, maxLogProbs }: DetectedVLLM,
  wanted: PlanSampleOptions['endpoint'],
): SamplingEndpoint | string => {
  const fits = (path: SamplingEndpoint): boolean => requestedLogProbs(sampling, path) <= maxLogProbs
  if (fits(endpoint)) return endpoint
  if (wanted === 'auto' && fits('completions')) return 'completions'
  const needs = `topLogProbs ${sampling.topLogProbs} needs ${requestedLogProbs(sampling, endpoint)} log-probabilities per position`
  return `${needs}, and the server allows ${maxLogProbs}: start it with a higher --max-logprobs`
}

/**
 * Plans a request. Prompt log-probabilities need whole answers, because vLLM leaves them out of
 * streams.
 *
 * Errors   `Left` with a message for requests that cannot be answered: those refused by
 *          `checkRequest`, biases that the server would clip, and log-probabilities that it does
 *          not report.
 */
export const planRequest = (
  request: GenerationRequest,
  detected: DetectedVLLM,
  options: PlanSampleOptions,
): E.Either<string, PlannedSample> => {
  const { abilities, logProbs } = detected
  const checked = checkRequest(request, { info: abilities, text: 'decoded' })
  if (E.isLeft(checked)) return E.left(checked.left.reason)
  const problem = biasProblem(checked.right) ?? missingLogProbs(logProbs, checked.right.sampling)
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

/** The settings for sending a planned request. */
export interface SendOptions {
  readonly transport: Transport
  readonly ids: Ids
  readonly deadlineMs: number
  readonly signal: AbortSignal
  /** Called with the server's name of each attempt. */
  readonly onAttempt: (requestId: string) => void
}

const httpRequest = (plan: PlannedSample, options: SendOptions): HttpRequest => {
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
  }
}

/**
 * Makes the parser of an answer. A stream may lack the end of a completion that has all of its
 * tokens; a whole answer has all ends.
 */
const readingOf = ({ request, endpoint, delivery }: PlannedSample, reader: AnswerReader): DeliveredAnswer => ({
  read: (text) => {
    const json = parseJson(text)
    if (E.isLeft(json)) return E.left(wrong(`it is ${json.left}`))
    const error = serverError(json.right)
    if (error !== null) {
      const kind = request.adapter !== null && /NotFound/.test(error.type) ? 'unknown-adapter' : 'internal'
      return E.left(failed(generationFailure(kind, `the server stopped with an error: ${error.message}`)))
    }
    const answer = readAnswer(endpoint, json.right)
    const events = E.isLeft(answer) ? answer : reader.accept(answer.right)
    return E.isLeft(events) ? E.left(wrong(events.left)) : events
  },
  end: () => {
    const [missing] = reader.open()
    if (delivery === 'whole' && missing !== undefined)
      return E.left(wrong(`completion ${missing} is missing or has no end`))
    const events = reader.end()
    return E.isLeft(events) ? E.left(wrong(events.left)) : events
  },
  open: reader.open,
  failureOf: (failure) => requestFailure(failure, request.adapter),
})

/** Sends a request and yields its events, like `delivered`. Each attempt has a unique name. */
export const sampleRequest = (
  plan: PlannedSample,
  options: SendOptions,
  reader: AnswerReader,
): AsyncGenerator<GenerationEvent> =>
  delivered({ ...options, delivery: plan.delivery }, httpRequest(plan, options), readingOf(plan, reader))

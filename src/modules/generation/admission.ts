/** The admission of requests to an engine: checked, given a ticket, and put in line. */
import type { Clock } from '@tandem-rl/base'
import type { EngineInfo, GenerationEvent, GenerationFailure, GenerationRequest, TextTokenizer } from '@tandem-rl/text'
import { type Either, isLeft, left } from 'fp-ts/lib/Either.js'
import { startCompletion } from './completion.js'
import type { EngineLoop } from './engineLoop.js'
import type { MetricsRecorder } from './engineMetrics.js'
import type { EngineWeights } from './engineWeights.js'
import { makeOutbox } from './outbox.js'
import { checkRequest, invalidRequest } from './requestCheck.js'
import type { Scheduler } from './scheduler.js'
import { makeTicket, type Ticket } from './ticket.js'

/** The parts of an engine that admission uses. */
export interface AdmissionParts {
  readonly info: EngineInfo
  readonly model: {
    readonly endTokens: readonly number[]
    readonly tokenizer: Pick<TextTokenizer, 'decodeStart'> | null
  }
  readonly maxWaiting: number
  readonly scheduler: Scheduler
  readonly weights: EngineWeights
  readonly loop: EngineLoop
  readonly metrics: MetricsRecorder
  readonly clock: Clock
}

/** Admits the requests of an engine. */
export interface Admission {
  /** Number of requests that were admitted. */
  readonly arrivals: () => number
  /** Puts a request in line, or refuses it. Returns its events. */
  readonly open: (request: GenerationRequest, signal: AbortSignal | undefined) => AsyncIterator<GenerationEvent>
}

/** Returns the events of a refused request: its failure alone. */
export const refusedRequest = (failure: GenerationFailure): AsyncIterator<GenerationEvent> => {
  const outbox = makeOutbox(() => {})
  outbox.push({ _tag: 'Failed', failure })
  outbox.end()
  return outbox.reader
}

/** Makes the admission of an engine. Ids are unique among unfinished requests. */
export const makeAdmission = (parts: AdmissionParts): Admission => {
  const { info, model, maxWaiting, scheduler, weights, loop, metrics, clock } = parts
  const { maxModelLength } = info
  const ids = new Set<string>()
  let arrivals = 0

  const longestOf = ({ prompt, sampling }: GenerationRequest): number =>
    Math.min(prompt.length + (sampling.maxTokens ?? maxModelLength), maxModelLength)

  /** Completes and checks a request, or returns the reason for refusing it. */
  const accepted = (request: GenerationRequest): Either<GenerationFailure, GenerationRequest> => {
    const checked = checkRequest(request, { info, text: model.tokenizer === null ? 'absent' : 'decoded' })
    if (isLeft(checked)) return checked
    const { prompt, sampling } = checked.right
    if (ids.has(request.id)) return left(invalidRequest(`id must be unique, got ${request.id}, which is not finished`))
    const problem = scheduler.problem({ rows: sampling.n, tokens: prompt.length, longest: longestOf(checked.right) })
    if (problem !== null) return left(invalidRequest(problem))
    if (scheduler.inLine() < maxWaiting) return checked
    const reason = `${maxWaiting} requests are already waiting: try again later`
    return left({ _tag: 'GenerationFailure', kind: 'overloaded', reason })
  }

  const admit = (request: GenerationRequest, signal: AbortSignal | undefined): AsyncIterator<GenerationEvent> => {
    const use = weights.use(request.adapter)
    if (use === undefined) {
      const loaded = weights.adapters().join(', ') || 'none'
      const reason = `no adapter named ${request.adapter} is loaded; loaded: ${loaded}`
      return refusedRequest({ _tag: 'GenerationFailure', kind: 'unknown-adapter', reason })
    }
    const cancel = (): void => {
      loop.change(() => scheduler.abort((other) => other === ticket))
    }
    const outbox = makeOutbox(cancel)
    const ticket: Ticket = makeTicket({
      request,
      arrival: arrivals++,
      use,
      outbox,
      metrics,
      now: clock.now,
      start: (index) =>
        startCompletion(request, {
          index,
          maxTokens: longestOf(request) - request.prompt.length,
          endTokens: model.endTokens,
          decoding: model.tokenizer?.decodeStart('skip') ?? null,
        }),
      closed: () => {
        ids.delete(request.id)
        signal?.removeEventListener('abort', cancel)
        scheduler.forget(ticket)
      },
    })
    ids.add(request.id)
    scheduler.submit(ticket)
    if (signal?.aborted) cancel()
    else signal?.addEventListener('abort', cancel, { once: true })
    loop.wake()
    return outbox.reader
  }

  return {
    arrivals: () => arrivals,
    open: (request, signal) => {
      const checked = accepted(request)
      return isLeft(checked) ? refusedRequest(checked.left) : admit(checked.right, signal)
    },
  }
}

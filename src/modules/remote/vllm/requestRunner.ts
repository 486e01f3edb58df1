/** The running requests of a client: start, count, cancellation, close. */
import { errorMessage, type Ids } from '@tandem-rl/base'
import type { GenerationEvent, GenerationFailure, GenerationRequest } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { EngineClient, EngineFailure } from '../../../data/engineClient.js'
import { eventQueue } from '../../generation/eventQueue.js'
import { generationFailure } from '../failures.js'
import type { RequestGate } from '../requestGate.js'
import { answerReader, type Expected } from './answerEvents.js'
import type { VLLMServer } from './calls.js'
import { abortVLLM } from './control.js'
import type { ConnectFailure, DetectedVLLM } from './detect.js'
import { type PlannedSample, type PlanSampleOptions, planRequest, sampleRequest } from './sampleRequest.js'
import type { SamplingEndpoint } from './wireRequest.js'

/** The detection of the server, which runs once. */
export type Connection = TE.TaskEither<ConnectFailure, DetectedVLLM>

/** The dependencies of the runner. */
export interface RunnerParts {
  readonly server: VLLMServer
  readonly connection: Connection
  readonly gate: RequestGate
  readonly ids: Ids
  readonly plan: PlanSampleOptions
  readonly deadlineMs: number
}

/** A mutable runner, which tracks running requests. */
export interface RequestRunner extends Pick<EngineClient, 'generate' | 'abort' | 'serve'> {
  /** Expects labels in answers from now on. */
  readonly expectLabels: () => void
  /** Ends all current and later requests with `closed`. */
  readonly close: () => void
}

/** A running request. */
interface Running {
  readonly id: string
  readonly controller: AbortController
  /** The server's names of the current attempt; empty before the first one. */
  names: readonly string[]
}

/**
 * Returns the server's names of a sampling request. vLLM adds a prefix to the given name, and may
 * append a number.
 */
const namesOf = (endpoint: SamplingEndpoint, requestId: string): readonly string[] =>
  endpoint === 'generate' ? [`generate-tokens-${requestId}`] : [`cmpl-${requestId}-0`, `cmpl-${requestId}`]

const failed = (kind: GenerationFailure['kind'], reason: string): GenerationEvent => ({
  _tag: 'Failed',
  failure: generationFailure(kind, reason),
})

const CLOSED = failed('closed', 'the client is closed')

/**
 * Makes a runner for the requests of a client.
 *
 * Effects  a request starts when `generate` is called. It ends when its reader leaves, its signal
 *          aborts, or `abort` is called.
 */
export const requestRunner = ({ server, connection, gate, ids, plan, deadlineMs }: RunnerParts): RequestRunner => {
  const running = new Set<Running>()
  /** The version that each adapter had when it started to serve. */
  const versions = new Map<string, number>()
  let state: 'open' | 'closed' = 'open'
  let labels: 'integers' | 'required' = 'integers'

  const expectedOf = (planned: PlannedSample, detected: DetectedVLLM, version: number): Expected => {
    const { request, maxTokens } = planned
    const isBase = request.adapter === null && detected.baseModels.includes(plan.model)
    return {
      request,
      maxTokens,
      models: isBase ? [plan.model, ...detected.baseModels] : [request.adapter ?? plan.model],
      vocabularySize: detected.abilities.vocabularySize,
      logProbs: detected.logProbs,
      version: request.adapter === null ? version : (versions.get(request.adapter) ?? version),
      labels: isBase ? labels : 'ignored',
    }
  }

  async function* send(planned: PlannedSample, expected: Expected, run: Running): AsyncGenerator<GenerationEvent> {
    const reader = answerReader(expected)
    yield* sampleRequest(
      planned,
      {
        transport: server.transport,
        ids,
        deadlineMs,
        signal: run.controller.signal,
        onAttempt: (requestId) => {
          run.names = namesOf(planned.endpoint, requestId)
        },
      },
      reader,
    )
    if (reader.label() !== null) labels = 'required'
  }

  async function* eventsOf(request: GenerationRequest, run: Running): AsyncGenerator<GenerationEvent> {
    if (state === 'closed') return yield CLOSED
    const detected = await connection()
    if (E.isLeft(detected)) return yield failed(detected.left.kind, detected.left.failure.reason)
    const planned = planRequest(request, detected.right, plan)
    if (E.isLeft(planned)) return yield failed('invalid', planned.left)
    yield* gate.pass(planned.right.request, { signal: run.controller.signal }, (filled, version) => {
      const ready = { ...planned.right, request: filled }
      return send(ready, expectedOf(ready, detected.right, version), run)
    })
  }

  const generate: EngineClient['generate'] = (request, { signal } = {}) => {
    const controller = new AbortController()
    const run: Running = { id: request.id, controller, names: [] }
    const abort = (): void => controller.abort()
    const queue = eventQueue<GenerationEvent>({ onReturn: async () => abort() })
    running.add(run)
    if (signal?.aborted === true) abort()
    signal?.addEventListener('abort', abort, { once: true })
    const work = async (): Promise<void> => {
      for await (const event of eventsOf(request, run)) {
        const isEnd = state === 'closed' && event._tag === 'Finished' && event.finishReason === 'abort'
        queue.push(isEnd ? CLOSED : event)
        if (isEnd) break
      }
    }
    void work()
      .catch((error: unknown) => queue.push(failed('internal', errorMessage(error))))
      .finally(() => {
        running.delete(run)
        signal?.removeEventListener('abort', abort)
        queue.end()
      })
    return queue
  }

  const endLocally = (runs: readonly Running[]): number => {
    for (const { controller } of runs) controller.abort()
    return runs.length
  }

  const abort: EngineClient['abort'] = (wanted) => {
    const chosen = [...running].filter(({ id }) => wanted === undefined || wanted.includes(id))
    const unsent = chosen.filter(({ names }) => names.length === 0)
    const sent = chosen.filter(({ names }) => names.length > 0)
    const names = wanted === undefined ? null : sent.flatMap((run) => run.names)
    const ended = endLocally(unsent)
    if (names !== null && names.length === 0) return TE.right(ended)
    return pipe(
      connection,
      TE.mapLeft(({ failure }): EngineFailure => failure),
      TE.chain((detected) => abortVLLM(server, detected, names)),
      TE.map((count) => ended + (names === null ? count : Math.min(count, sent.length))),
      TE.orElse((failure) =>
        failure.kind === 'missing' ? TE.fromIO(() => ended + endLocally(sent)) : TE.left(failure),
      ),
    )
  }

  return {
    generate,
    abort,
    serve: (weights) => {
      if (weights.adapter !== null) versions.set(weights.adapter, weights.version)
      gate.serve(weights)
    },
    expectLabels: () => {
      labels = 'required'
    },
    close: () => {
      state = 'closed'
      endLocally([...running])
    },
  }
}

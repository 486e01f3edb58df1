/** The running requests of a client: start, hold, sending, abort, close. */
import * as E from 'fp-ts/lib/Either.js'
import type { Transport } from '../../../core/http.js'
import type { EngineClient, EngineFailure } from '../../../data/engineClient.js'
import type { GenerationEvent, GenerationFailure, GenerationRequest } from '../../../data/generation.js'
import { eventQueue } from '../../generation/eventQueue.js'
import { checkRequest } from '../../generation/requestCheck.js'
import { generationFailure } from '../failures.js'
import type { RequestGate } from '../requestGate.js'
import type { Expected } from '../vllm/answerEvents.js'
import type { Delivery } from '../vllm/wireRequest.js'
import type { DetectedSGLang } from './detect.js'
import { unservedReason } from './request.js'
import { sampleOnce } from './sample.js'

/** The dependencies of requests. */
export interface RequestParts {
  readonly transport: Transport
  readonly gate: RequestGate
  readonly connect: () => Promise<E.Either<EngineFailure, DetectedSGLang>>
  readonly delivery: Delivery | 'auto'
  /** `null`: the limit of the transport. */
  readonly sampleMs: number | null
}

/** The requests of a client. Mutable: it tracks running requests and changes of weights. */
export interface Requests extends Pick<EngineClient, 'generate' | 'serve'> {
  /**
   * Ends unsent requests. Returns the number of requests with these ids, and the server's names of
   * the sent ones.
   */
  readonly endUnsent: (ids?: readonly string[]) => { readonly count: number; readonly names: readonly string[] }
  /**
   * Records a start or end of a change of weights. Answers that started before have one label for
   * all tokens only if the server reports spans.
   */
  readonly weightsChange: () => void
  /** Expects our labels from now on. Another label means that the server lost the weights. */
  readonly expectLabels: () => void
  /** Ends all requests with `abort`. Later ones fail as `closed`. */
  readonly close: () => void
}

/** A running request. */
interface Running {
  readonly id: string
  readonly controller: AbortController
  /** The server's names of the current attempt; empty before the first one. */
  names: readonly string[]
}

const failed = (failure: GenerationFailure): GenerationEvent => ({ _tag: 'Failed', failure })

/** Converts a failed detection to the failure of a request. */
const connectFailure = ({ kind, reason }: EngineFailure): GenerationFailure =>
  generationFailure(kind === 'unreachable' || kind === 'unknown' ? 'unreachable' : 'protocol', reason)

/** Returns the request to send, and the values that its answer must agree with. */
const expectedOf = (
  request: GenerationRequest,
  { abilities, logProbs }: DetectedSGLang,
  rest: Pick<Expected, 'version' | 'labels'>,
): E.Either<GenerationFailure, Expected> => {
  const checked = checkRequest(request, { info: abilities, text: 'decoded' })
  if (E.isLeft(checked)) return checked
  const reason = unservedReason(logProbs, checked.right)
  if (reason !== null) return E.left(generationFailure('invalid', reason))
  const { sampling, prompt } = checked.right
  const room = abilities.maxModelLength - prompt.length
  return E.right({
    ...rest,
    request: checked.right,
    models: [],
    maxTokens: Math.min(room, sampling.maxTokens ?? room),
    vocabularySize: abilities.vocabularySize,
    logProbs,
  })
}

/**
 * Chooses the cheaper delivery. A stream that repeats everything with each token takes O(T^2)
 * bytes.
 */
const deliveryOf = (wanted: Delivery | 'auto', { frames }: DetectedSGLang): Delivery => {
  if (wanted !== 'auto') return wanted
  return frames === 'incremental' ? 'stream' : 'whole'
}

/**
 * Runs the requests of a client.
 *
 * Effects  a request starts when `generate` is called. It ends when its reader leaves or its signal
 *          aborts.
 */
export const runRequests = ({ transport, gate, connect, delivery, sampleMs }: RequestParts): Requests => {
  const running = new Set<Running>()
  /** The version that each adapter had when it started to serve. */
  const versions = new Map<string, number>()
  let changes = 0
  let labels: Expected['labels'] = 'integers'
  let state: 'open' | 'closed' = 'open'

  async function* send(request: GenerationRequest, version: number, own: Running): AsyncGenerator<GenerationEvent> {
    const detected = await connect()
    if (E.isLeft(detected)) return yield failed(connectFailure(detected.left))
    const { adapter } = request
    const expected = expectedOf(request, detected.right, {
      version: adapter === null ? version : (versions.get(adapter) ?? version),
      labels: adapter === null ? labels : 'ignored',
    })
    if (E.isLeft(expected)) return yield failed(expected.left)
    const before = changes
    yield* sampleOnce(expected.right.request, {
      transport,
      delivery: deliveryOf(delivery, detected.right),
      deadlineMs: sampleMs,
      signal: own.controller.signal,
      expected: expected.right,
      labelHolds: () => changes === before,
      onAttempt: (names) => {
        own.names = names
      },
    })
  }

  const generate: EngineClient['generate'] = (request, { signal } = {}) => {
    const own: Running = { id: request.id, controller: new AbortController(), names: [] }
    const abort = (): void => own.controller.abort()
    const queue = eventQueue<GenerationEvent>({ onReturn: async () => abort() })
    const run = async (): Promise<void> => {
      const options = { signal: own.controller.signal }
      for await (const event of gate.pass(request, options, (filled, version) => send(filled, version, own))) {
        queue.push(event)
      }
    }
    if (state === 'closed') {
      queue.push(failed(generationFailure('closed', 'the client is closed')))
      queue.end()
      return queue
    }
    running.add(own)
    if (signal?.aborted === true) abort()
    signal?.addEventListener('abort', abort)
    void run()
      .catch((error: unknown) => queue.push(failed(generationFailure('internal', String(error)))))
      .finally(() => {
        running.delete(own)
        signal?.removeEventListener('abort', abort)
        queue.end()
      })
    return queue
  }

  return {
    generate,
    serve: (weights) => {
      if (weights.adapter !== null) versions.set(weights.adapter, weights.version)
      gate.serve(weights)
    },
    endUnsent: (ids) => {
      const found = [...running].filter(({ id }) => ids === undefined || ids.includes(id))
      for (const { names, controller } of found) if (names.length === 0) controller.abort()
      return { count: found.length, names: found.flatMap(({ names }) => names) }
    },
    weightsChange: () => {
      changes++
    },
    expectLabels: () => {
      labels = 'required'
    },
    close: () => {
      state = 'closed'
      for (const { controller } of running) controller.abort()
    },
  }
}

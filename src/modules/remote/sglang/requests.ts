/** The requests of a client while they run: begun, held, sent, aborted, closed. */
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

/** What requests need. */
export interface RequestParts {
  readonly transport: Transport
  readonly gate: RequestGate
  readonly connect: () => Promise<E.Either<EngineFailure, DetectedSGLang>>
  readonly delivery: Delivery | 'auto'
  /** Null: as the transport has it. */
  readonly sampleMs: number | null
}

/** Requests that were begun. Mutable: it knows what runs, and what came of weights meanwhile. */
export interface Requests extends Pick<EngineClient, 'generate' | 'serve'> {
  /**
   * Ends what was not sent yet; tells how many requests with these ids there are, and under which names the server knows the others.
   */
  readonly endUnsent: (ids?: readonly string[]) => { readonly count: number; readonly names: readonly string[] }
  /** New weights begin to come, or have come: answers that began before have one label for all tokens only if the server tells spans. */
  readonly weightsChange: () => void
  /** The server has a label of ours: another one would mean that it lost the weights. */
  readonly expectLabels: () => void
  /** Ends all requests with `abort`; later ones fail as `closed`. */
  readonly close: () => void
}

/** A request that was begun. */
interface Running {
  readonly id: string
  readonly controller: AbortController
  /** Of the attempt that is out; none before the first. */
  names: readonly string[]
}

const failed = (failure: GenerationFailure): GenerationEvent => ({ _tag: 'Failed', failure })

/** A server that could not be asked what it is cannot be asked for tokens. */
const connectFailure = ({ kind, reason }: EngineFailure): GenerationFailure =>
  generationFailure(kind === 'unreachable' || kind === 'unknown' ? 'unreachable' : 'protocol', reason)

/** The request as it is sent, and what its answer must agree with. */
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

/** The delivery that costs less: a stream that says everything again with each token takes O(T^2) bytes. */
const deliveryOf = (asked: Delivery | 'auto', { frames }: DetectedSGLang): Delivery => {
  if (asked !== 'auto') return asked
  return frames === 'incremental' ? 'stream' : 'whole'
}

/**
 * Runs requests of a client.
 *
 * Effects  a request begins when `generate` is called. Leaving its events, and its signal, end it.
 */
export const runRequests = ({ transport, gate, connect, delivery, sampleMs }: RequestParts): Requests => {
  const running = new Set<Running>()
  /** Which version an adapter had when it began to serve. */
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

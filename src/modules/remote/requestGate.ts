/**
 * The gate in front of a client's requests: it holds and counts them, and adds the serving weights.
 */
import type { GenerationEvent, GenerationRequest } from '@tandem-rl/text'
import type { EngineClient, ServingWeights } from '../../data/engineClient.js'

/**
 * Sends a request that passed the gate. `version` stamps tokens if the server reports no version.
 */
type Send = (request: GenerationRequest, version: number) => AsyncIterable<GenerationEvent>

/** A mutable gate. */
export interface RequestGate extends Pick<EngineClient, 'serving' | 'serve' | 'hold' | 'inFlight'> {
  /**
   * Passes a request and yields its events. A policy's request (without adapter and salt) waits
   * while the gate is held, and is sent with the adapter and salt that serve at that time. Other
   * requests are sent unchanged and at once.
   */
  readonly pass: (
    request: GenerationRequest,
    options: { readonly signal?: AbortSignal },
    send: Send,
  ) => AsyncIterable<GenerationEvent>
}

const isPolicys = ({ adapter, cacheSalt }: GenerationRequest): boolean => adapter === null && cacheSalt === ''

const abortedEvents = ({ sampling }: GenerationRequest): readonly GenerationEvent[] =>
  Array.from({ length: sampling.n }, (_, index) => ({
    _tag: 'Finished',
    index,
    finishReason: 'abort',
    stopReason: null,
  }))

/**
 * Makes an open gate that serves version 0 of the base weights.
 *
 * Effects  a mutable value. A request that ends early, by its reader or its signal, is no longer
 *          counted.
 *
 * @example
 * makeRequestGate().serving() // { version: 0, adapter: null, cacheSalt: '' }
 */
export const makeRequestGate = (start: ServingWeights = { version: 0, adapter: null, cacheSalt: '' }): RequestGate => {
  let serving = start
  const holds = new Map<symbol, 'wait' | 'refuse'>()
  const sent = new Map<symbol, string | null>()
  const waiting = new Set<() => void>()

  const wakeAll = (): void => {
    for (const wake of [...waiting]) wake()
  }
  const isRefusing = (): boolean => [...holds.values()].includes('refuse')

  /** Resolves when the gate changes or the signal aborts. */
  const change = (signal: AbortSignal | undefined): Promise<void> =>
    new Promise((resolve) => {
      const wake = (): void => {
        waiting.delete(wake)
        signal?.removeEventListener('abort', wake)
        resolve()
      }
      waiting.add(wake)
      signal?.addEventListener('abort', wake)
    })

  async function* pass(
    request: GenerationRequest,
    { signal }: { readonly signal?: AbortSignal },
    send: Send,
  ): AsyncGenerator<GenerationEvent> {
    const ofPolicy = isPolicys(request)
    while (ofPolicy && holds.size > 0 && !isRefusing() && signal?.aborted !== true) await change(signal)
    if (signal?.aborted === true) return yield* abortedEvents(request)
    if (ofPolicy && isRefusing()) {
      const reason = 'requests are refused until the weights are verified again'
      return yield { _tag: 'Failed', failure: { _tag: 'GenerationFailure', kind: 'unreachable', reason } }
    }
    const { version, adapter, cacheSalt } = serving
    const id = Symbol(request.id)
    const filled = ofPolicy ? { ...request, adapter, cacheSalt } : request
    sent.set(id, filled.adapter)
    try {
      yield* send(filled, version)
    } finally {
      sent.delete(id)
    }
  }

  return {
    pass,
    serving: () => serving,
    serve: (weights) => {
      serving = weights
    },
    hold: (meanwhile = 'wait') => {
      const id = Symbol(meanwhile)
      holds.set(id, meanwhile)
      wakeAll()
      return () => {
        if (holds.delete(id)) wakeAll()
      }
    },
    inFlight: (adapter) =>
      adapter === undefined ? sent.size : [...sent.values()].filter((used) => used === adapter).length,
  }
}

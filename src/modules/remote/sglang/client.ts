/** A client for SGLang, from 0.5.10 on: sampling, control, new weights. */
import * as E from 'fp-ts/lib/Either.js'
import type { Alarms } from '../../../core/capabilities.js'
import type { Transport } from '../../../core/http.js'
import type { EngineClient, EngineFailure } from '../../../data/engineClient.js'
import type { GenerationEvent, GenerationFailure, GenerationRequest } from '../../../data/generation.js'
import { liveAlarms } from '../../../live/clock.js'
import { checkRequest } from '../../generation/requestCheck.js'
import { makeRequestGate } from '../requestGate.js'
import type { Expected } from '../vllm/answerEvents.js'
import { generationFailure } from '../vllm/failures.js'
import type { SGLangServer } from './calls.js'
import {
  abortAt,
  type Changed,
  drained,
  flushCache,
  pauseOf,
  pauseServer,
  resumeServer,
  type ServerPause,
  serverHealth,
  serverState,
} from './control.js'
import { type DetectedServer, detectServer, type ServerFacts } from './detect.js'
import type { TensorFloat } from './pickle.js'
import { unservedReason } from './request.js'
import { sampleOnce } from './sample.js'
import { loadAdapterTensors, loadFolder, loadTensors, type UpdateOptions, unloadAdapterAt } from './weights.js'

export interface SGLangClientOptions {
  /** For messages. Default `sglang at ADDRESS`. */
  readonly name?: string
  /** What the server does not tell of itself. Default: log-probabilities are probed. */
  readonly facts?: Partial<ServerFacts>
  /** Sent with calls of control: `authorization` with the key of `--admin-api-key`, where the server has one. */
  readonly controlHeaders?: Readonly<Record<string, string>>
  /** `stream`: tokens come as they are sampled. Default: where the server sends only what is new in each frame. */
  readonly delivery?: 'whole' | 'stream' | 'auto'
  /** How tensors are sent. 16 bits are half of the bytes, and round; a server with 16-bit weights rounds itself. Default `F32`. */
  readonly float?: TensorFloat
  /** Bytes of tensors in one call, at most. Default 256 MiB. */
  readonly maxCallBytes?: number
  /** Milliseconds. Defaults: those of the transport for sampling, 60 s for control, 600 s for updates, 300 s until nothing runs. */
  readonly limits?: Partial<SGLangLimits>
  readonly alarms?: Alarms
}

/** Milliseconds that things may take. */
export interface SGLangLimits {
  /** Null: as the transport has it. */
  readonly sampleMs: number | null
  readonly controlMs: number
  readonly updateMs: number
  readonly drainMs: number
}

const LIMITS: SGLangLimits = { sampleMs: null, controlMs: 60_000, updateMs: 600_000, drainMs: 300_000 }

const POLL_MS = 250

const CALL_BYTES = 2 ** 28

/** What a client remembers. Mutable: it lives at the edge. */
interface ClientState {
  detected: Promise<E.Either<EngineFailure, DetectedServer>> | null
  /** How this client paused the server, and what lets its requests go on. */
  paused: { readonly mode: ServerPause; readonly release: () => void } | null
  /** Rises when weights begin to come and when they have come. */
  changes: number
  /** Whether the server had a label of ours: another one then means that it lost the weights. */
  labels: 'integers' | 'required'
  /** Names of requests on the wire. */
  readonly sent: Map<GenerationRequest, readonly string[]>
}

const failed = (failure: GenerationFailure): GenerationEvent => ({ _tag: 'Failed', failure })

/** A server that could not be asked what it is cannot be asked for tokens. */
const connectFailure = ({ kind, reason }: EngineFailure): GenerationFailure =>
  generationFailure(kind === 'unreachable' || kind === 'unknown' ? 'unreachable' : 'protocol', reason)

/** The request as it is sent, and what its answer must agree with. */
const plannedRequest = (
  request: GenerationRequest,
  { abilities, logProbs }: DetectedServer,
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

/** Requests, under the gate. */
const sampling = (
  transport: Transport,
  state: ClientState,
  options: {
    readonly connect: () => Promise<E.Either<EngineFailure, DetectedServer>>
    readonly delivery: 'whole' | 'stream' | 'auto'
    readonly sampleMs: number | null
  },
) =>
  async function* (
    request: GenerationRequest,
    version: number,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<GenerationEvent> {
    const detected = await options.connect()
    if (E.isLeft(detected)) return yield failed(connectFailure(detected.left))
    const labels = request.adapter === null ? state.labels : 'ignored'
    const expected = plannedRequest(request, detected.right, { version, labels })
    if (E.isLeft(expected)) return yield failed(expected.left)
    const { changes } = state
    const incremental = detected.right.frames === 'incremental' ? 'stream' : 'whole'
    try {
      yield* sampleOnce(expected.right.request, {
        transport,
        delivery: options.delivery === 'auto' ? incremental : options.delivery,
        deadlineMs: options.sampleMs,
        signal,
        expected: expected.right,
        labelHolds: () => state.changes === changes,
        onAttempt: (names) => {
          state.sent.set(request, names)
        },
      })
    } finally {
      state.sent.delete(request)
    }
  }

/** Ends requests of this client by name, or all of everybody. */
const aborting =
  (server: SGLangServer, { sent }: ClientState) =>
  async (ids?: readonly string[]): Promise<E.Either<EngineFailure, number>> => {
    const found = [...sent].filter(([{ id }]) => ids === undefined || ids.includes(id))
    const names = ids === undefined ? [null] : found.flatMap(([, each]) => each)
    for (const name of names) {
      const ended = await abortAt(server, name)
      if (E.isLeft(ended)) return ended
    }
    return E.right(found.length)
  }

/** Pausing and going on. A pause that failed holds nobody back; one that worked holds new requests until `resume` has worked. */
const pausing = (
  server: SGLangServer,
  state: ClientState,
  gate: { readonly hold: () => () => void; readonly drain: () => Promise<Changed> },
) => ({
  pause: async (options: Parameters<EngineClient['pause']>[0]): Promise<Changed> => {
    const release = gate.hold()
    const mode = pauseOf(options)
    const quiet = options.mode === 'wait' ? await gate.drain() : E.right(undefined)
    const paused = E.isLeft(quiet) ? quiet : await pauseServer(server, mode)
    if (E.isLeft(paused)) {
      release()
      return paused
    }
    state.paused?.release()
    state.paused = { mode, release }
    return options.cache === 'clear' ? flushCache(server) : paused
  },
  resume: async (): Promise<Changed> => {
    const resumed = await resumeServer(server)
    if (E.isRight(resumed)) {
      state.paused?.release()
      state.paused = null
    }
    return resumed
  },
})

/** The address that a transport sends to, for messages. */
const addressOf = (transport: Transport): string => transport.state()[0]?.server ?? 'an unknown address'

/**
 * A client for one SGLang server.
 *
 * Log-probabilities of sampled tokens are those after penalties and temperature and before cuts, unless the server was told otherwise: which of
 * a token's three numbers they are depends on the sampling parameters, and the others are NaN. Tokens are stamped with the server's label of
 * the weights, where it is a number. A server before 0.5.2x has one label for a whole answer: where weights came in the middle of it, its
 * tokens are stamped with the version that was serving when it was sent.
 *
 * Pausing with `wait` lets requests of everybody finish first. `keep` puts them back into the queue, to be computed again, or, if the cache
 * is kept too, freezes them in place.
 *
 * Errors   those of `EngineClient`. Control is sent once. New tensors that arrived in part, or new weights with the cache of the old ones, are
 *          `unknown`.
 * Effects  `close` closes the transport.
 * Cost     weights from arrays: one text of base64 at a time, of at most 4/3 `maxCallBytes` for each rank.
 * Source   SGLang 0.5.10 and 0.5.23: `http_server`, `io_struct`, `TokenizerManager`, `SafeUnpickler`.
 *
 * @example
 * SGLangClient(transport).serving() // { version: 0, adapter: null, cacheSalt: '' }
 */
export const SGLangClient = (transport: Transport, options: SGLangClientOptions = {}): EngineClient => {
  const { delivery = 'auto', float = 'F32', maxCallBytes = CALL_BYTES, alarms = liveAlarms } = options
  const limits = { ...LIMITS, ...options.limits }
  const { controlMs, updateMs } = limits
  const name = options.name ?? `sglang at ${addressOf(transport)}`
  const server: SGLangServer = { name, transport, headers: options.controlHeaders ?? {}, controlMs, updateMs }
  const facts: ServerFacts = { logProbs: 'probe', ...options.facts }
  const { pass, ...gate } = makeRequestGate()
  const state: ClientState = { detected: null, paused: null, changes: 0, labels: 'integers', sent: new Map() }

  const connect = async (): Promise<E.Either<EngineFailure, DetectedServer>> => {
    state.detected ??= detectServer(server, facts)
    const asked = state.detected
    const detected = await asked
    if (E.isLeft(detected) && state.detected === asked) state.detected = null
    return detected
  }
  const sample = sampling(transport, state, { connect, delivery, sampleMs: limits.sampleMs })
  const drain = () =>
    drained(server, { alarms, pollMs: POLL_MS, looks: Math.ceil(limits.drainMs / POLL_MS), inFlight: gate.inFlight })
  const { pause, resume } = pausing(server, state, { hold: gate.hold, drain })

  const update = async (version: number, load: (options: UpdateOptions) => Promise<Changed>): Promise<Changed> => {
    const detected = await connect()
    if (E.isLeft(detected)) return detected
    const cache = state.paused?.mode === 'in_place' ? 'keep' : 'clear'
    state.changes++
    const loaded = await load({ float, maxCallBytes, ranks: detected.right.ranks, version, cache })
    state.changes++
    if (E.isRight(loaded)) state.labels = 'required'
    return loaded
  }

  return {
    ...gate,
    name,
    connect: async () => E.map(({ abilities }: DetectedServer) => abilities)(await connect()),
    generate: (request, { signal } = {}) =>
      pass(request, signal === undefined ? {} : { signal }, (filled, version) => sample(filled, version, signal)),
    abort: (ids) => () => aborting(server, state)(ids),
    health: () => serverHealth(server, state.paused === null ? 'running' : 'paused'),
    state: () => serverState(server),
    pause: (how) => () => pause(how),
    resume,
    resetPrefixCache: () => flushCache(server),
    loadAdapter: (adapterName, adapter) => async () => {
      const detected = await connect()
      if (E.isLeft(detected)) return detected
      const { ranks } = detected.right
      return loadAdapterTensors(server, { name: adapterName, adapter }, { float, maxCallBytes, ranks })
    },
    unloadAdapter: (adapterName) => () => unloadAdapterAt(server, adapterName),
    loadWeights:
      (weights, { version }) =>
      () =>
        update(version, (how) =>
          weights._tag === 'Folder' ? loadFolder(server, weights.path, how) : loadTensors(server, weights.arrays, how),
        ),
    close: () => transport.close(),
  }
}

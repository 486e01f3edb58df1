/** SGLang as an engine: sampling, control, weights and adapters over HTTP. */
import * as E from 'fp-ts/lib/Either.js'
import type { Timers } from '../../../core/capabilities.js'
import { aList, aNumber, aRecord, aText, checkOptions, type OptionKinds, oneOf } from '../../../core/options.js'
import type { EngineClient, EngineFailure } from '../../../data/engineClient.js'
import { liveTimers } from '../../../live/clock.js'
import { makeRequestGate } from '../requestGate.js'
import type { Delivery } from '../vllm/wireRequest.js'
import { type SGLangAddress, type SGLangServer, sglangServer } from './calls.js'
import {
  abortSGLang,
  type ChangedServer,
  drained,
  flushCache,
  pauseOf,
  pauseSGLang,
  resumeSGLang,
  type ServerPause,
  serverHealth,
  sglangState,
} from './control.js'
import { type DetectedSGLang, detectSGLang, type SGLangFacts } from './detect.js'
import type { TensorFloat } from './pickle.js'
import { type Requests, runRequests } from './requests.js'
import { loadAdapterTensors, loadFolder, loadTensors, type UpdateOptions, unloadSGLangAdapter } from './weights.js'

export type SGLangClientOptions = SGLangAddress &
  Partial<SGLangFacts> & {
    /** For calls of control, where the server has a key for its administrator. */
    readonly adminKey?: string
    /** `stream`: tokens come as they are sampled. Default `auto`: where the server sends only what is new in each frame. */
    readonly delivery?: Delivery | 'auto'
    /** How tensors are sent. 16 bits are half of the bytes, and round; a server with 16-bit weights rounds itself. Default `F32`. */
    readonly float?: TensorFloat
    /** Bytes of tensors in one call, at most. Default 256 MiB. */
    readonly maxCallBytes?: number
    readonly limits?: Partial<SGLangLimits>
    readonly timers?: Timers
  }

/** Milliseconds that things may take. */
export interface SGLangLimits {
  /** A request to sample. Default null: as the transport has it. */
  readonly sampleMs: number | null
  /** A call of control. Default 60 s. */
  readonly controlMs: number
  /** A call that brings weights, or has them read. Default 600 s. */
  readonly updateMs: number
  /** Until nobody's requests run, where a pause waits for that. Default 300 s. */
  readonly drainMs: number
}

const LIMITS: SGLangLimits = { sampleMs: null, controlMs: 60_000, updateMs: 600_000, drainMs: 300_000 }

const POLL_MS = 250

const CALL_BYTES = 2 ** 28

/** Asks once; a failure is forgotten, so that the next one asks again. */
const connectionTo = (
  server: SGLangServer,
  facts: SGLangFacts,
): (() => Promise<E.Either<EngineFailure, DetectedSGLang>>) => {
  let asking: Promise<E.Either<EngineFailure, DetectedSGLang>> | null = null
  return async () => {
    asking ??= detectSGLang(server, facts)
    const found = await asking
    if (E.isLeft(found)) asking = null
    return found
  }
}

/** Ends requests: those that were not sent here, the others on the server; without ids those of all clients. */
const aborting =
  (server: SGLangServer, requests: Requests) =>
  async (ids?: readonly string[]): Promise<E.Either<EngineFailure, number>> => {
    const { count, names } = requests.endUnsent(ids)
    for (const name of ids === undefined ? [null] : names) {
      const ended = await abortSGLang(server, name)
      if (E.isLeft(ended)) return ended
    }
    return E.right(count)
  }

interface Pausing {
  readonly pause: (options: Parameters<EngineClient['pause']>[0]) => Promise<ChangedServer>
  readonly resume: () => Promise<ChangedServer>
  /** How this client paused the server; null where it did not. */
  readonly mode: () => ServerPause | null
}

/** Pausing and going on. A pause that failed holds nobody back; one that worked holds new requests until `resume` has worked. */
const pausing = (
  server: SGLangServer,
  { hold, drain }: { readonly hold: () => () => void; readonly drain: () => Promise<ChangedServer> },
): Pausing => {
  let paused: { readonly mode: ServerPause; readonly release: () => void } | null = null
  return {
    mode: () => paused?.mode ?? null,
    pause: async (options) => {
      const release = hold()
      const mode = pauseOf(options)
      const quiet = options.mode === 'wait' ? await drain() : E.right(undefined)
      const done = E.isLeft(quiet) ? quiet : await pauseSGLang(server, mode)
      if (E.isLeft(done)) {
        release()
        return done
      }
      paused?.release()
      paused = { mode, release }
      return options.cache === 'clear' ? flushCache(server) : done
    },
    resume: async () => {
      const resumed = await resumeSGLang(server)
      if (E.isRight(resumed)) {
        paused?.release()
        paused = null
      }
      return resumed
    },
  }
}

const SGLANG_CLIENT_OPTIONS: OptionKinds<SGLangClientOptions> = {
  url: aText,
  apiKey: aText,
  logProbs: oneOf('edited', 'tempered', 'probe'),
  vocabularySize: aNumber,
  endTokens: aList,
  adminKey: aText,
  delivery: oneOf('auto', 'whole', 'stream'),
  float: oneOf('F32', 'F16', 'BF16'),
  maxCallBytes: aNumber,
  limits: aRecord,
  timers: aRecord,
  transport: aRecord,
}

/**
 * A client of one SGLang server, 0.5.10 or newer.
 *
 * Experimental: written from SGLang's source and tested against stand-in servers, but not yet against
 * a real SGLang server.
 *
 * What the server is gets looked up when it is first needed (`connect`). Requests carry all sampling parameters, and every answer is checked:
 * counts, ids, log-probabilities, versions. What cannot be is a failure of kind `protocol`, never a sample. Several completions are a batch of
 * equal prompts, each with a seed and a name of its own.
 *
 * Log-probabilities of sampled tokens are those after penalties and temperature and before cuts, unless the server was started otherwise: which
 * of a token's three numbers they are depends on the sampling parameters, and the others are NaN. Ranks are those among the alternatives
 * that were asked for, else 0. Tokens are stamped with the server's label of the weights, where it is a number. A server without spans of
 * labels has one for a whole answer: where this client brought weights in the middle of it, its tokens are stamped with the version that was
 * serving when it was sent. `vocabularySize` and `endTokens` of the abilities are unknown (2^53 - 1, none) unless given.
 *
 * Pausing with `wait` lets requests of everybody finish first; `keep` puts them back into the queue, to be computed again, or, if the cache is
 * kept too, freezes them in place. Weights come as a folder that the server sees or as tensors in calls of bounded size, for which it
 * has to be paused; adapters come as tensors, with a checksum of each.
 *
 * Errors   events and failures as `EngineClient` has them. Control is sent once; tensors that arrived in part, and new weights with the cache of
 *          the old ones, are `unknown`.
 * Effects  HTTP requests. `close` closes the transport if it was made here.
 * Cost     of weights as arrays: one base64 text at a time, of at most 4/3 `maxCallBytes`, which the body has once for each rank.
 * Source   SGLang 0.5.10 and 0.5.23: `http_server`, `io_struct`, `TokenizerManager`, `Scheduler`, `SafeUnpickler`.
 *
 * @example
 * sglangClient({ url: 'http://127.0.0.1:30000' }).serving() // { version: 0, adapter: null, cacheSalt: '' }
 */
export const sglangClient = (options: SGLangClientOptions): EngineClient => {
  checkOptions('sglangClient', options, SGLANG_CLIENT_OPTIONS)
  const {
    delivery = 'auto',
    float = 'F32',
    maxCallBytes = CALL_BYTES,
    timers = liveTimers,
    logProbs = 'probe',
  } = options
  const limits = { ...LIMITS, ...options.limits }
  const server = sglangServer(options, { ...options, ...limits })
  const { transport, name } = server
  const connect = connectionTo(server, { ...options, logProbs })
  const gate = makeRequestGate()
  const requests = runRequests({ transport, gate, connect, delivery, sampleMs: limits.sampleMs })
  const looks = Math.ceil(limits.drainMs / POLL_MS)
  const { pause, resume, mode } = pausing(server, {
    hold: gate.hold,
    drain: () => drained(server, { timers, pollMs: POLL_MS, looks, inFlight: gate.inFlight }),
  })
  const abort = aborting(server, requests)

  const update = async (
    version: number,
    load: (how: UpdateOptions) => Promise<ChangedServer>,
  ): Promise<ChangedServer> => {
    const detected = await connect()
    if (E.isLeft(detected)) return detected
    const cache = mode() === 'in_place' ? 'keep' : 'clear'
    requests.weightsChange()
    const loaded = await load({ float, maxCallBytes, ranks: detected.right.ranks, version, cache })
    requests.weightsChange()
    if (E.isRight(loaded)) requests.expectLabels()
    return loaded
  }

  return {
    name,
    connect: async () => E.map(({ abilities }: DetectedSGLang) => abilities)(await connect()),
    generate: requests.generate,
    abort: (ids) => () => abort(ids),
    health: () => serverHealth(server, mode() === null ? 'running' : 'paused'),
    state: () => sglangState(server),
    pause: (how) => () => pause(how),
    resume,
    resetPrefixCache: () => flushCache(server),
    loadAdapter: (adapterName, adapter) => async () => {
      const detected = await connect()
      if (E.isLeft(detected)) return detected
      const { ranks } = detected.right
      return loadAdapterTensors(server, { name: adapterName, adapter }, { float, maxCallBytes, ranks })
    },
    unloadAdapter: (adapterName) => () => unloadSGLangAdapter(server, adapterName),
    loadWeights:
      (weights, { version }) =>
      () =>
        update(version, (how) =>
          weights._tag === 'Folder' ? loadFolder(server, weights.path, how) : loadTensors(server, weights.arrays, how),
        ),
    serving: gate.serving,
    serve: requests.serve,
    hold: gate.hold,
    inFlight: gate.inFlight,
    close: async () => {
      requests.close()
      if (!('transport' in options)) await transport.close()
    },
  }
}

/** SGLang as an engine: sampling, control, weights and adapters over HTTP. */
import * as E from 'fp-ts/lib/Either.js'
import type { Timers } from '../../../core/capabilities.js'
import { checkOptions } from '../../../core/options.js'
import type { EngineClient, EngineFailure } from '../../../data/engineClient.js'
import { liveTimers } from '../../../live/clock.js'
import { SGLANG_CLIENT_OPTIONS } from '../../optionKinds.js'
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
    /** The key for control calls, if the server has a separate one for its administrator. */
    readonly adminKey?: string
    /**
     * `stream`: delivers tokens as they are sampled. Default `auto`: streams if the server sends
     * only new tokens in each frame.
     */
    readonly delivery?: Delivery | 'auto'
    /**
     * Number format of sent tensors. 16 bits halve the bytes, but round; a server with 16-bit
     * weights rounds itself. Default `F32`.
     */
    readonly float?: TensorFloat
    /** Maximum number of bytes of tensors per call. Default 256 MiB. */
    readonly maxCallBytes?: number
    readonly limits?: Partial<SGLangLimits>
    readonly timers?: Timers
  }

/** Time limits in milliseconds. */
export interface SGLangLimits {
  /** Limit of a sampling request. Default null: that of the transport. */
  readonly sampleMs: number | null
  /** Limit of a control call. Default 60 s. */
  readonly controlMs: number
  /** Limit of a call that carries or loads weights. Default 600 s. */
  readonly updateMs: number
  /** Limit of a pause that waits for the running requests of all clients. Default 300 s. */
  readonly drainMs: number
}

const LIMITS: SGLangLimits = { sampleMs: null, controlMs: 60_000, updateMs: 600_000, drainMs: 300_000 }

const POLL_MS = 250

const CALL_BYTES = 2 ** 28

/** Detects the server once. After a failure, the next call tries again. */
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

/**
 * Ends requests: unsent ones here, the others on the server. Without ids, ends those of all
 * clients.
 */
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
  /** Returns the mode in which this client paused the server, or null. */
  readonly mode: () => ServerPause | null
}

/**
 * Makes pause and resume. A successful pause holds new requests until `resume` has succeeded; a
 * failed one does not.
 */
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

/**
 * Makes a client of one SGLang server, version 0.5.10 or newer.
 *
 * Experimental: written from SGLang's source and tested against stand-in servers, but not yet
 * against a real SGLang server.
 *
 * The server's abilities are detected on first use (`connect`). Requests carry all sampling
 * parameters, and every answer is checked: counts, ids, log-probabilities, versions. An invalid
 * answer is a failure of kind `protocol`, never a sample. Several completions are sent as a batch
 * of equal prompts, each with its own seed and name.
 *
 * Log-probabilities of sampled tokens are computed after penalties and temperature and before cuts,
 * unless the server was started otherwise. The sampling parameters determine which of a token's
 * three numbers this is; the others are NaN. Ranks are those among the requested alternatives,
 * otherwise 0. Tokens are stamped with the server's label of the weights if it is a number. A
 * server without spans has one label for a whole answer. If this client changed the weights
 * meanwhile, the tokens are stamped with the version that served when the request was sent.
 * `vocabularySize` and `endTokens` of the abilities are unknown (2^53 - 1, and empty) unless given.
 *
 * Pausing with `wait` lets the requests of all clients finish first. `keep` puts them back into the
 * queue to be computed again, or freezes them in place if the cache is kept too. Weights are sent
 * as a folder that the server can read, or as tensors in calls of bounded size, for which it must
 * be paused. Adapters are sent as tensors, with a checksum of each.
 *
 * Errors   events and failures of `EngineClient`. Control calls are sent once. Partially loaded
 *          tensors, and new weights with the cache of the old ones, are `unknown`.
 * Effects  sends HTTP requests. `close` closes the transport if it was made here.
 * Cost     of weights as arrays: one base64 text at a time, of at most 4/3 `maxCallBytes`, which
 *          the body contains once per rank.
 * Source   SGLang 0.5.10 and 0.5.23: `http_server`, `io_struct`, `TokenizerManager`, `Scheduler`,
 *          `SafeUnpickler`.
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

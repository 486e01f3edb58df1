/**
 * A vLLM server, or one with vLLM's protocol, as an engine: sampling, adapters, weights and control
 * over HTTP.
 */
import { checkOptions, describe, type Files, type Ids } from '@tandem-rl/base'
import { liveIds } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import type { WeightSource } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { EngineClient, EngineFailure } from '../../../data/engineClient.js'
import { VLLM_CLIENT_OPTIONS } from '../../optionKinds.js'
import { engineFailure } from '../failures.js'
import { makeRequestGate } from '../requestGate.js'
import { adapterFolders } from './adapterFolders.js'
import { type VLLMAddress, type VLLMServer, vLLMServer } from './calls.js'
import { health, pauseVLLM, reloadFrom, resetServerCache, resumeVLLM, vllmState } from './control.js'
import { type ConnectFailure, type DetectedVLLM, detectVLLM, type VLLMFacts } from './detect.js'
import { type Connection, requestRunner } from './requestRunner.js'
import type { Delivery } from './wireRequest.js'

export type VLLMClientOptions = VLLMAddress &
  Omit<VLLMFacts, 'adapters' | 'endpoint'> & {
    /**
     * 'auto' uses `/inference/v1/generate` if the server has it. That endpoint reports ranks and
     * versions, but no text. Default 'auto'.
     */
    readonly endpoint?: VLLMFacts['endpoint']
    /**
     * 'stream' delivers tokens as they are sampled. 'whole' stamps each token with its version even
     * if weights change meanwhile. Default 'whole'.
     */
    readonly delivery?: Delivery
    /** A folder that this process and the server share, for adapters and checkpoints. */
    readonly sharedFolder?: string
    /** The path of the shared folder on the server. Default: the same path. */
    readonly serverFolder?: string
    /** Time limit of a sampling request in milliseconds. Default 10 minutes. */
    readonly deadlineMs?: number
    /**
     * Time limit of a control call in milliseconds, including loading weights. Default 5 minutes.
     */
    readonly controlMs?: number
    readonly files?: Files
    readonly ids?: Ids
  }

const DEADLINE_MS = 600_000

/** Detects the server once. After a failure, the next call tries again. */
const connectionTo = (detect: () => Promise<E.Either<ConnectFailure, DetectedVLLM>>): Connection => {
  let asking: Promise<E.Either<ConnectFailure, DetectedVLLM>> | null = null
  return async () => {
    asking ??= detect()
    const found = await asking
    if (E.isLeft(found)) asking = null
    return found
  }
}

/**
 * Returns the server's path of a checkpoint folder. A folder in the shared folder is checked first,
 * because vLLM 0.32 frees its weights before reading others, and crashes at the next request if it
 * finds no weights.
 */
const checkpointPath = (
  { name }: VLLMServer,
  path: string,
  { sharedFolder, serverFolder = sharedFolder, files = liveFiles }: VLLMClientOptions,
): TE.TaskEither<EngineFailure, string> => {
  if (sharedFolder === undefined) return TE.right(path)
  const missing = (reason: string) => engineFailure(name, 'refused', `${path} has no weights for the server: ${reason}`)
  if (!path.startsWith(`${sharedFolder}/`)) return TE.left(missing(`it is not in the shared folder ${sharedFolder}`))
  return pipe(
    files.list(path),
    TE.mapLeft((failure) => missing(describe(failure))),
    TE.filterOrElse(
      (names) => names.some((file) => file.endsWith('.safetensors')),
      () => missing('it has no .safetensors file'),
    ),
    TE.map(() => `${serverFolder}${path.slice(sharedFolder.length)}`),
  )
}

const ARRAYS =
  'weights as arrays cannot be sent to this server: write a checkpoint folder that the server can read and load that, as vLLMUpdater does'

const NO_FOLDER = 'the client has no sharedFolder, which is needed to transfer adapters'

/**
 * Makes a client of one vLLM server, version 0.10.2 or newer, or of `tandem serve`.
 *
 * The server's abilities are detected on first use (`connect`). Requests carry all sampling
 * parameters, so the server's defaults have no effect. Every answer is checked: counts, ids,
 * log-probabilities, model, finish reasons, versions. An invalid answer is a failure of kind
 * `protocol`, never a sample.
 *
 * Versions come from the server if its weights have a numeric label (0.32,
 * `/inference/v1/generate`), otherwise they are those serving when the request was sent. After a
 * labeled answer, an answer without a label is refused, because the server has lost its weights.
 * Equal keys give equal seeds, and thus equal completions if the server's kernels are
 * deterministic.
 *
 * Log-probabilities that the server does not report and that cannot be derived are NaN. Ranks are 0
 * if the endpoint reports none and the token is not among its alternatives. `endTokens` of the
 * abilities is empty unless given. `vocabularySize` is Infinity if neither the caller nor the
 * server provides it. `cachedTokens` is 0 unless the server runs with
 * `--enable-prompt-tokens-details`.
 *
 * Adapters need `sharedFolder`. If it is given, checkpoint folders must be inside it. Control needs
 * vLLM's development mode (`VLLM_SERVER_DEV_MODE=1`). Requests that use an adapter must finish
 * before it is unloaded.
 *
 * Errors   events and failures of `EngineClient`.
 * Effects  sends HTTP requests and writes adapter folders in `sharedFolder`. `close` closes the
 *          transport if it was made here.
 * Source   vLLM 0.32 and older releases, according to the project's reference on inference
 *          protocols.
 *
 * @example
 * const client = vLLMClient({ url: 'http://127.0.0.1:8000', model: 'policy' })
 */
export const vLLMClient = (options: VLLMClientOptions): EngineClient => {
  checkOptions('vLLMClient', options, VLLM_CLIENT_OPTIONS)
  const { files = liveFiles, ids = liveIds, delivery = 'whole', endpoint = 'auto' } = options
  const server = vLLMServer(options)
  const { sharedFolder: folder, serverFolder = folder } = options
  const adapters =
    folder === undefined || serverFolder === undefined
      ? null
      : adapterFolders(server, { files, ids, folder, serverFolder })
  const connection = connectionTo(() =>
    detectVLLM(server, { ...options, endpoint, adapters: adapters === null ? 'none' : 'shared' }),
  )
  const detected: TE.TaskEither<EngineFailure, DetectedVLLM> = pipe(
    connection,
    TE.mapLeft(({ failure }) => failure),
  )
  const gate = makeRequestGate()
  const runner = requestRunner({
    server,
    connection,
    gate,
    ids,
    plan: { model: options.model, endpoint, delivery },
    deadlineMs: options.deadlineMs ?? DEADLINE_MS,
  })
  const refused = (reason: string): TE.TaskEither<EngineFailure, never> =>
    TE.left(engineFailure(server.name, 'refused', reason))
  const loadFolder = (source: WeightSource, version: number): TE.TaskEither<EngineFailure, void> =>
    source._tag === 'Arrays'
      ? refused(ARRAYS)
      : pipe(
          TE.Do,
          TE.bind('path', () => checkpointPath(server, source.path, options)),
          TE.bind('found', () => detected),
          TE.chainFirst(({ path, found }) => reloadFrom(server, found, { path, version })),
          TE.map(({ found }) => (found.labels === 'yes' ? runner.expectLabels() : undefined)),
        )
  const unload = (name: string): TE.TaskEither<EngineFailure, void> => {
    const users = gate.inFlight(name)
    if (users > 0) return refused(`${users} requests still use the adapter '${name}'`)
    return adapters === null ? refused(NO_FOLDER) : () => adapters.unload(name)
  }
  return {
    name: server.name,
    connect: pipe(
      detected,
      TE.map(({ abilities }) => abilities),
    ),
    generate: runner.generate,
    abort: runner.abort,
    health: health(server),
    state: vllmState(server),
    pause: (how) =>
      pipe(
        detected,
        TE.chain((found) => pauseVLLM(server, found, how)),
      ),
    resume: resumeVLLM(server),
    resetPrefixCache: resetServerCache(server),
    loadAdapter: (name, adapter) => (adapters === null ? refused(NO_FOLDER) : () => adapters.load(name, adapter)),
    unloadAdapter: unload,
    loadWeights: (source, { version }) => loadFolder(source, version),
    serving: gate.serving,
    serve: runner.serve,
    hold: gate.hold,
    inFlight: gate.inFlight,
    close: async () => {
      runner.close()
      await adapters?.close()
      if (!('transport' in options)) await server.transport.close()
    },
  }
}

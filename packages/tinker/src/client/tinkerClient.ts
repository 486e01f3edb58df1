/** Connects to a Tinker server: sessions, models, samplers and checkpoints. */
import { type Cell, cell, checkOptions, type Ids, redact, type Timers } from '@tandem-rl/base'
import { liveIds, liveTimers } from '@tandem-rl/base/host'
import { liveWebFetch } from '@tandem-rl/host'
import { type Either, isLeft, left, right } from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { TINKER_CLIENT_OPTIONS } from '../optionKinds.js'
import type { TinkerLora } from '../protocol/jsonWire.js'
import { parseTinkerPath } from '../protocol/paths.js'
import { type CallCounts, type Calls, makeCalls, type TinkerFailure, type TinkerFetch } from './calls.js'
import { type GradientSums, SUMMED } from './gradientSums.js'
import { KNOWN_SERVERS, recognizeServer, type TinkerServer } from './knownServers.js'
import { submitRequest } from './pending.js'
import { makeSampler, type TinkerSampler } from './sampler.js'
import { type ChunkLimits, makeTrainer, type TinkerTrainer, type TinkerWire } from './trainer.js'

/** Options of a client. */
export interface TinkerClientOptions {
  /** Such as `http://127.0.0.1:8000`. */
  readonly url: string
  /** Sent only to `url`, and hidden in errors. */
  readonly apiKey?: string
  /** The form of losses. Default `either`: JSON, or protobuf after a server refused JSON. */
  readonly wire?: TinkerWire
  /**
   * `recognized`: the server runs a repeated request once. With `unknown`, a lost response to a
   * request that changes a model is a failure of kind `uncertain`. Default: what is known of the
   * server, else `unknown`.
   */
  readonly repeats?: 'recognized' | 'unknown'
  /** Default 600,000: for a call with its repetitions, and for waiting for a result. */
  readonly deadlineMs?: number
  /** Default 45,000: for one HTTP request. */
  readonly attemptMs?: number
  /** Known server with differences to correct. Default: the client recognizes it. */
  readonly server?: TinkerServer['name']
  /** Most data and bytes of one request. Default 1,024 and 5,000,000. */
  readonly chunks?: ChunkLimits
  /** Default: real connections. */
  readonly fetch?: TinkerFetch
  readonly timers?: Timers
  readonly ids?: Ids
}

/** A model that a server has. */
interface TinkerBaseModel {
  readonly name: string
  readonly maxContextLength: number | null
}

/** A stored checkpoint. */
interface TinkerCheckpoint {
  readonly path: string
  readonly type: 'training' | 'sampler' | 'external'
  readonly time: string
  readonly sizeBytes: number | null
  readonly isPublic: boolean
  /** The time at which the server may delete it, or null for a checkpoint that is kept. */
  readonly expires: string | null
}

/** Settings of a model to train. */
export interface TinkerModelOptions {
  readonly baseModel: string
  /** `null` trains all weights, where the server can. */
  readonly lora: (Pick<TinkerLora, 'rank'> & Partial<TinkerLora>) | null
  /** The result of `measureGradients`. Default: sums, as in the protocol. */
  readonly gradients?: GradientSums
}

/** A session: what it makes lives as long as its heartbeats arrive. */
export interface TinkerSession {
  readonly id: string
  readonly server: TinkerServer
  readonly trainer: (options: TinkerModelOptions) => TE.TaskEither<TinkerFailure, TinkerTrainer>
  readonly sampler: (
    source: { readonly baseModel: string } | { readonly path: string },
  ) => TE.TaskEither<TinkerFailure, TinkerSampler>
  /** Ends the heartbeats, and the session where the server can. */
  readonly close: () => Promise<void>
}

/** A client of a server. */
export interface TinkerClient {
  readonly url: string
  readonly models: () => TE.TaskEither<TinkerFailure, readonly TinkerBaseModel[]>
  readonly session: () => TE.TaskEither<TinkerFailure, TinkerSession>
  readonly checkpoints: (modelId: string) => TE.TaskEither<TinkerFailure, readonly TinkerCheckpoint[]>
  readonly publish: (path: string) => TE.TaskEither<TinkerFailure, void>
  readonly remove: (path: string) => TE.TaskEither<TinkerFailure, void>
  /** The archive of a checkpoint: a tar file with a PEFT adapter or a model. */
  readonly archive: (path: string) => TE.TaskEither<TinkerFailure, Uint8Array>
  readonly counts: () => CallCounts
  readonly close: () => Promise<void>
}

const HEARTBEAT_MS = 10_000
const MAX_REPLY_BYTES = 2 ** 30

/** The JSON of a call, checked. */
const checked = <T>(
  calls: Calls,
  request: Parameters<Calls['json']>[0],
  schema: z.ZodType<T>,
): TE.TaskEither<TinkerFailure, T> =>
  pipe(
    () => calls.json(request),
    TE.chainEitherK((json) => {
      const read = schema.safeParse(json)
      if (read.success) return right(read.data)
      const reason = `the answer has another form: ${read.error.issues[0]!.path.join('.')}: ${read.error.issues[0]!.message}`
      return left(calls.failure('protocol', { call: request.path, reason }))
    }),
  )

const capabilitiesSchema = z.object({
  supported_models: z.array(z.object({ model_name: z.string(), max_context_length: z.number().nullish() })),
})

const checkpointsSchema = z.object({
  checkpoints: z.array(
    z.object({
      tinker_path: z.string(),
      checkpoint_type: z.enum(['training', 'sampler', 'external']),
      time: z.string(),
      size_bytes: z.number().nullish(),
      public: z.boolean().nullish(),
      expires_at: z.string().nullish(),
    }),
  ),
})

const LORA_DEFAULTS = { train_unembed: true, train_mlp: true, train_attn: true }

/** Sends heartbeats until it is called. */
const beat = (calls: Calls, sessionId: string): (() => void) => {
  const { timers } = calls.options
  let stop = (): void => undefined
  let isOver = false
  const next = (): void => {
    stop = timers.after(HEARTBEAT_MS, () => {
      // A missed heartbeat is no failure: the server closes a session only after many of them.
      void calls.attempt({ path: '/session_heartbeat', json: { session_id: sessionId }, effect: 'none' }).then(() => {
        if (!isOver) next()
      })
    })
  }
  next()
  return () => {
    isOver = true
    stop()
  }
}

const sessionOn = (
  { calls, server, wire }: { readonly calls: Calls; readonly server: TinkerServer; readonly wire: Cell<TinkerWire> },
  id: string,
  { chunks }: TinkerClientOptions,
): TinkerSession => {
  const stop = beat(calls, id)
  let [models, samplers] = [0, 0]
  const limits = chunks ?? { data: 1024, bytes: 5_000_000 }
  return {
    id,
    server,
    trainer:
      ({ baseModel, lora, gradients = SUMMED }) =>
      async () => {
        const json = {
          session_id: id,
          model_seq_id: models++,
          base_model: baseModel,
          type: 'create_model',
          ...(lora !== null && { lora_config: { ...LORA_DEFAULTS, ...server.lora, ...lora } }),
        }
        const form = { json: z.object({ model_id: z.string() }) }
        const pending = await submitRequest(calls, { path: '/create_model', json, effect: 'changes' }, form)
        if (isLeft(pending)) return pending
        const made = await pending.right.result()
        if (isLeft(made)) return made
        const { model_id: modelId } = made.right
        const parts = { calls, modelId, server, gradients, wire, chunks: limits }
        return right(makeTrainer({ ...parts, nextSampler: () => samplers++ }))
      },
    sampler: (source) => {
      const json = {
        session_id: id,
        sampling_session_seq_id: samplers++,
        type: 'create_sampling_session',
        ...('path' in source ? { model_path: source.path } : { base_model: source.baseModel }),
      }
      return pipe(
        checked(
          calls,
          { path: '/create_sampling_session', json, effect: 'none' },
          z.object({ sampling_session_id: z.string() }),
        ),
        TE.map(({ sampling_session_id }) => makeSampler(calls, sampling_session_id)),
      )
    },
    close: async () => {
      stop()
      await calls.attempt({ path: `/sessions/${id}/finish`, json: {}, effect: 'none' }) // servers without it wait for heartbeats
    },
  }
}

/**
 * Connects to a Tinker server.
 *
 * Errors   throws RangeError for options that cannot be used. Calls give `Left(TinkerFailure)`.
 * Effects  opens connections when they are needed, and a timer for each session.
 *
 * @example
 * tinkerClient({ url: 'http://127.0.0.1:8000' }).counts().requests // 0
 */
export const tinkerClient = (options: TinkerClientOptions): TinkerClient => {
  checkOptions('tinkerClient', options, TINKER_CLIENT_OPTIONS)
  const { url, apiKey = 'tml-none', deadlineMs = 600_000, attemptMs = 45_000, repeats } = options
  if (!URL.canParse(url)) throw new RangeError(`tinkerClient: url must be an address, got ${redact(url)}`)
  const web = options.fetch === undefined ? liveWebFetch({ maxBytes: MAX_REPLY_BYTES }) : undefined
  const server = cell(KNOWN_SERVERS[options.server ?? 'unknown'])
  const wire = cell<TinkerWire>(options.wire ?? 'either')
  const calls = makeCalls({
    url,
    apiKey,
    deadlineMs,
    attemptMs,
    repeats: () => repeats ?? server.get().repeats,
    serverName: () => (server.get().name === 'unknown' ? 'a Tinker server' : server.get().name),
    timers: options.timers ?? liveTimers,
    ids: options.ids ?? liveIds,
    fetch: options.fetch ?? ((address, init) => web!.fetch(address, init)),
  })
  const recognized = async (): Promise<Either<TinkerFailure, TinkerServer>> => {
    if (options.server !== undefined) return right(server.get())
    const found = await recognizeServer(calls)
    if (!isLeft(found)) server.set(found.right)
    return found
  }
  const checkpointPath = (path: string): string => {
    const parsed = parseTinkerPath(path)
    if (parsed === undefined)
      throw new RangeError(`tinkerClient: path must be tinker://MODEL/weights/NAME, got ${path}`)
    return `/training_runs/${encodeURIComponent(parsed.modelId)}/checkpoints/${parsed.kind}/${parsed.name}`
  }
  const nothing = (path: string, method: 'POST' | 'DELETE'): TE.TaskEither<TinkerFailure, void> =>
    pipe(
      () => calls.json({ path, method, effect: 'none' }),
      TE.map(() => undefined),
    )
  return {
    url,
    models: () =>
      pipe(
        checked(calls, { path: '/get_server_capabilities', method: 'GET', effect: 'none' }, capabilitiesSchema),
        TE.map(({ supported_models }) =>
          supported_models.map((each) => ({
            name: each.model_name,
            maxContextLength: each.max_context_length ?? null,
          })),
        ),
      ),
    session: () => {
      const json = { tags: ['tandem'], user_metadata: null, sdk_version: '0.24.1', type: 'create_session' }
      const request = { path: '/create_session', json, effect: 'none' as const }
      return pipe(
        recognized,
        TE.bindTo('known'),
        TE.bind('opened', () => checked(calls, request, z.object({ session_id: z.string() }))),
        TE.map(({ known, opened }) => sessionOn({ calls, server: known, wire }, opened.session_id, options)),
      )
    },
    checkpoints: (modelId) =>
      pipe(
        checked(
          calls,
          { path: `/training_runs/${encodeURIComponent(modelId)}/checkpoints`, method: 'GET', effect: 'none' },
          checkpointsSchema,
        ),
        TE.map(({ checkpoints }) =>
          checkpoints.map((each) => ({
            path: each.tinker_path,
            type: each.checkpoint_type,
            time: each.time,
            sizeBytes: each.size_bytes ?? null,
            isPublic: each.public ?? false,
            expires: each.expires_at ?? null,
          })),
        ),
      ),
    publish: (path) => nothing(`${checkpointPath(path)}/publish`, 'POST'),
    remove: (path) => nothing(checkpointPath(path), 'DELETE'),
    archive: (path) => async () => {
      const call = `${checkpointPath(path)}/archive`
      const reply = await calls.send({ path: call, method: 'GET', effect: 'none' })
      if (isLeft(reply)) return reply
      const { status, headers, bytes } = reply.right
      if (status === 200) return right(bytes)
      const to = headers.get('location')
      if (status !== 302 || to === null)
        return left(calls.failure('refused', { call, status, reason: 'there is no archive' }))
      const target = new URL(to, url)
      if (target.origin !== new URL(url).origin)
        return left(
          calls.failure('unsupported', { call, reason: `the archive is on another server: ${target.origin}` }),
        )
      const file = await calls.send({
        path: target.pathname.replace(/^.*?\/api\/v1/, ''),
        method: 'GET',
        effect: 'none',
      })
      return isLeft(file) ? file : right(file.right.bytes)
    },
    counts: calls.counts,
    close: async () => web?.close(),
  }
}

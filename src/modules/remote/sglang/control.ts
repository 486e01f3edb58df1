/** Control of a server: pausing, draining, caches, aborting, its state. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { Timers } from '../../../core/capabilities.js'
import type { EngineClient, EngineFailure, EngineState } from '../../../data/engineClient.js'
import { engineFailure } from '../failures.js'
import { versionOf } from '../vllm/answerEvents.js'
import { changeSGLang, readAt, type SGLangServer } from './calls.js'

/** The result of a control call. */
export type ChangedServer = E.Either<EngineFailure, void>

/**
 * The ways to pause SGLang: running requests end, return to the queue to be computed again, or stay
 * in place with their cache.
 */
export type ServerPause = 'abort' | 'retract' | 'in_place'

/** The list of models: the base model first, each adapter with the name of its parent. */
export const sglangModels = z.object({
  data: z.array(z.object({ id: z.string(), parent: z.string().nullish(), max_model_len: z.int().nullish() })).min(1),
})

export const modelInfoSchema = z.object({ weight_version: z.string().nullish() })

/**
 * Returns the version in a label, or null for a label that is not ours, such as 'default', or for a
 * missing one.
 */
const labeled = (label: string | null | undefined): number | null => (label == null ? null : versionOf(label))

/** Returns the server's current state. SGLang does not report whether it is paused. */
export const sglangState = async (server: SGLangServer): Promise<E.Either<EngineFailure, EngineState>> => {
  const info = await readAt(server, '/model_info', modelInfoSchema)
  if (E.isLeft(info)) return info
  const models = await readAt(server, '/v1/models', sglangModels)
  if (E.isLeft(models)) return models
  return E.right({
    version: labeled(info.right.weight_version),
    isPaused: null,
    adapters: models.right.data.flatMap(({ id, parent }) => (parent == null ? [] : [id])),
  })
}

const loads = z.object({
  loads: z.array(z.object({ num_running_reqs: z.int().min(0), num_waiting_reqs: z.int().min(0) })),
})

/** The format before 0.5.10, in which `num_reqs` includes waiting requests. */
const oldLoads = z.array(z.object({ num_reqs: z.int().min(0) }))

/** Returns the number of running and waiting requests of all clients. */
const serverLoad = async (server: SGLangServer): Promise<E.Either<EngineFailure, number>> => {
  const result = await readAt(server, '/v1/loads?include=core', loads)
  if (E.isRight(result)) {
    return E.right(result.right.loads.reduce((sum, load) => sum + load.num_running_reqs + load.num_waiting_reqs, 0))
  }
  if (result.left.kind !== 'missing') return result
  const old = await readAt(server, '/get_load', oldLoads)
  return E.map((list: z.infer<typeof oldLoads>) => list.reduce((sum, load) => sum + load.num_reqs, 0))(old)
}

/** The settings of a drain. */
export interface DrainOptions {
  readonly timers: Timers
  /** Pause between two polls. */
  readonly pollMs: number
  /** Maximum number of polls. */
  readonly looks: number
  /** Number of unfinished requests of this client. */
  readonly inFlight: () => number
}

/**
 * Waits until no client's requests are running in two consecutive polls, because the server's
 * numbers lag slightly.
 *
 * Errors   `Left(EngineFailure)`: `refused` if requests are still running after the last poll.
 */
export const drained = async (server: SGLangServer, options: DrainOptions): Promise<ChangedServer> => {
  let idle = 0
  let busy = 0
  for (let look = 0; look < options.looks; look++) {
    const load = await serverLoad(server)
    if (E.isLeft(load)) return load
    busy = Math.max(load.right, options.inFlight())
    idle = busy === 0 ? idle + 1 : 0
    if (idle === 2) return E.right(undefined)
    await new Promise<void>((resolve) => options.timers.after(options.pollMs, resolve))
  }
  const seconds = (options.looks * options.pollMs) / 1000
  return E.left(engineFailure(server.name, 'refused', `${busy} requests were still running after ${seconds} s`))
}

/**
 * Returns SGLang's pause mode. After draining, none of our requests are running; later ones of
 * other clients are computed again.
 */
export const pauseOf = ({ mode, cache }: Parameters<EngineClient['pause']>[0]): ServerPause => {
  if (mode === 'abort') return 'abort'
  return cache === 'keep' ? 'in_place' : 'retract'
}

/** Pauses the server. The answer arrives when no step of the model is running. */
export const pauseSGLang = (server: SGLangServer, mode: ServerPause): Promise<ChangedServer> =>
  changeSGLang(server, { path: '/pause_generation', json: { mode } })

/** Resumes the server. */
export const resumeSGLang = (server: SGLangServer): Promise<ChangedServer> =>
  changeSGLang(server, { path: '/continue_generation', json: {} })

/** Clears the prefix cache. The server refuses while requests are running. */
export const flushCache = (server: SGLangServer): Promise<ChangedServer> =>
  changeSGLang(server, { path: '/flush_cache' })

/**
 * Aborts a request by the server's name for it, or all requests of all clients. An unknown name is
 * not a failure.
 */
export const abortSGLang = (server: SGLangServer, name: string | null): Promise<ChangedServer> =>
  changeSGLang(server, { path: '/abort_request', json: name === null ? { abort_all: true } : { rid: name } })

/**
 * Checks the health of the server. `/health` samples a token, which is impossible while paused. For
 * a paused server, its model info is read instead.
 */
export const serverHealth = async (server: SGLangServer, isPaused: 'paused' | 'running'): Promise<ChangedServer> => {
  if (isPaused === 'running') {
    const request = { method: 'GET', path: '/health', repeat: 'safe', deadlineMs: server.controlMs } as const
    const reply = await server.transport.send({ ...request, headers: server.headers })()
    if (E.isRight(reply)) return E.right(undefined)
    return E.left(engineFailure(server.name, 'unreachable', reply.left.reason))
  }
  return E.map(() => undefined)(await readAt(server, '/model_info', modelInfoSchema))
}

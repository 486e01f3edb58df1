/** Control of a server: pausing, draining, caches, aborting, its state. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { Timers } from '../../../core/capabilities.js'
import type { EngineClient, EngineFailure, EngineState } from '../../../data/engineClient.js'
import { engineFailure } from '../failures.js'
import { versionOf } from '../vllm/answerEvents.js'
import { changeSGLang, readAt, type SGLangServer } from './calls.js'

/** What a call of control comes to. */
export type ChangedServer = E.Either<EngineFailure, void>

/** How SGLang pauses: running requests end, go back to the queue to be computed again, or stay as they are with their cache. */
export type ServerPause = 'abort' | 'retract' | 'in_place'

/** The list of what the server has: the base model first, each adapter with the name of its parent. */
export const sglangModels = z.object({
  data: z.array(z.object({ id: z.string(), parent: z.string().nullish(), max_model_len: z.int().nullish() })).min(1),
})

export const modelInfoSchema = z.object({ weight_version: z.string().nullish() })

/** The version that a label says; null for a label that is none of ours, such as 'default', or for none. */
const labeled = (label: string | null | undefined): number | null => (label == null ? null : versionOf(label))

/** What the server says of itself now. Nobody can ask it whether it is paused. */
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

/** Before 0.5.10; `num_reqs` counts those that wait too. */
const oldLoads = z.array(z.object({ num_reqs: z.int().min(0) }))

/** Requests that the server works on or has waiting, of all clients. */
const serverLoad = async (server: SGLangServer): Promise<E.Either<EngineFailure, number>> => {
  const told = await readAt(server, '/v1/loads?include=core', loads)
  if (E.isRight(told)) {
    return E.right(told.right.loads.reduce((sum, load) => sum + load.num_running_reqs + load.num_waiting_reqs, 0))
  }
  if (told.left.kind !== 'missing') return told
  const old = await readAt(server, '/get_load', oldLoads)
  return E.map((list: z.infer<typeof oldLoads>) => list.reduce((sum, load) => sum + load.num_reqs, 0))(old)
}

/** Waiting, as draining needs it. */
export interface DrainOptions {
  readonly timers: Timers
  /** Between two looks at the server. */
  readonly pollMs: number
  /** How often it is looked at, at most. */
  readonly looks: number
  /** Requests of this client that are not finished. */
  readonly inFlight: () => number
}

/**
 * Waits until nobody's requests run, seen twice: the numbers that the server tells lag a little behind.
 *
 * Errors   `Left(EngineFailure)`: `refused` if there are still some when the time is over.
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
  return E.left(engineFailure(server.name, 'refused', `${busy} requests were still underway after ${seconds} s`))
}

/** SGLang's name of a way to pause. After draining nothing of ours runs; what others sent meanwhile is computed again. */
export const pauseOf = ({ mode, cache }: Parameters<EngineClient['pause']>[0]): ServerPause => {
  if (mode === 'abort') return 'abort'
  return cache === 'keep' ? 'in_place' : 'retract'
}

/** Pauses the server: it answers when no step of the model runs any more. */
export const pauseSGLang = (server: SGLangServer, mode: ServerPause): Promise<ChangedServer> =>
  changeSGLang(server, { path: '/pause_generation', json: { mode } })

/** Lets the server go on. */
export const resumeSGLang = (server: SGLangServer): Promise<ChangedServer> =>
  changeSGLang(server, { path: '/continue_generation', json: {} })

/** Empties the prefix cache. The server refuses while requests run. */
export const flushCache = (server: SGLangServer): Promise<ChangedServer> =>
  changeSGLang(server, { path: '/flush_cache' })

/** Ends a request by the name that the server knows, or all of everybody. A name that it does not know is no failure. */
export const abortSGLang = (server: SGLangServer, name: string | null): Promise<ChangedServer> =>
  changeSGLang(server, { path: '/abort_request', json: name === null ? { abort_all: true } : { rid: name } })

/**
 * The server answers that it is well: `/health` has it sample a token, which nobody can while it is paused; then it is asked who it is.
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

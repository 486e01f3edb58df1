/** Sessions of HTTP services as resources for pools. */
import {
  cancellation,
  type HttpFailure,
  parseJson,
  pauseFor,
  type ResourceFailure,
  type ResourceSpec,
  resourceFailure,
  type Transport,
} from '@tandem-rl/base'
import { liveIds, liveTimers } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/** A session of an HTTP service. */
export interface ServiceSession {
  readonly id: string
  /** Sends a value to `/sessions/ID/PATH`, and returns the JSON of the answer. */
  readonly post: (path: string, json: unknown, signal?: AbortSignal) => TaskEither<ResourceFailure, unknown>
  readonly isAlive: () => boolean
}

export interface ServiceOptions {
  /**
   * Milliseconds that the answer to a start is awaited after the start was called off, and that
   * each of at most three `DELETE` requests may take. Default 10,000.
   */
  readonly endMs?: number
}

/** Most `DELETE` requests for one session. */
const MOST_DELETES = 3

/** A pause before a `DELETE` is sent again, as a part of `endMs`. */
const PAUSE = 0.1

/**
 * Ends a session. `coming`: the service may still be opening it, so that 404 does not mean that it
 * is gone.
 */
const removed = async (transport: Transport, path: string, rest: { state: 'open' | 'coming'; endMs: number }) => {
  for (let left = MOST_DELETES; left > 0; left--) {
    const answer = await transport.send({ method: 'DELETE', path, repeat: 'safe', deadlineMs: rest.endMs })()
    if (E.isRight(answer) || answer.left.kind === 'closed') return
    if (answer.left.status === 404 && rest.state === 'open') return
    if (left > 1) await pauseFor(rest.endMs * PAUSE, liveTimers)
  }
}

/**
 * Runs a request that may continue for a while after the signal has aborted, because its effect
 * must be known.
 */
const outlasting = async <T>(signal: AbortSignal, ms: number, run: (signal: AbortSignal) => Promise<T>): Promise<T> => {
  const own = cancellation()
  let cancelTimer = (): void => {}
  const onAbort = (): void => {
    cancelTimer = liveTimers.after(ms, own.stop)
  }
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await run(own.signal)
  } finally {
    cancelTimer()
    signal.removeEventListener('abort', onAbort)
  }
}

const idOf = (text: string): string | undefined => {
  const body = E.getOrElse((): unknown => null)(parseJson(text))
  const id = typeof body === 'object' && body !== null && 'id' in body ? body.id : undefined
  return typeof id === 'string' ? id : undefined
}

/**
 * A session while it is open: whether it can still be used, and how to call off each of its
 * requests.
 */
interface Open {
  state: 'alive' | 'gone'
  readonly stops: Set<() => void>
}

/**
 * Makes a spec of sessions of an HTTP service: `POST /sessions` with `{ id }` opens one and answers
 * `{ id }`, `POST /sessions/ID/...` uses it, and `DELETE /sessions/ID` ends it. A service may
 * answer with an id of its own. If the answer is lost, the session with the proposed id is ended.
 * An end calls off the requests of the session that still run. The transport stays the caller's to
 * close.
 *
 * @example
 * serviceResource('shop', liveTransport({ url: 'http://127.0.0.1:8000' })).name // 'shop'
 */
export const serviceResource = (
  name: string,
  transport: Transport,
  { endMs = 10_000 }: ServiceOptions = {},
): ResourceSpec<ServiceSession> => {
  const sessions = new Map<string, Open>()
  const failed = (kind: ResourceFailure['kind'], reason: string): E.Either<ResourceFailure, never> =>
    E.left(resourceFailure(name, kind, reason))
  const send = (path: string, json: unknown, signal: AbortSignal) =>
    transport.send({ method: 'POST', path, json, repeat: 'never', signal })()
  const pathOf = (id: string): string => `/sessions/${encodeURIComponent(id)}`

  const sessionOf = (id: string): ServiceSession => {
    const open: Open = { state: 'alive', stops: new Set() }
    sessions.set(id, open)
    const requested: ServiceSession['post'] = (path, json, signal) => async () => {
      const own = cancellation({ signal })
      open.stops.add(own.stop)
      const answer = await send(`${pathOf(id)}/${path}`, json, own.signal)
      open.stops.delete(own.stop)
      own.release()
      if (E.isRight(answer))
        return E.orElseW(() => failed('dead', 'it answered what is not JSON'))(parseJson(answer.right.text))
      open.state = 'gone' // what the request did to the session is unknown
      return failed(answer.left.kind === 'cancelled' ? 'cancelled' : 'dead', answer.left.reason)
    }
    return { id, isAlive: () => open.state === 'alive', post: requested }
  }

  /** Ends what a start without an id may have opened, and reports the start. */
  const refused = async (proposed: string, answer: E.Either<HttpFailure, unknown>) => {
    const isAnswered = E.isRight(answer) || answer.left.kind === 'status'
    if (isAnswered || answer.left.acted === 'perhaps')
      await removed(transport, pathOf(proposed), { state: isAnswered ? 'open' : 'coming', endMs })
    return failed('start', E.isLeft(answer) ? answer.left.reason : 'its answer has no id of a session')
  }

  return {
    name,
    start: (_, signal) => async () => {
      const proposed = liveIds.fresh()
      const answer = await outlasting(signal, endMs, (own) => send('/sessions', { id: proposed }, own))
      const id = E.isRight(answer) ? idOf(answer.right.text) : undefined
      return id === undefined ? refused(proposed, answer) : E.right(sessionOf(id))
    },
    end: async ({ id }) => {
      for (const stop of sessions.get(id)?.stops ?? []) stop()
      sessions.delete(id)
      await removed(transport, pathOf(id), { state: 'open', endMs })
    },
    isAlive: (session) => session.isAlive(),
  }
}

/** Sends requests over HTTP. */
import type { HttpEvents, HttpReply, Transport } from '@tandem-rl/base'
import { isLeft, isRight, right } from 'fp-ts/lib/Either.js'
import { type Callers, makeCallers, perform, type Read } from './call.js'
import { receiveWhole } from './receive.js'
import type { Trouble } from './retry.js'
import { receiveEvents } from './serverEvents.js'
import { type TransportOptions, transportSettings } from './settings.js'

export type { TransportOptions } from './settings.js'

const readWhole: Read<HttpReply> = async (attempt, { over, about }) => {
  const whole = await receiveWhole(attempt)
  over(isLeft(whole) ? whole.left : undefined)
  if (isRight(whole)) attempt.life.finish()
  return isRight(whole) ? right({ ...about(), ...whole.right }) : whole
}

const readEvents: Read<HttpEvents> = async (attempt, { over, about, tell }) => {
  const ended = (trouble: Trouble | undefined): void => {
    over(trouble)
    attempt.life.finish()
  }
  const streamed = await receiveEvents(attempt, { over: ended, tell })
  if (isRight(streamed)) return right({ ...about(), ...streamed.right })
  over(streamed.left)
  return streamed
}

const closeAll = async (callers: Callers): Promise<void> => {
  callers.door.set('closed')
  for (const life of [...callers.lives]) life.end({ kind: 'closed', reason: 'the transport was closed', acted: 'no' })
  await callers.server.connections.close()
}

/**
 * Makes a transport to one server. For several replicas, see `enginePool`.
 *
 * Each request waits for the rate limit and for one of `connections` slots, in order. After a
 * temporary failure it is sent again if `repeat` allows it, after a random pause that grows, within
 * a retry budget that all requests share. A server that fails repeatedly gets no requests for a
 * while. Requests with `repeat: 'never'` use a new connection.
 *
 * Errors   throws TypeError for invalid options. `send` and `events` return `Left(HttpFailure)` for
 *          all failures of communication; they reject with TypeError for an invalid path or
 *          headers.
 * Effects  opens connections on demand; sets timers. Secrets are never included in failures.
 * Cost     one connection per request in progress. Answers are held in memory up to `maxBytes`,
 *          events only until they are read.
 *
 * @example
 * liveTransport({ url: 'http://127.0.0.1:8000', headers: { authorization: 'Bearer abc' } }).state().circuit // 'closed'
 */
export const liveTransport = (options: TransportOptions): Transport => {
  const callers = makeCallers(transportSettings(options))
  return {
    send: (request) => () => perform(callers, request, readWhole),
    events: (request) => () => perform(callers, request, readEvents),
    state: callers.server.state,
    close: () => closeAll(callers),
  }
}

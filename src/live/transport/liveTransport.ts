/**
 * Sends requests over HTTP.
 *
 * This folder holds HTTP requests to servers: retries, limits, circuit breakers and streams. It
 * does not hold the contents of the requests (`src/modules/remote`) or servers
 * (`../httpServer.ts`).
 */
import { isLeft, isRight, right } from 'fp-ts/lib/Either.js'
import type { HttpEvents, HttpReply, Transport } from '../../core/http.js'
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
 * Sends requests to one server. For several replicas, see `enginePool`.
 *
 * Each request waits for the rate and for one of `connections` places, in the order of asking; is sent; and is sent again after a trouble
 * that may pass, as `repeat` allows, after a pause that grows and is drawn at random, and only as often as a budget that all requests share
 * allows. A server that fails again and again is left alone for a while. What is `never` to be repeated gets a connection of its own.
 *
 * Errors   throws TypeError for options that cannot be used. `send` and `events` give `Left(HttpFailure)` for all that can go wrong on the
 *          way; they reject with TypeError for a path or headers that cannot be sent.
 * Effects  opens connections, when they are needed; sets timers. Secrets are in no failure.
 * Cost     a connection for each request underway; answers are held in memory up to `maxBytes`, events only until they are read.
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

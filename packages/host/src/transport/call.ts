/** A call: a request with its waiting time, attempts and pauses. */
import { type Cell, cell, child, type HttpFailure, type HttpReply, type HttpRequest, redact } from '@tandem-rl/base'
import { type Either, isRight, left } from 'fp-ts/lib/Either.js'
import type { ConnectionMessage } from './connections.js'
import { type Life, startLife, waitIn } from './life.js'
import type { Attempt } from './receive.js'
import { budgetRequest, budgetRetry, planRetry, type RetryPlan, startBudget, type Trouble } from './retry.js'
import { openServer, type Server } from './server.js'
import { headerProblems, secretsOf, type TransportSettings } from './settings.js'
import { isWithinRate, makeRateLine, type RateLine } from './turns.js'

/** The state that all calls of a transport share. */
export interface Callers {
  readonly settings: TransportSettings
  readonly server: Server
  readonly rate: RateLine
  /** Unfinished calls. */
  readonly lives: Set<Life>
  /** Records a request, or takes a retry from the budget. */
  readonly budget: (what: 'request' | 'retry') => 'yes' | 'no'
  /** Returns a random key for the pauses of one more call. */
  readonly freshKey: () => TransportSettings['key']
  readonly door: Cell<'open' | 'closed'>
}

/** The context of reading an answer, without the attempt. */
interface Reading {
  /** Marks the exchange as finished. Must be called once. */
  readonly over: (trouble: Trouble | undefined) => void
  readonly about: () => Pick<HttpReply, 'server' | 'attempts'>
  readonly tell: (trouble: Trouble) => HttpFailure
}

/** Sends an attempt and reads its answer. */
export type Read<T> = (attempt: Attempt, reading: Reading) => Promise<Either<Trouble, T>>

interface Call {
  readonly request: HttpRequest
  readonly life: Life
  readonly secrets: readonly string[]
  readonly server: Server
  /** Number of attempts sent. */
  attempts: number
  acted: 'no' | 'perhaps'
}

/** Makes the state that the calls of a new transport share. */
export const makeCallers = (settings: TransportSettings): Callers => {
  const { timing, retry } = settings
  let budget = startBudget(retry, timing.now())
  let calls = 0
  return {
    settings,
    server: openServer(settings.server, settings),
    rate: makeRateLine(settings.rate, timing),
    lives: new Set(),
    budget: (what) => {
      const next =
        what === 'retry' ? budgetRetry(budget, retry, timing.now()) : budgetRequest(budget, retry, timing.now())
      budget = next ?? budget
      return next === undefined ? 'no' : 'yes'
    },
    freshKey: () => child(settings.key, calls++),
    door: cell<'open' | 'closed'>('open'),
  }
}

const failureOf = (call: Call, trouble: Trouble, because = ''): HttpFailure => {
  const { request, server, attempts, acted, secrets } = call
  const { origin } = server.address
  const path = redact(request.path, secrets)
  const after = because === '' ? '' : ` (${because})`
  return {
    _tag: 'HttpFailure',
    kind: trouble.kind,
    server: origin,
    path,
    ...(trouble.status !== undefined && { status: trouble.status }),
    ...(trouble.body !== undefined && { body: redact(trouble.body, secrets) }),
    acted: acted === 'perhaps' ? acted : trouble.acted,
    attempts,
    reason: redact(`${request.method} ${origin}${path}: ${trouble.reason}${after}`, secrets),
  }
}

/**
 * Waits for the rate limit and for a slot at the server. On success, the slot must be given back.
 */
const takeTurn = async ({ settings, rate }: Callers, { request, life, server }: Call): Promise<Trouble | undefined> => {
  const tokens = request.tokens ?? 0
  if (!isWithinRate(settings.rate, tokens))
    return { kind: 'overloaded', reason: `${tokens} tokens are more than a minute allows`, acted: 'no' }
  if (server.waiting.get() >= settings.waiting) {
    const reason = `${server.waiting.get()} requests are already waiting for the server: send fewer at a time`
    return { kind: 'overloaded', reason, acted: 'no' }
  }
  server.waiting.update((n) => n + 1)
  let place: 'waited-for' | 'had' = 'waited-for'
  const stopped = await waitIn(life, (go) => {
    let leaveLine = (): void => undefined
    const leaveRate = rate.take(tokens, () => {
      leaveLine = server.places.take(() => {
        server.waiting.update((n) => n - 1)
        place = 'had'
        go()
      })
    })
    return () => {
      leaveRate()
      leaveLine()
    }
  })
  if (place === 'waited-for') server.waiting.update((n) => n - 1)
  if (stopped !== undefined) return stopped
  if (server.admit() === 'yes') return undefined
  server.places.giveBack()
  const reason = 'the server failed repeatedly, and gets no requests for a while'
  return { kind: 'open-circuit', reason, acted: 'no', waitMs: server.coolMs() }
}

const messageOf = ({ request, server, attempts }: Call): ConnectionMessage => {
  const { method, path, headers = {}, json, repeat } = request
  const value: unknown = typeof json === 'function' ? json(attempts) : json
  const body = value === undefined ? undefined : JSON.stringify(value)
  return {
    method,
    path: `${server.address.prefix}${path}`,
    headers: {
      'accept-encoding': 'identity',
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...server.address.headers,
      ...Object.fromEntries(Object.entries(headers).map(([name, header]) => [name.toLowerCase(), header])),
    },
    body,
    connection: repeat === 'never' ? 'fresh' : 'kept',
  }
}

/** Returns the message. Calls `undo` and throws if the request is invalid. */
const preparedOr = (call: Call, undo: () => void): ConnectionMessage => {
  try {
    return messageOf(call)
  } catch (error) {
    undo()
    throw error
  }
}

/**
 * Makes one attempt, from waiting to the answer. The slot is given back when the exchange has
 * finished.
 */
const attemptOnce = async <T>(callers: Callers, call: Call, read: Read<T>): Promise<Either<Trouble, T>> => {
  const { server, life } = call
  const stopped = await takeTurn(callers, call)
  if (stopped !== undefined) return left(stopped)
  call.attempts++
  server.count('attempts')
  const message = preparedOr(call, () => server.places.giveBack())
  let isOver = false
  const over = (trouble: Trouble | undefined): void => {
    if (isOver) return
    isOver = true
    server.places.giveBack()
    server.note(trouble)
    if (trouble !== undefined) server.count('failures')
  }
  return read(
    { connections: server.connections, message, life, settings: callers.settings, statusIn: call.request.statusIn },
    {
      over,
      about: () => ({ server: server.address.origin, attempts: call.attempts }),
      tell: (trouble) => failureOf(call, trouble),
    },
  )
}

const checkRequest = ({ path, headers = {} }: HttpRequest): void => {
  const problems = [
    ...(/^\/[\x21-\x7e]*$/.test(path)
      ? []
      : ['path: expected a slash, followed by characters that are valid in addresses']),
    ...headerProblems(headers),
  ]
  if (problems.length > 0) throw new TypeError(`HttpRequest: ${problems.join('; ')}`)
}

const pause = (life: Life, ms: number, { timing }: TransportSettings): Promise<Trouble | undefined> =>
  ms <= 0 ? Promise.resolve(life.ended()) : waitIn(life, (go) => timing.after(ms, go))

/** Plans the next attempt after a failure, within the retry budget. */
const planAfter = (
  callers: Callers,
  call: Call,
  found: {
    readonly trouble: Trouble
    readonly tries: number
    readonly atOnce: number
    readonly key: TransportSettings['key']
  },
): RetryPlan => {
  const { trouble, tries, atOnce, key } = found
  const { repeat } = call.request
  const plan = planRetry(
    { repeat, trouble, attempt: tries, atOnce, leftMs: call.life.leftMs() },
    callers.settings.retry,
    key,
  )
  if (plan._tag === 'Again' && plan.toll === 'budget' && callers.budget('retry') === 'no')
    return { _tag: 'Enough', because: 'too many requests are being retried already' }
  return plan
}

const attemptAll = async <T>(callers: Callers, call: Call, read: Read<T>): Promise<Either<HttpFailure, T>> => {
  const key = callers.freshKey()
  let tries = 0
  let atOnce = 0
  while (true) {
    tries++
    const result = await attemptOnce(callers, call, read)
    if (isRight(result)) return result
    const trouble = result.left
    const plan = planAfter(callers, call, { trouble, tries, atOnce, key })
    if (plan._tag === 'Enough') return left(failureOf(call, trouble, plan.because))
    if (trouble.acted === 'perhaps') call.acted = 'perhaps'
    atOnce += plan.atOnce
    const stopped = await pause(call.life, plan.afterMs, callers.settings)
    if (stopped !== undefined) return left(failureOf(call, stopped))
    call.server.count('retries')
  }
}

/**
 * Sends a request until it is answered or must stop.
 *
 * Errors   rejects with TypeError for an invalid path or headers, and with any error that `json`
 *          throws.
 */
export const perform = async <T>(
  callers: Callers,
  request: HttpRequest,
  read: Read<T>,
): Promise<Either<HttpFailure, T>> => {
  checkRequest(request)
  const { settings, server, lives } = callers
  const { signal, deadlineMs = settings.deadlineMs } = request
  const life = startLife({ deadlineMs, signal }, settings.timing, () => lives.delete(life))
  lives.add(life)
  if (callers.door.get() === 'closed') life.end({ kind: 'closed', reason: 'the transport was closed', acted: 'no' })
  server.count('requests')
  callers.budget('request')
  const secrets = [...settings.secrets, ...secretsOf(request.headers ?? {})]
  const call: Call = { request, life, secrets, server, attempts: 0, acted: 'no' }
  try {
    const result = await attemptAll(callers, call, read)
    if (result._tag === 'Left') life.finish()
    return result
  } catch (error) {
    life.finish()
    throw error
  }
}

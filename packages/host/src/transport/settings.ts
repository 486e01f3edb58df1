/** The options of a transport, their checks and defaults. */
import { type Key, keyFromSeed, redact, splitLogin } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { CircuitOptions } from './circuit.js'
import { type ForwardProxy, proxyFor } from './proxies.js'
import type { RequestRateOptions } from './rate.js'
import type { RetryOptions } from './retry.js'

/** The time functions that a transport needs. */
export interface Timing {
  /** Milliseconds since some fixed moment. Never goes back. */
  readonly now: () => number
  /** Milliseconds of the calendar, for dates sent by servers. */
  readonly wall: () => number
  /** Runs a function later. The returned function cancels it. */
  readonly after: (ms: number, run: () => void) => () => void
}

export interface TransportOptions {
  /**
   * Base URL of the server, such as `http://127.0.0.1:8000`. Its path is prepended to that of each
   * request. A user and a password are sent in the `authorization` header, and never shown.
   */
  readonly url: string
  /**
   * Headers of every request. Values of `authorization`, `cookie` and names that contain `key`,
   * `token` or `secret` are treated as secrets.
   */
  readonly headers?: Readonly<Record<string, string>>
  /** Additional secrets, which are never shown. */
  readonly secrets?: readonly string[]
  /** Maximum number of requests in progress. Default 512. */
  readonly connections?: number
  /** Maximum number of queued requests. Further requests fail with `overloaded`. Default 16,384. */
  readonly waiting?: number
  /**
   * Time after which an idle connection is closed. It must be below the server's own limit, such as
   * 5 s for uvicorn. Default 4,000.
   */
  readonly keepAliveMs?: number
  /** Longest time to open a connection. Default 10,000. */
  readonly connectMs?: number
  /**
   * Longest time without a byte of the response, or without an event of a stream. Default 0, no
   * limit, because a rollout sends nothing until its end.
   */
  readonly idleMs?: number
  /** Deadline in milliseconds of requests without their own. Default an hour. */
  readonly deadlineMs?: number
  /** Maximum number of bytes of a whole answer, and of characters of one event. Default 256 MiB. */
  readonly maxBytes?: number
  /**
   * Retry policy. Default: 4 attempts, pauses from 250 ms to 20 s, and a retry budget of one per
   * five requests plus 30 per minute.
   */
  readonly retry?: Partial<RetryOptions>
  /** Rate limits. Default: no limits. They apply to all servers together. */
  readonly rate?: RequestRateOptions
  /** Circuit breaker. Default: 8 consecutive failures, 2,000 ms. */
  readonly circuit?: Partial<CircuitOptions>
  /** Random key for the pauses between attempts. Default: different in every process. */
  readonly key?: Key
  /** Default: real time. */
  readonly timing?: Timing
}

/** The address of a server. */
export interface ServerAddress {
  /** Scheme, host and port. Contains no secrets. */
  readonly origin: string
  /** Prefix of the path of each request, without a slash at its end. */
  readonly prefix: string
  readonly headers: Readonly<Record<string, string>>
}

export interface TransportSettings extends Required<Omit<TransportOptions, 'url' | 'retry' | 'circuit' | 'headers'>> {
  readonly server: ServerAddress
  readonly proxy: ForwardProxy | null
  readonly retry: RetryOptions
  readonly circuit: CircuitOptions
}

const RETRY: RetryOptions = { attempts: 4, baseMs: 250, capMs: 20_000, share: 0.2, floor: 30 }
const CIRCUIT: CircuitOptions = { failures: 8, coolMs: 2000 }

/** Longest delay of a timer in milliseconds, about 24 days. */
const LONGEST_MS = 2 ** 31 - 1

const liveTiming: Timing = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, Math.min(ms, LONGEST_MS))
    return () => clearTimeout(timer)
  },
}

const SECRET_HEADER = /^(authorization|proxy-authorization|cookie)$|key|token|secret|password/i

/** Returns the values of secret headers, with and without their scheme. */
export const secretsOf = (headers: Readonly<Record<string, string>>): readonly string[] =>
  Object.entries(headers)
    .filter(([name]) => SECRET_HEADER.test(name))
    .flatMap(([, value]) => [value, value.replace(/^\w+\s+/, '')])

interface Parsed extends ServerAddress {
  readonly secrets: readonly string[]
}

const parseServer = (text: string): Parsed | string => {
  if (!URL.canParse(text)) return `url: not an address: ${JSON.stringify(redact(text))}`
  const url = new URL(text)
  const { protocol, origin } = url
  if (protocol !== 'http:' && protocol !== 'https:') return `url: neither http nor https: ${redact(text)}`
  if (url.search !== '' || url.hash !== '') return `url: an address with a query or a fragment: ${redact(text)}`
  const { headers, secrets } = splitLogin(url)
  return { origin, prefix: url.pathname.replace(/(?<!\/)\/+$/, ''), headers, secrets }
}

const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: a header must not have these characters
const HEADER_VALUE = /^[^\u0000-\u0008\u000a-\u001f\u007f\u0100-\uffff]*$/

/** Returns the problems of headers, without their values. */
export const headerProblems = (headers: Readonly<Record<string, string>>): readonly string[] =>
  Object.entries(headers).flatMap(([name, value]) => {
    if (!HEADER_NAME.test(name)) return [`headers: ${JSON.stringify(name)} is not the name of a header`]
    return HEADER_VALUE.test(value) ? [] : [`headers: the value of ${name} has invalid characters`]
  })

const numberProblems = (settings: TransportSettings): readonly string[] => {
  const { retry, circuit, rate } = settings
  const positive = { connections: settings.connections, attempts: retry.attempts, failures: circuit.failures }
  const limits = { maxBytes: settings.maxBytes, deadlineMs: settings.deadlineMs, connectMs: settings.connectMs }
  const others = {
    waiting: settings.waiting,
    keepAliveMs: settings.keepAliveMs,
    idleMs: settings.idleMs,
    baseMs: retry.baseMs,
    capMs: retry.capMs,
    share: retry.share,
    floor: retry.floor,
    coolMs: circuit.coolMs,
  }
  const bad = (
    numbers: Readonly<Record<string, number>>,
    isGood: (value: number) => boolean,
    expected: string,
  ): readonly string[] =>
    Object.entries(numbers).flatMap(([name, value]) =>
      isGood(value) ? [] : [`${name}: expected ${expected}, got ${value}`],
    )
  return [
    ...bad(positive, (value) => Number.isSafeInteger(value) && value >= 1, 'an integer of at least 1'),
    ...bad({ ...limits, ...rate }, (value) => value > 0, 'a number above 0'),
    ...bad(others, (value) => value >= 0, 'a number of at least 0'),
  ]
}

/**
 * Checks the options of a transport and completes them.
 *
 * Errors   throws TypeError that lists all invalid URLs, headers and numbers, without secrets.
 */
export const transportSettings = (options: TransportOptions): TransportSettings => {
  const { url, headers = {}, secrets = [], retry, circuit, ...rest } = options
  const parsed = parseServer(url)
  const {
    origin,
    prefix,
    headers: own,
    secrets: found,
  }: Parsed = typeof parsed === 'string' ? { origin: '', prefix: '', headers: {}, secrets: [] } : parsed
  const through = origin === '' ? E.right(null) : proxyFor(origin)
  const proxy = E.isRight(through) ? through.right : null
  const lower = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
  const settings: TransportSettings = {
    connections: 512,
    waiting: 16_384,
    keepAliveMs: 4000,
    connectMs: 10_000,
    idleMs: 0,
    deadlineMs: 3_600_000,
    maxBytes: 2 ** 28,
    rate: {},
    key: keyFromSeed(Math.floor(Math.random() * 2 ** 53)),
    timing: liveTiming,
    ...rest,
    retry: { ...RETRY, ...retry },
    circuit: { ...CIRCUIT, ...circuit },
    server: { origin, prefix, headers: { ...own, ...lower } },
    proxy,
    secrets: [...secrets, ...secretsOf(lower), ...found, ...(proxy?.secrets ?? [])],
  }
  const problems = [
    ...(typeof parsed === 'string' ? [parsed] : []),
    ...(E.isLeft(through) ? [through.left] : []),
    ...headerProblems(headers),
    ...('authorization' in own && 'authorization' in lower
      ? ['url: a user and password in the address beside an authorization header or a key: give one of them']
      : []),
    ...numberProblems(settings),
  ]
  if (problems.length > 0)
    throw new TypeError(`liveTransport: ${problems.map((problem) => redact(problem, settings.secrets)).join('; ')}`)
  return settings
}

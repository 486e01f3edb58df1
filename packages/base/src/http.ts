/** The types of HTTP requests to servers, which `packages/host/src/transport` sends. */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/**
 * The effect of sending a request twice. `safe`: none, it only reads. `fresh`: the work is repeated
 * and the first response is lost, as in sampling. `never`: it changes the server, so a request
 * without response must not be repeated before its effect was checked.
 */
export type Repeat = 'safe' | 'fresh' | 'never'

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Path and query, such as `/v1/models`. */
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  /**
   * Sent as JSON. A function creates the value for each attempt, for instance with a request id
   * that no other attempt has.
   */
  readonly json?: unknown | ((attempt: number) => unknown)
  readonly repeat: Repeat
  /**
   * The time limit in milliseconds for the whole request: waiting for a slot, all attempts, the
   * pauses between them, and the response to its last byte.
   */
  readonly deadlineMs?: number
  /** Aborting it closes the connection, which ends the work on the server. */
  readonly signal?: AbortSignal
  /**
   * Returns the status that the text of a 2xx response reports, if any: some servers send an error
   * with status 200. The response then counts as one of that status.
   */
  readonly statusIn?: (text: string) => number | undefined
  /** The number of tokens that the request will cost, for limits of tokens per minute. */
  readonly tokens?: number
}

/** A response with a 2xx status. */
export interface HttpReply {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** The origin of the server that responded. */
  readonly server: string
  /** The number of attempts, 1 if the first one succeeded. */
  readonly attempts: number
  readonly text: string
}

/** A server-sent event. */
export interface ServerEvent {
  readonly event: string | undefined
  readonly data: string
}

/**
 * An item of a stream of events. `Unfinished`: the stream ended before the blank line of this
 * event, so that its data may be cut off; a failure follows.
 */
export type HttpEventItem = { readonly _tag: 'Event' | 'Unfinished'; readonly event: ServerEvent } | HttpFailure

/** A response that is still arriving. */
export interface HttpEvents extends Omit<HttpReply, 'text'> {
  /**
   * Never throws: an error is the last item of the stream. Leaving the stream closes the
   * connection. It can be read once. A response of JSON is a stream of one event.
   */
  readonly events: AsyncIterable<HttpEventItem>
}

/**
 * The reason why a request failed.
 *
 * `unreachable`: no connection. `reset`: the connection broke. `timeout`: the deadline passed, or
 * the server was silent for too long. `cancelled`: by the caller's signal. `status`: a status other
 * than 2xx. `malformed`: bytes that are not HTTP, not of the declared length, not UTF-8 or not
 * server-sent events. `too-large`: more bytes than the limit. `overloaded`: too many requests are
 * waiting. `open-circuit`: the server failed so often that no requests are sent for a while.
 * `closed`: the transport was closed.
 */
export type HttpFailureKind =
  | 'unreachable'
  | 'reset'
  | 'timeout'
  | 'cancelled'
  | 'status'
  | 'malformed'
  | 'too-large'
  | 'overloaded'
  | 'open-circuit'
  | 'closed'

export interface HttpFailure {
  readonly _tag: 'HttpFailure'
  readonly kind: HttpFailureKind
  /** The origin, without credentials. */
  readonly server: string
  readonly path: string
  readonly status?: number
  /** The beginning of a response with a status other than 2xx, without secrets. */
  readonly body?: string
  /**
   * `no` if the server cannot have acted on the request, because it did not receive all of it or
   * reported that it refused it.
   */
  readonly acted: 'no' | 'perhaps'
  readonly attempts: number
  /** The error and the remedy in one sentence, without secrets. */
  readonly reason: string
}

/** Counters since the start, and current gauges. */
export interface TransportState {
  readonly server: string
  readonly circuit: 'closed' | 'open' | 'half-open'
  readonly inFlight: number
  readonly waiting: number
  readonly requests: number
  readonly attempts: number
  readonly retries: number
  readonly failures: number
}

/** Sends requests to one server. */
export interface Transport {
  /** Returns the whole response. */
  readonly send: (request: HttpRequest) => TaskEither<HttpFailure, HttpReply>
  /**
   * Returns a response of server-sent events. Attempts are repeated only until a response begins.
   */
  readonly events: (request: HttpRequest) => TaskEither<HttpFailure, HttpEvents>
  readonly state: () => TransportState
  /** Ends running requests with `closed`, and closes all connections. */
  readonly close: () => Promise<void>
}

/**
 * Requests in the form of the web's `fetch`, on connections of their own, for libraries that
 * require it.
 */
export interface WebFetch {
  readonly fetch: typeof globalThis.fetch
  /** Closes all connections. */
  readonly close: () => Promise<void>
}

/** The destination of a connection. `any`: a tunnel with unknown contents. */
export interface GateDestination {
  readonly scheme: 'http' | 'https' | 'any'
  readonly host: string
  readonly port: number
}

/** A proxy that connects only to allowed destinations. */
export interface Gate {
  readonly url: string
  /** Closes all connections. Call it once. */
  readonly close: () => Promise<void>
}

/** A failure to open a gate. */
export interface GateFailure {
  readonly _tag: 'GateFailure'
  readonly reason: string
}

/** Opens a gate. Connections to other destinations are closed without a response. */
export type OpenGate = (allows: (to: GateDestination) => boolean) => TaskEither<GateFailure, Gate>

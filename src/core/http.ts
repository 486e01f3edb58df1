/** Requests to servers over HTTP, as types. The real transport is in `src/live/transport`. */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/**
 * What sending a request twice would do. `safe`: nothing, it only reads. `fresh`: the work is done anew and the first answer is lost, as in
 * sampling. `never`: it changes the server, so that a request whose answer is missing may not be sent again before somebody has looked.
 */
export type Repeat = 'safe' | 'fresh' | 'never'

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Path and query, such as `/v1/models`. */
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON. A function makes the value anew for each attempt, for instance with a request id that no other attempt has. */
  readonly json?: unknown | ((attempt: number) => unknown)
  readonly repeat: Repeat
  /** Milliseconds for everything: waiting for a turn, all attempts, the pauses between them, and the answer to its last byte. */
  readonly deadlineMs?: number
  /** Aborting it closes the connection, which ends the work on the server. */
  readonly signal?: AbortSignal
  /** Tokens that the request will cost, for limits of tokens in a minute. */
  readonly tokens?: number
}

/** An answer with a status of 2xx. */
export interface HttpReply {
  readonly status: number
  /** Names in small letters. */
  readonly headers: Readonly<Record<string, string>>
  /** Origin of the server that answered. */
  readonly server: string
  /** 1 if the first attempt brought it. */
  readonly attempts: number
  readonly text: string
}

/** A server-sent event. */
export interface ServerEvent {
  readonly event: string | undefined
  readonly data: string
}

/** An answer that is still arriving. */
export interface HttpEvents extends Omit<HttpReply, 'text'> {
  /** It never throws: what breaks the stream is its last item. Leaving it closes the connection. To be read once. */
  readonly events: AsyncIterable<{ readonly _tag: 'Event'; readonly event: ServerEvent } | HttpFailure>
}

/**
 * Why a request got no answer of use.
 *
 * `unreachable`: no connection. `reset`: the connection broke. `timeout`: the deadline passed, or the server was silent for too long.
 * `cancelled`: by the caller's signal. `status`: an answer other than 2xx. `malformed`: bytes that are not HTTP, not the promised length,
 * not UTF-8 or not server-sent events. `too-large`: more bytes than the limit. `overloaded`: too many requests wait already.
 * `open-circuit`: the server failed so often that it is left alone for a while. `closed`: the transport was closed.
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
  /** Origin, without credentials. */
  readonly server: string
  readonly path: string
  readonly status?: number
  /** Of an answer other than 2xx: its beginning, with secrets left out. */
  readonly body?: string
  /** Whether the server may have acted: `no` if it cannot have seen the whole request or said that it refused it. */
  readonly acted: 'no' | 'perhaps'
  readonly attempts: number
  /** What happened and what to do, in one sentence, with secrets left out. */
  readonly reason: string
}

/** Counters since the start and gauges of now. */
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
  /** The whole answer. */
  readonly send: (request: HttpRequest) => TaskEither<HttpFailure, HttpReply>
  /** An answer of server-sent events. Attempts are repeated only until an answer begins. */
  readonly events: (request: HttpRequest) => TaskEither<HttpFailure, HttpEvents>
  readonly state: () => TransportState
  /** Ends what is underway with `closed`, and closes all connections. */
  readonly close: () => Promise<void>
}

/** Requests in the form of the web's `fetch`, for libraries that want one, on connections of their own. */
export interface WebFetch {
  readonly fetch: typeof globalThis.fetch
  /** Cuts all connections. */
  readonly close: () => Promise<void>
}

/** Where a connection is to go. `any`: a tunnel, of which nobody knows what goes through it. */
export interface GateDestination {
  readonly scheme: 'http' | 'https' | 'any'
  readonly host: string
  readonly port: number
}

/** A proxy that connects to some places only. */
export interface Gate {
  readonly url: string
  /** Cuts all connections. To be called once. */
  readonly close: () => Promise<void>
}

/** A gate could not be opened. */
export interface GateFailure {
  readonly _tag: 'GateFailure'
  readonly reason: string
}

/** Opens a gate. What it does not allow is cut off without an answer. */
export type OpenGate = (allows: (to: GateDestination) => boolean) => TaskEither<GateFailure, Gate>

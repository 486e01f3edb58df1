/** Calls of a Tinker server: requests that are sent again after troubles that may pass. */
import { type Cell, cell, errorMessage, type Ids, pauseFor, redact, type Timers } from '@tandem-rl/base'
import { type Either, isLeft, left, right } from 'fp-ts/lib/Either.js'

/**
 * A call of a Tinker server failed.
 *
 * `refused`: the server does not accept the request. `failed`: it accepted the request and could
 * not carry it out. `lost`: the result is no longer held. `uncertain`: an answer is missing, and
 * the server is not known to recognize a repeated request. `protocol`: an answer has another form.
 * `unsupported`: the server lacks something. `unreachable`: no answer within the deadline.
 * `broken`: an earlier request of the model failed in a way that leaves its state unknown.
 */
export interface TinkerFailure {
  readonly _tag: 'TinkerFailure'
  readonly kind:
    | 'refused'
    | 'failed'
    | 'lost'
    | 'uncertain'
    | 'protocol'
    | 'unsupported'
    | 'unreachable'
    | 'broken'
    | 'closed'
  /** Origin of the server. */
  readonly server: string
  readonly call: string
  readonly status?: number
  readonly reason: string
}

/**
 * Sends one HTTP request: `(url, init) => app.fetch(new Request(url, init))` for a server in this
 * process.
 */
export type TinkerFetch = (
  url: string,
  init: {
    readonly method: string
    readonly headers: Record<string, string>
    readonly body?: string | Uint8Array<ArrayBuffer>
    readonly signal: AbortSignal
  },
) => Promise<Response>

/** The connection to a server. */
interface CallOptions {
  readonly url: string
  readonly apiKey: string
  readonly fetch: TinkerFetch
  readonly timers: Timers
  readonly ids: Ids
  /** Milliseconds for a call with all of its attempts, or for waiting for a result. */
  readonly deadlineMs: number
  /** Milliseconds for one attempt. */
  readonly attemptMs: number
  /** `recognized`: the server runs requests with an equal number or idempotency key once. */
  readonly repeats: () => 'recognized' | 'unknown'
  /** The kind of server, for errors. */
  readonly serverName: () => string
}

/** Bytes, requests and tokens since the start. */
export interface CallCounts {
  readonly requests: number
  readonly sentBytes: number
  readonly receivedBytes: number
  /** Requests that were sent again. */
  readonly repeated: number
  /** Tokens of prompts to sample from, and of losses without gradients. */
  readonly sentTokens: number
  readonly sampledTokens: number
  /** Tokens of losses with gradients. */
  readonly trainedTokens: number
}

/** The kinds of tokens that are counted. */
type CountedTokens = 'sentTokens' | 'sampledTokens' | 'trainedTokens'

/** The content of a request. */
export interface CallRequest {
  /** Path below `/api/v1`, or below the address of the server if `base` is `server`. */
  readonly path: string
  readonly base?: 'api' | 'server'
  readonly method?: 'GET' | 'POST' | 'DELETE'
  readonly json?: object
  readonly protobuf?: Uint8Array
  readonly headers?: Readonly<Record<string, string>>
  /** `changes`: sending it twice would change the server twice, unless the server recognizes it. */
  readonly effect: 'none' | 'changes'
  readonly idempotencyKey?: string
  readonly signal?: AbortSignal
}

/** An answer with any status. */
export interface CallReply {
  readonly status: number
  readonly type: string
  readonly headers: Headers
  readonly bytes: Uint8Array
}

/** Why there is no answer. `absent`: nothing listens at the address, or its name is unknown. */
interface Outage {
  readonly kind: 'absent' | 'lost'
  readonly reason: string
}

/** Calls of one server. */
export interface Calls {
  readonly options: CallOptions
  /** One attempt. Errors: `Left` if there is no answer. */
  readonly attempt: (request: CallRequest) => Promise<Either<Outage, CallReply>>
  /**
   * Attempts until there is an answer that is not a passing trouble. Any status but 408, 425, 429
   * and 5xx is an answer. Fails at once if nothing listens at the address before the first answer.
   */
  readonly send: (request: CallRequest) => Promise<Either<TinkerFailure, CallReply>>
  /** `send`, and the JSON of an answer of 2xx. */
  readonly json: (request: CallRequest) => Promise<Either<TinkerFailure, unknown>>
  readonly failure: (
    kind: TinkerFailure['kind'],
    about: { readonly call: string; readonly reason: string; readonly status?: number },
  ) => TinkerFailure
  readonly wait: (ms: number) => Promise<void>
  readonly counts: () => CallCounts
  /** Returns whether a request may be sent again after the server may have carried it out. */
  readonly mayRepeat: (request: Pick<CallRequest, 'effect'>) => boolean
  /** Adds tokens of requests that the server has accepted. */
  readonly count: (kind: CountedTokens, tokens: number) => void
}

const LONGEST_PAUSE_MS = 30_000

/** The pause before an attempt: 0.1 s, doubled each time, at most 30 s. */
export const backoffMs = (attempt: number): number => Math.min(LONGEST_PAUSE_MS, 100 * 2 ** Math.min(attempt, 20))

/** Why a request is not sent again. */
export const UNCERTAIN =
  'the server may have carried the request out, and is not known to recognize a repeated one: restore a checkpoint'

const decoder = new TextDecoder()

/** The JSON of an answer; undefined for bytes that are not JSON. */
export const replyJson = ({ bytes }: CallReply): unknown => {
  try {
    return JSON.parse(decoder.decode(bytes)) as unknown
  } catch {
    return undefined // the caller names what the answer lacks
  }
}

/** The reason of an answer that is a refusal. */
export const replyReason = (reply: CallReply): string => {
  const json = replyJson(reply)
  const detail: unknown = typeof json === 'object' && json !== null && 'detail' in json ? json.detail : undefined
  const text =
    typeof detail === 'string' ? detail : detail === undefined ? decoder.decode(reply.bytes) : JSON.stringify(detail)
  return `${text.slice(0, 500) || 'no reason was given'} (status ${reply.status})`
}

/** Codes of connections that nothing accepts, and the message for a port that `fetch` blocks. */
const ABSENT = ['ECONNREFUSED', 'ENOTFOUND', 'EHOSTUNREACH', 'ENETUNREACH', 'bad port']

/** The errors below an exception: its causes, and those of several attempts to connect. */
const causesOf = (thrown: unknown): readonly unknown[] => {
  if (!(thrown instanceof Error)) return [thrown]
  const inner = thrown instanceof AggregateError ? (thrown.errors as readonly unknown[]) : [] // any values
  return [thrown, ...inner, ...(thrown.cause === undefined ? [] : causesOf(thrown.cause))]
}

const outageOf = (thrown: unknown): Outage => {
  const codes = causesOf(thrown).flatMap((each) =>
    each instanceof Error ? ['code' in each ? each.code : undefined, each.message] : [],
  )
  const code = codes.find((each) => typeof each === 'string' && ABSENT.includes(each))
  return code === undefined
    ? { kind: 'lost', reason: errorMessage(thrown) }
    : { kind: 'absent', reason: `no server answers at this address (${code})` }
}

const isPassing = (status: number): boolean => status === 408 || status === 425 || status === 429 || status >= 500

/** Opens calls of a server. */
export const makeCalls = (options: CallOptions): Calls => {
  const { url, apiKey, timers, ids, deadlineMs, attemptMs, repeats, serverName } = options
  const server = new URL(url).origin
  const root = url.replace(/\/+$/, '')
  const hasAnswered = cell(false)
  const counts: Cell<CallCounts> = cell({
    requests: 0,
    sentBytes: 0,
    receivedBytes: 0,
    repeated: 0,
    sentTokens: 0,
    sampledTokens: 0,
    trainedTokens: 0,
  })
  const failure: Calls['failure'] = (kind, { call, reason, status }) => ({
    _tag: 'TinkerFailure',
    kind,
    server,
    call,
    ...(status !== undefined && { status }),
    reason: redact(`${server} (${serverName()}) ${call}: ${reason}`, [apiKey]),
  })
  const mayRepeat: Calls['mayRepeat'] = ({ effect }) => effect === 'none' || repeats() === 'recognized'

  const attempt: Calls['attempt'] = async (request) => {
    const { path, base = 'api', method = 'POST', json, protobuf, headers = {}, idempotencyKey, signal } = request
    const controller = new AbortController()
    const stop = timers.after(attemptMs, () => controller.abort())
    const cancel = (): void => controller.abort()
    signal?.addEventListener('abort', cancel, { once: true })
    const body =
      protobuf !== undefined ? Uint8Array.from(protobuf) : json === undefined ? undefined : JSON.stringify(json)
    try {
      const response = await options.fetch(`${root}${base === 'api' ? '/api/v1' : ''}${path}`, {
        method,
        headers: {
          'x-api-key': apiKey,
          ...(body !== undefined && {
            'content-type': protobuf === undefined ? 'application/json' : 'application/x-protobuf',
          }),
          ...(idempotencyKey !== undefined && { 'x-idempotency-key': idempotencyKey }),
          ...headers,
        },
        ...(body !== undefined && { body }),
        signal: controller.signal,
      })
      const bytes = new Uint8Array(await response.arrayBuffer())
      counts.update((all) => ({
        ...all,
        requests: all.requests + 1,
        sentBytes: all.sentBytes + (body?.length ?? 0),
        receivedBytes: all.receivedBytes + bytes.length,
      }))
      hasAnswered.update(() => true)
      const type = response.headers.get('content-type') ?? ''
      return right({ status: response.status, type, headers: response.headers, bytes })
    } catch (error) {
      counts.update((all) => ({ ...all, requests: all.requests + 1 }))
      return left(outageOf(error))
    } finally {
      stop()
      signal?.removeEventListener('abort', cancel)
    }
  }

  const send: Calls['send'] = async (given) => {
    const { path: call } = given
    const request = { ...given, idempotencyKey: given.idempotencyKey ?? ids.fresh() }
    let waited = 0
    for (let tries = 0; ; tries++) {
      if (given.signal?.aborted) return left(failure('closed', { call, reason: 'cancelled by the caller' }))
      const reply = await attempt(request)
      const status = isLeft(reply) ? undefined : reply.right.status
      if (!isLeft(reply) && !isPassing(reply.right.status)) return reply
      const reason = isLeft(reply) ? reply.left.reason : replyReason(reply.right)
      if (isLeft(reply) && reply.left.kind === 'absent' && !hasAnswered.get())
        return left(failure('unreachable', { call, reason }))
      const isSpared = status === 429 || status === 425 || (isLeft(reply) && reply.left.kind === 'absent')
      if (!isSpared && !mayRepeat(given))
        return left(
          failure('uncertain', {
            call,
            reason: `${reason}; ${UNCERTAIN}`,
            ...(status !== undefined && { status }),
          }),
        )
      const waitMs = backoffMs(tries)
      if (waited + waitMs > deadlineMs)
        return left(failure('unreachable', { call, reason: `${reason}, after ${tries + 1} attempts` }))
      waited += waitMs
      counts.update((all) => ({ ...all, repeated: all.repeated + 1 }))
      await pauseFor(waitMs, timers)
    }
  }

  return {
    options,
    attempt,
    send,
    json: async (request) => {
      const reply = await send(request)
      if (isLeft(reply)) return reply
      const { status } = reply.right
      const about = { call: request.path, status, reason: replyReason(reply.right) }
      if (status === 404 && about.reason.startsWith('there is no route')) return left(failure('unsupported', about))
      if (status < 200 || status >= 300) return left(failure('refused', about))
      return right(replyJson(reply.right))
    },
    failure,
    wait: (ms) => pauseFor(ms, timers),
    mayRepeat,
    counts: counts.get,
    count: (kind, tokens) => counts.update((all) => ({ ...all, [kind]: all[kind] + tokens })),
  }
}

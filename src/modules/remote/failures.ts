/** Conversions of HTTP failures to failures of control and of generation. */
import { type HttpFailure, parseJson } from '@tandem-rl/base'
import type { GenerationFailure } from '@tandem-rl/text'
import { z } from 'zod'
import type { EngineFailure } from '../../data/engineClient.js'

const fields = {
  message: z.string(),
  type: z.string().nullish(),
  /** A status, or a name of the error. */
  code: z.union([z.number(), z.string()]).nullish(),
}

/** The formats of errors of vLLM, OpenAI and others. */
const errorBody = z.union([
  z.object({ error: z.object(fields) }).transform(({ error }) => error),
  z.object({ object: z.literal('error'), ...fields }),
  z.object({ error: z.string() }).transform(({ error }) => ({ message: error, type: null, code: null })),
  z.object({ detail: z.string() }).transform(({ detail }) => ({ message: detail, type: null, code: null })),
])

/** An error reported by the server. */
export interface ServerError {
  readonly message: string
  /** The server's name of the kind of error, or ''. */
  readonly type: string
  /** The status in the error's code, from 400 to 599, if any. */
  readonly status?: number
}

/** Returns the status of a code, as a number or as text. */
const statusOfCode = (code: number | string | null | undefined): number | undefined => {
  const status = Number(code)
  return Number.isInteger(status) && status >= 400 && status < 600 ? status : undefined
}

/**
 * Parses an error that a server sent, or returns null for other values.
 *
 * @example
 * serverError({ error: { message: 'no', type: 'NotFoundError' } }) // { message: 'no', type: 'NotFoundError' }
 * serverError({ detail: 'Not Found' })                            // { message: 'Not Found', type: '' }
 */
export const serverError = (value: unknown): ServerError | null => {
  const parsed = errorBody.safeParse(value)
  if (!parsed.success) return null
  const { message, type, code } = parsed.data
  const status = statusOfCode(code)
  return { message, type: type ?? '', ...(status !== undefined && { status }) }
}

/**
 * Returns the error in the body of an answer other than 2xx, or null if it has none of vLLM's
 * formats.
 */
export const errorOf = ({ body }: Pick<HttpFailure, 'body'>): ServerError | null => {
  const parsed = parseJson(body ?? '')
  return parsed._tag === 'Left' ? null : serverError(parsed.right)
}

/** Maximum number of characters of an error that arrives with status 200. */
const MOST_ERROR = 2 ** 16

/**
 * Returns the status of an error in the text of a 2xx answer, as `HttpRequest.statusIn` does.
 *
 * @example
 * reportedStatus('{"error": {"message": "slow down", "code": 429}}') // 429
 */
export const reportedStatus = (text: string): number | undefined =>
  text.length > MOST_ERROR ? undefined : errorOf({ body: text })?.status

/** Maximum number of characters of a server's message in a reason. */
const SHOWN = 400

/** Returns the reason of a failure, with the server's own message if present. */
const reasonOf = (failure: HttpFailure): string => {
  const reported = errorOf(failure)
  return failure.status === undefined || reported === null
    ? failure.reason
    : `${failure.path} answered ${failure.status}: ${reported.message.slice(0, SHOWN)}`
}

/** Returns true if the path does not exist on the server, rather than the requested object. */
const isNoRoute = (failure: HttpFailure): boolean => {
  if (failure.status === 405 || failure.status === 501) return true
  if (failure.status !== 404) return false
  const reported = errorOf(failure)
  return reported === null || reported.message === 'Not Found'
}

/** Makes a failure of an engine's control. */
export const engineFailure = (engine: string, kind: EngineFailure['kind'], reason: string): EngineFailure => ({
  _tag: 'EngineFailure',
  engine,
  kind,
  reason,
})

/**
 * Converts the failure of a control call. The kind is `unknown` if the server may have acted.
 *
 * A call without effects (`reads`) cannot have acted, so its failure means that no answer arrived.
 */
export const controlFailure = (
  engine: string,
  failure: HttpFailure,
  effect: 'changes' | 'reads' = 'changes',
): EngineFailure => {
  const reason = reasonOf(failure)
  if (isNoRoute(failure)) return engineFailure(engine, 'missing', `there is no ${failure.path}: ${reason}`)
  if (failure.status !== undefined && failure.status < 500) return engineFailure(engine, 'refused', reason)
  if (effect === 'changes' && failure.acted === 'perhaps') return engineFailure(engine, 'unknown', reason)
  if (failure.kind === 'malformed' || failure.kind === 'too-large') return engineFailure(engine, 'protocol', reason)
  return engineFailure(engine, failure.status === undefined ? 'unreachable' : 'refused', reason)
}

/** Makes the failure of a request without a usable answer. */
export const generationFailure = (kind: GenerationFailure['kind'], reason: string): GenerationFailure => ({
  _tag: 'GenerationFailure',
  kind,
  reason,
})

const kindOfStatus = (status: number, adapter: string | null): GenerationFailure['kind'] => {
  if (status === 401 || status === 403) return 'unauthorized'
  if (status === 404) return adapter === null ? 'invalid' : 'unknown-adapter'
  if (status === 429 || status === 503) return 'overloaded'
  return status < 500 ? 'invalid' : 'internal'
}

const KINDS = {
  unreachable: 'unreachable',
  reset: 'unreachable',
  'open-circuit': 'unreachable',
  timeout: 'timeout',
  malformed: 'protocol',
  'too-large': 'protocol',
  overloaded: 'overloaded',
  closed: 'closed',
  cancelled: 'closed',
} as const satisfies Partial<Record<HttpFailure['kind'], GenerationFailure['kind']>>

/** Converts the failure of a sampling request, for the base model or an adapter. */
export const requestFailure = (failure: HttpFailure, adapter: string | null): GenerationFailure => {
  const kind = failure.kind === 'status' ? kindOfStatus(failure.status ?? 500, adapter) : KINDS[failure.kind]
  return generationFailure(kind, reasonOf(failure))
}

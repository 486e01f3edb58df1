/** What went wrong on the wire, as failures of control and of generation. */
import { z } from 'zod'
import type { HttpFailure } from '../../core/http.js'
import { parseJson } from '../../core/json.js'
import type { EngineFailure } from '../../data/engineClient.js'
import type { GenerationFailure } from '../../data/generation.js'

/** The three forms in which vLLM tells an error. */
const errorBody = z.union([
  z.object({ error: z.object({ message: z.string(), type: z.string().nullish() }) }),
  z.object({ error: z.string() }),
  z.object({ detail: z.string() }),
])

/** An error in the server's words. */
export interface ServerError {
  readonly message: string
  /** The server's name of the kind, '' where it gives none. */
  readonly type: string
}

/**
 * The error in a value that a server sent; null if it is none.
 *
 * @example
 * serverError({ error: { message: 'no', type: 'NotFoundError' } }) // { message: 'no', type: 'NotFoundError' }
 * serverError({ detail: 'Not Found' })                            // { message: 'Not Found', type: '' }
 */
export const serverError = (value: unknown): ServerError | null => {
  const parsed = errorBody.safeParse(value)
  if (!parsed.success) return null
  if ('detail' in parsed.data) return { message: parsed.data.detail, type: '' }
  const { error } = parsed.data
  return typeof error === 'string' ? { message: error, type: '' } : { message: error.message, type: error.type ?? '' }
}

/** The error in the body of an answer other than 2xx; null where it is in no form of vLLM's. */
export const errorOf = ({ body }: Pick<HttpFailure, 'body'>): ServerError | null => {
  const parsed = parseJson(body ?? '')
  return parsed._tag === 'Left' ? null : serverError(parsed.right)
}

/** At most so much of a server's words stands in a reason. */
const SHOWN = 400

/** What happened, with the server's own words where it has some. */
const reasonOf = (failure: HttpFailure): string => {
  const told = errorOf(failure)
  return failure.status === undefined || told === null
    ? failure.reason
    : `${failure.path} answered ${failure.status}: ${told.message.slice(0, SHOWN)}`
}

/** Whether an answer says that the path is not there, and not that something it was asked for is not. */
const isNoRoute = (failure: HttpFailure): boolean => {
  if (failure.status === 405 || failure.status === 501) return true
  if (failure.status !== 404) return false
  const told = errorOf(failure)
  return told === null || told.message === 'Not Found'
}

/** A failure of an engine's control. */
export const engineFailure = (engine: string, kind: EngineFailure['kind'], reason: string): EngineFailure => ({
  _tag: 'EngineFailure',
  engine,
  kind,
  reason,
})

/**
 * A control call that failed. Whether the server may have acted decides between `unknown` and the other kinds.
 *
 * A call that changes nothing (`reads`) cannot have acted: what is left then is that nobody answered.
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

/** A request that was not answered, or not in a way that can be used. */
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

/** The failure of a request to sample, of the base model or of an adapter. */
export const requestFailure = (failure: HttpFailure, adapter: string | null): GenerationFailure => {
  const kind = failure.kind === 'status' ? kindOfStatus(failure.status ?? 500, adapter) : KINDS[failure.kind]
  return generationFailure(kind, reasonOf(failure))
}

/** Control calls of a server. Changes are sent once, and refusals include the server's message. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { HttpFailure, Transport } from '../../../core/http.js'
import type { EngineFailure } from '../../../data/engineClient.js'
import { parseJsonAs } from '../../../data/schemaJson.js'
import { liveTransport } from '../../../live/transport/liveTransport.js'
import { controlFailure, engineFailure } from '../failures.js'

/**
 * The address of a server, or a transport to it. The transport has its own API key, which it never
 * shows.
 */
export type SGLangAddress = { readonly url: string; readonly apiKey?: string } | { readonly transport: Transport }

/** The settings of calls. */
export interface CallOptions {
  /**
   * The key of `--admin-api-key`, for control calls. Default: the API key, as servers without an
   * administrator key require.
   */
  readonly adminKey?: string
  readonly controlMs: number
  readonly updateMs: number
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

const transportTo = (address: SGLangAddress, { adminKey }: CallOptions): Transport =>
  'transport' in address
    ? address.transport
    : liveTransport({
        url: address.url,
        ...(address.apiKey !== undefined && { headers: bearer(address.apiKey) }),
        ...(adminKey !== undefined && { secrets: [adminKey] }),
      })

/** Makes a server from its address. */
export const sglangServer = (address: SGLangAddress, options: CallOptions): SGLangServer => {
  const transport = transportTo(address, options)
  const { adminKey, controlMs, updateMs } = options
  const headers = adminKey === undefined ? {} : bearer(adminKey)
  return { name: `sglang at ${transport.state().server}`, transport, headers, controlMs, updateMs }
}

/** A server and the settings of its calls. */
export interface SGLangServer {
  /** Kind and address for messages, without credentials. */
  readonly name: string
  /**
   * Transport to a single server, because changes of weights must not reach only one of several.
   */
  readonly transport: Transport
  /** Headers of control calls, such as the administrator's authorization. */
  readonly headers: Readonly<Record<string, string>>
  /** Time limit of a control call in milliseconds, to its last byte. */
  readonly controlMs: number
  /** Time limit of a call that carries or loads weights. */
  readonly updateMs: number
}

export interface SGLangCall {
  readonly path: string
  readonly json?: unknown
  readonly deadlineMs?: number
}

/** The formats of SGLang's messages about a call. */
const answerWords = z.union([
  z.object({ error_message: z.string() }),
  z.object({ message: z.string() }),
  z.object({ error: z.object({ message: z.string() }) }),
  z.object({ error: z.string() }),
  z.object({ detail: z.string() }),
])

/** Maximum number of characters of a server's message in a reason. */
const SHOWN = 400

const wordsOf = (text: string): string => {
  const result = parseJsonAs(answerWords, text)
  if (E.isLeft(result)) return text.trim().slice(0, SHOWN)
  if ('error_message' in result.right) return result.right.error_message.slice(0, SHOWN)
  if ('message' in result.right) return result.right.message.slice(0, SHOWN)
  if ('detail' in result.right) return result.right.detail.slice(0, SHOWN)
  const { error } = result.right
  return (typeof error === 'string' ? error : error.message).slice(0, SHOWN)
}

/** Returns true if FastAPI's router did not find the path. */
const isNoRoute = ({ status, body }: HttpFailure): boolean =>
  status === 405 || (status === 404 && ['', 'Not Found'].includes(wordsOf(body ?? '')))

/**
 * Converts the failure of a call that changes the server. A status below 500 means that nothing was
 * changed.
 */
const failureOf = ({ name }: SGLangServer, failure: HttpFailure): EngineFailure => {
  const { status, body, path } = failure
  if (status === undefined) return controlFailure(name, failure)
  const words = `${path} answered ${status}: ${wordsOf(body ?? '')}`
  if (isNoRoute(failure)) return engineFailure(name, 'missing', `there is no ${path}: ${words}`)
  return engineFailure(name, status < 500 ? 'refused' : 'unknown', words)
}

/** The body of calls that report refusals with status 200. */
const verdict = z.object({ success: z.boolean() })

/**
 * Changes a server's state. The call is sent once.
 *
 * Errors   `Left(EngineFailure)`: `missing`, `refused` or `unreachable` if the server cannot have
 *          acted; `unknown` if it may have.
 */
export const changeSGLang = async (
  server: SGLangServer,
  { path, json, deadlineMs = server.controlMs }: SGLangCall,
): Promise<E.Either<EngineFailure, void>> => {
  const { transport, headers, name } = server
  const body = json === undefined ? {} : { json }
  const reply = await transport.send({ method: 'POST', path, headers, repeat: 'never', deadlineMs, ...body })()
  if (E.isLeft(reply)) return E.left(failureOf(server, reply.left))
  const result = parseJsonAs(verdict, reply.right.text)
  return E.isRight(result) && !result.right.success
    ? E.left(engineFailure(name, 'refused', `${path} answered: ${wordsOf(reply.right.text)}`))
    : E.right(undefined)
}

/**
 * Reads from a server. May be retried.
 *
 * Errors   `Left(EngineFailure)`: `missing` if the path does not exist, `refused`, `unreachable`,
 *          and `protocol` for an answer of another format.
 */
export const readAt = async <T>(
  { name, transport, headers, controlMs }: SGLangServer,
  path: string,
  schema: z.ZodType<T>,
): Promise<E.Either<EngineFailure, T>> => {
  const reply = await transport.send({ method: 'GET', path, headers, repeat: 'safe', deadlineMs: controlMs })()
  if (E.isLeft(reply)) return E.left(controlFailure(name, reply.left, 'reads'))
  return E.mapLeft((reason: string) => engineFailure(name, 'protocol', `${path} gave an unexpected answer: ${reason}`))(
    parseJsonAs(schema, reply.right.text),
  )
}

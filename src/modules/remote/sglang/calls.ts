/** Calls of control of a server: sent once, with its own words where it refuses. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { HttpFailure, Transport } from '../../../core/http.js'
import type { EngineFailure } from '../../../data/engineClient.js'
import { parseJsonAs } from '../../../data/schemaJson.js'
import { liveTransport } from '../../../live/transport/liveTransport.js'
import { controlFailure, engineFailure } from '../failures.js'

/** Where a server is: its address, or a transport to it. The key of its API belongs to the transport, which never shows it. */
export type SGLangAddress = { readonly url: string; readonly apiKey?: string } | { readonly transport: Transport }

/** What a server is called with. */
export interface CallOptions {
  /** The key of `--admin-api-key`, for calls of control. Default: the key of the API, as servers without one for the administrator want it. */
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

/** A server by its address. */
export const sglangServer = (address: SGLangAddress, options: CallOptions): SGLangServer => {
  const transport = transportTo(address, options)
  const { adminKey, controlMs, updateMs } = options
  const headers = adminKey === undefined ? {} : bearer(adminKey)
  return { name: `sglang at ${transport.state().server}`, transport, headers, controlMs, updateMs }
}

/** A server, and how long its calls may take. */
export interface SGLangServer {
  /** For messages: kind and address, without credentials. */
  readonly name: string
  /** To one server: what changes its weights must not reach one of several. */
  readonly transport: Transport
  /** Sent with calls of control, such as the authorization of the administrator. */
  readonly headers: Readonly<Record<string, string>>
  /** Milliseconds for a call of control, to its last byte. */
  readonly controlMs: number
  /** The same for calls that carry weights or have them read. */
  readonly updateMs: number
}

export interface SGLangCall {
  readonly path: string
  readonly json?: unknown
  readonly deadlineMs?: number
}

/** The forms in which SGLang says what it thinks of a call. */
const answerWords = z.union([
  z.object({ error_message: z.string() }),
  z.object({ message: z.string() }),
  z.object({ error: z.object({ message: z.string() }) }),
  z.object({ error: z.string() }),
  z.object({ detail: z.string() }),
])

/** At most so much of a server's words stands in a reason. */
const SHOWN = 400

const wordsOf = (text: string): string => {
  const told = parseJsonAs(answerWords, text)
  if (E.isLeft(told)) return text.trim().slice(0, SHOWN)
  if ('error_message' in told.right) return told.right.error_message.slice(0, SHOWN)
  if ('message' in told.right) return told.right.message.slice(0, SHOWN)
  if ('detail' in told.right) return told.right.detail.slice(0, SHOWN)
  const { error } = told.right
  return (typeof error === 'string' ? error : error.message).slice(0, SHOWN)
}

/** A refusal of FastAPI's router: the path is not there. */
const isNoRoute = ({ status, body }: HttpFailure): boolean =>
  status === 405 || (status === 404 && ['', 'Not Found'].includes(wordsOf(body ?? '')))

/** The failure of a call that changes the server. What it said no to with a status below 500 has not happened, by its own word. */
const failureOf = ({ name }: SGLangServer, failure: HttpFailure): EngineFailure => {
  const { status, body, path } = failure
  if (status === undefined) return controlFailure(name, failure)
  const words = `${path} answered ${status}: ${wordsOf(body ?? '')}`
  if (isNoRoute(failure)) return engineFailure(name, 'missing', `there is no ${path}: ${words}`)
  return engineFailure(name, status < 500 ? 'refused' : 'unknown', words)
}

/** Some calls answer 200 and say no in the body. */
const verdict = z.object({ success: z.boolean() })

/**
 * Has a server change something. It is sent once.
 *
 * Errors   `Left(EngineFailure)`: `missing`, `refused`, `unreachable` if the server cannot have acted; `unknown` if it may have.
 */
export const changeSGLang = async (
  server: SGLangServer,
  { path, json, deadlineMs = server.controlMs }: SGLangCall,
): Promise<E.Either<EngineFailure, void>> => {
  const { transport, headers, name } = server
  const body = json === undefined ? {} : { json }
  const reply = await transport.send({ method: 'POST', path, headers, repeat: 'never', deadlineMs, ...body })()
  if (E.isLeft(reply)) return E.left(failureOf(server, reply.left))
  const told = parseJsonAs(verdict, reply.right.text)
  return E.isRight(told) && !told.right.success
    ? E.left(engineFailure(name, 'refused', `${path} answered: ${wordsOf(reply.right.text)}`))
    : E.right(undefined)
}

/**
 * Reads from a server. It may be sent again.
 *
 * Errors   `Left(EngineFailure)`: `missing` where there is no such path, `refused`, `unreachable`, and `protocol` for an answer of another form.
 */
export const readAt = async <T>(
  { name, transport, headers, controlMs }: SGLangServer,
  path: string,
  schema: z.ZodType<T>,
): Promise<E.Either<EngineFailure, T>> => {
  const reply = await transport.send({ method: 'GET', path, headers, repeat: 'safe', deadlineMs: controlMs })()
  if (E.isLeft(reply)) return E.left(controlFailure(name, reply.left, 'reads'))
  return E.mapLeft((reason: string) =>
    engineFailure(name, 'protocol', `${path} answered what it should not: ${reason}`),
  )(parseJsonAs(schema, reply.right.text))
}

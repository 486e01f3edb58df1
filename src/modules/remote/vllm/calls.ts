/** Calls of a server's API whose answers are small: sent once or read again, checked by a schema. */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import type { HttpFailure, HttpReply, HttpRequest, Transport } from '../../../core/http.js'
import { parseJson } from '../../../core/json.js'
import type { EngineFailure } from '../../../data/engineClient.js'
import { controlFailure, engineFailure } from './failures.js'

/** A server, and how requests to it look. */
export interface VLLMServer {
  /** For messages: kind and address, without credentials. */
  readonly name: string
  readonly transport: Transport
  /** What every request carries. */
  readonly headers: Readonly<Record<string, string>>
  /** Milliseconds for a call of control, to its last byte. */
  readonly controlMs: number
}

/** Sends a request with the server's headers. */
export const sendTo = (
  { transport, headers, controlMs }: VLLMServer,
  request: HttpRequest,
): TaskEither<HttpFailure, HttpReply> => transport.send({ headers, deadlineMs: controlMs, ...request })

/** An answer that nobody reads: its status says everything. */
export const ANY_ANSWER = z.unknown()

const parsed = <T>(
  { name }: VLLMServer,
  schema: z.ZodType<T>,
  { text, path, effect }: { readonly text: string; readonly path: string; readonly effect: 'changes' | 'reads' },
): E.Either<EngineFailure, T> => {
  const wrong = (why: string) =>
    E.left(
      engineFailure(name, effect === 'changes' ? 'unknown' : 'protocol', `${path} answered what it should not: ${why}`),
    )
  const json = parseJson(text)
  if (E.isLeft(json)) return wrong(json.left)
  const read = schema.safeParse(json.right)
  return read.success ? E.right(read.data) : wrong(z.prettifyError(read.error))
}

/**
 * Reads from a server. It may be sent again.
 *
 * Errors   `Left(EngineFailure)`: `missing` where there is no such path, `refused`, `unreachable`, and `protocol` for an answer of another form.
 */
export const readFrom =
  <T>(server: VLLMServer, path: string, schema: z.ZodType<T>): TaskEither<EngineFailure, T> =>
  async () => {
    const reply = await sendTo(server, { method: 'GET', path, repeat: 'safe' })()
    return E.isLeft(reply)
      ? E.left(controlFailure(server.name, reply.left, 'reads'))
      : parsed(server, schema, { text: reply.right.text, path, effect: 'reads' })
  }

/** What a call is sent with. */
export interface CallBody<T> {
  readonly json?: unknown
  readonly schema: z.ZodType<T>
}

/**
 * Has a server change something. It is sent once.
 *
 * Errors   `Left(EngineFailure)`: `missing`, `refused`, `unreachable` if the server cannot have acted; `unknown` if it may have.
 */
export const changeAt =
  <T>(server: VLLMServer, path: string, { json, schema }: CallBody<T>): TaskEither<EngineFailure, T> =>
  async () => {
    const request: HttpRequest = { method: 'POST', path, repeat: 'never', ...(json !== undefined && { json }) }
    const reply = await sendTo(server, request)()
    if (E.isLeft(reply)) return E.left(controlFailure(server.name, reply.left))
    const { text } = reply.right
    return schema === ANY_ANSWER
      ? E.right(schema.parse(null))
      : parsed(server, schema, { text, path, effect: 'changes' })
  }

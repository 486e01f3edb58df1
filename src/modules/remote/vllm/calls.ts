/** Calls of a server's API whose answers are small: sent once or read again, checked by a schema. */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { z } from 'zod'
import type { HttpFailure, HttpReply, HttpRequest, Transport } from '../../../core/http.js'
import type { EngineFailure } from '../../../data/engineClient.js'
import { parseJsonAs } from '../../../data/schemaJson.js'
import { liveTransport } from '../../../live/transport/liveTransport.js'
import { controlFailure, engineFailure } from '../failures.js'

/** A server, and how requests to it look. */
export interface VLLMServer {
  /** For messages: kind and address, without credentials. */
  readonly name: string
  /** To one server: what changes its weights must not reach one of several. */
  readonly transport: Transport
  /** Milliseconds for a call of control, to its last byte. */
  readonly controlMs: number
}

/** Where a server is: its address, or a transport to it. A key for the API belongs to the transport, which never shows it. */
export type VLLMAddress = { readonly url: string; readonly apiKey?: string } | { readonly transport: Transport }

const CONTROL_MS = 300_000

const transportTo = (address: VLLMAddress): Transport =>
  'transport' in address
    ? address.transport
    : liveTransport({
        url: address.url,
        ...(address.apiKey !== undefined && { headers: { authorization: `Bearer ${address.apiKey}` } }),
      })

/** A server by its address. */
export const vLLMServer = (address: VLLMAddress & { readonly controlMs?: number }): VLLMServer => {
  const transport = transportTo(address)
  return { name: `vllm at ${transport.state().server}`, transport, controlMs: address.controlMs ?? CONTROL_MS }
}

/** Sends a call of control within its time. */
export const sendTo = (
  { transport, controlMs }: VLLMServer,
  request: HttpRequest,
): TaskEither<HttpFailure, HttpReply> => transport.send({ deadlineMs: controlMs, ...request })

const unexpected = (path: string, why: string): string => `${path} answered what it should not: ${why}`

/**
 * Reads from a server. It may be sent again.
 *
 * Errors   `Left(EngineFailure)`: `missing` where there is no such path, `refused`, `unreachable`, and `protocol` for an answer of another form.
 */
export const readFrom =
  <T>(server: VLLMServer, path: string, schema: z.ZodType<T>): TaskEither<EngineFailure, T> =>
  async () => {
    const reply = await sendTo(server, { method: 'GET', path, repeat: 'safe' })()
    if (E.isLeft(reply)) return E.left(controlFailure(server.name, reply.left, 'reads'))
    const read = parseJsonAs(schema, reply.right.text)
    return E.isLeft(read) ? E.left(engineFailure(server.name, 'protocol', unexpected(path, read.left))) : read
  }

/** What a call of control is sent with, and the form of its answer. */
export interface VLLMCall<T> {
  readonly path: string
  readonly json?: unknown
  /** Null: the status says everything. */
  readonly schema: z.ZodType<T> | null
}

/**
 * Has a server change something. It is sent once. What it answers is null where no form of it is asked for.
 *
 * Errors   `Left(EngineFailure)`: `missing`, `refused`, `unreachable` if the server cannot have acted; `unknown` if it may have.
 */
export const changeVLLM =
  <T>(server: VLLMServer, { path, json, schema }: VLLMCall<T>): TaskEither<EngineFailure, T | null> =>
  async () => {
    const request: HttpRequest = { method: 'POST', path, repeat: 'never', ...(json !== undefined && { json }) }
    const reply = await sendTo(server, request)()
    if (E.isLeft(reply)) return E.left(controlFailure(server.name, reply.left))
    if (schema === null) return E.right(null)
    const read = parseJsonAs(schema, reply.right.text)
    return E.isLeft(read) ? E.left(engineFailure(server.name, 'unknown', unexpected(path, read.left))) : read
  }

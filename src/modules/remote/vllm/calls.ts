/**
 * Calls with small answers, which are checked by a schema. Changes are sent once; reads may be
 * retried.
 */
import { type HttpFailure, type HttpReply, type HttpRequest, parseJsonAs, type Transport } from '@tandem-rl/base'
import { liveTransport } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { z } from 'zod'
import type { EngineFailure } from '../../../data/engineClient.js'
import { controlFailure, engineFailure } from '../failures.js'

/** A server and the settings of requests to it. */
export interface VLLMServer {
  /** Kind and address for messages, without credentials. */
  readonly name: string
  /**
   * Transport to a single server, because changes of weights must not reach only one of several.
   */
  readonly transport: Transport
  /** Time limit of a control call in milliseconds, to its last byte. */
  readonly controlMs: number
}

/**
 * The address of a server, or a transport to it. The transport has its own API key, which it never
 * shows.
 */
export type VLLMAddress = { readonly url: string; readonly apiKey?: string } | { readonly transport: Transport }

const CONTROL_MS = 300_000

const transportTo = (address: VLLMAddress): Transport =>
  'transport' in address
    ? address.transport
    : liveTransport({
        url: address.url,
        ...(address.apiKey !== undefined && { headers: { authorization: `Bearer ${address.apiKey}` } }),
      })

/** Makes a server from its address. */
export const vLLMServer = (address: VLLMAddress & { readonly controlMs?: number }): VLLMServer => {
  const transport = transportTo(address)
  return { name: `vllm at ${transport.state().server}`, transport, controlMs: address.controlMs ?? CONTROL_MS }
}

/** Sends a control call within its time limit. */
export const sendTo = (
  { transport, controlMs }: VLLMServer,
  request: HttpRequest,
): TaskEither<HttpFailure, HttpReply> => transport.send({ deadlineMs: controlMs, ...request })

const unexpected = (path: string, why: string): string => `${path} gave an unexpected answer: ${why}`

/**
 * Reads from a server. May be retried.
 *
 * Errors   `Left(EngineFailure)`: `missing` if the path does not exist, `refused`, `unreachable`,
 *          and `protocol` for an answer of another format.
 */
export const readFrom =
  <T>(server: VLLMServer, path: string, schema: z.ZodType<T>): TaskEither<EngineFailure, T> =>
  async () => {
    const reply = await sendTo(server, { method: 'GET', path, repeat: 'safe' })()
    if (E.isLeft(reply)) return E.left(controlFailure(server.name, reply.left, 'reads'))
    const read = parseJsonAs(schema, reply.right.text)
    return E.isLeft(read) ? E.left(engineFailure(server.name, 'protocol', unexpected(path, read.left))) : read
  }

/** A control call, and the format of its answer. */
export interface VLLMCall<T> {
  readonly path: string
  readonly json?: unknown
  /** `null` if only the status matters. */
  readonly schema: z.ZodType<T> | null
}

/**
 * Changes a server's state. The call is sent once. The answer is null without a schema.
 *
 * Errors   `Left(EngineFailure)`: `missing`, `refused` or `unreachable` if the server cannot have
 *          acted; `unknown` if it may have.
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

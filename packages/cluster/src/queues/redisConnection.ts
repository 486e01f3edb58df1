/** A connection to a Redis server that opens on demand and reconnects after it breaks. */
import type { ErrorReply, RedisClientOptions } from '@redis/client'
import { errorMessage, optionalPackage, type Timers } from '@tandem-rl/base'
import { importPackage } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { type QueueFailure, queueFailure } from './queueLog.js'

/** A command with its arguments. */
export type RedisCommand = readonly (string | Uint8Array)[]

/** A reply of Redis. Texts are bytes. */
export type RedisReply = null | number | Uint8Array | readonly RedisReply[]

export interface RedisConnection {
  /**
   * Sends commands in one batch, in order. If one fails, all fail with the first error. `waitMs`:
   * time that the server may block on purpose.
   */
  readonly send: (
    commands: readonly RedisCommand[],
    options?: { readonly waitMs?: number },
  ) => TaskEither<QueueFailure, readonly RedisReply[]>
  /** Closes the connection. Commands in progress fail. Must be called once only. */
  readonly close: () => void
}

export interface RedisConnectionOptions {
  /**
   * `redis://[user:password@]host[:port][/database]`, `rediss://` with TLS, or `unix:/path` for a
   * socket.
   */
  readonly url: string
  /** Maximum wait for an answer, including the connection. */
  readonly answerMs: number
  readonly timers: Timers
  /** Resolves with the exports of `@redis/client`. Default: imports it. */
  readonly load?: () => Promise<unknown>
}

/** @internal */
type Library = typeof import('@redis/client')

const library = (load: () => Promise<unknown>) =>
  optionalPackage('@redis/client', 'a queue in Redis', load as () => Promise<Library>) // cast: see `load`

/** Errors that a server reports only temporarily. */
const PASSING = /^(LOADING|BUSY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|READONLY|NOREPLICAS)\b/

/** Errors of a server without space, in memory or on disk. */
const NO_ROOM = /^(OOM|MISCONF)\b|because of: (OOM|MISCONF)\b/

const refusal = ({ message }: ErrorReply): QueueFailure => {
  const kind = NO_ROOM.test(message) ? 'memory' : PASSING.test(message) ? 'unreachable' : 'refused'
  return { _tag: 'QueueFailure', kind, reason: `Redis: ${message}` }
}

/** Returns the address without user and password. */
const shownAddress = (url: string): string => {
  if (!URL.canParse(url)) return 'the address'
  const { protocol, host, pathname } = new URL(url)
  return `${protocol}//${host}${pathname}`
}

/**
 * Converts an address to options of the client.
 *
 * Errors   throws TypeError for an invalid address. The message leaves out the password.
 */
const addressOf = (url: string): Pick<RedisClientOptions, 'url' | 'socket'> => {
  if (url.startsWith('unix:'))
    return { socket: { path: url.slice('unix:'.length).replace(/^\/\/(?=\/)/, ''), tls: false } }
  if (!URL.canParse(url) || !/^rediss?:$/.test(new URL(url).protocol))
    throw new TypeError(`redis: expected redis://HOST[:PORT], rediss:// or unix:/PATH, got ${shownAddress(url)}`)
  return { url }
}

type Client = ReturnType<typeof clientOf>

/** Makes a client that does not reconnect or queue commands, and returns bytes. */
const clientOf = ({ createClient, RESP_TYPES }: Library, { url }: RedisConnectionOptions) => {
  const { socket, ...address } = addressOf(url)
  const client = createClient({
    ...address,
    socket: { ...socket, reconnectStrategy: false },
    RESP: 2,
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: 'disabled',
    commandOptions: { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } },
  })
  client.on('error', () => {}) // each command reports its own error
  return client
}

/**
 * Makes a connection, which opens with the first command.
 *
 * Errors   throws TypeError for an invalid address. `send` returns `Left(QueueFailure)`: `package`,
 *          `unreachable` for anything temporary, `memory` or `refused`.
 * Effects  talks to the server. A connection that breaks or does not answer in time is dropped, and
 *          the next command opens a new one.
 */
export const redisConnection = (options: RedisConnectionOptions): RedisConnection => {
  const { url, answerMs, timers, load = () => importPackage('@redis/client', import.meta) } = options
  addressOf(url)
  let current: Client | undefined
  let isClosed = false
  const drop = (client: Client): void => {
    if (current === client) current = undefined
    if (client.isOpen) client.destroy()
  }

  const exchange = async (lib: Library, commands: readonly RedisCommand[], limitMs: number) => {
    const client = current ?? clientOf(lib, options)
    const cancelTimer = timers.after(limitMs, () => drop(client))
    try {
      if (current === undefined) {
        current = client
        await client.connect()
      }
      const sent = commands.map((command) =>
        client.sendCommand<RedisReply>(command.map((each) => (typeof each === 'string' ? each : Buffer.from(each)))),
      )
      const settled = await Promise.allSettled(sent)
      const failed = settled.find((each) => each.status === 'rejected')
      if (failed !== undefined) throw failed.reason
      return E.right(settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : [])))
    } catch (error) {
      if (error instanceof lib.ErrorReply && client.isReady) return E.left(refusal(error))
      drop(client)
      if (error instanceof lib.ErrorReply) return E.left(refusal(error))
      const why = errorMessage(error)
      return queueFailure('unreachable', `${shownAddress(url)} does not respond: ${why}`)
    } finally {
      cancelTimer()
    }
  }

  return {
    send:
      (commands, { waitMs = 0 } = {}) =>
      async () => {
        const lib = await library(load)()
        if (E.isLeft(lib)) {
          return E.left({ _tag: 'QueueFailure', kind: 'package', reason: lib.left.reason, cause: lib.left })
        }
        return isClosed
          ? queueFailure('closed', 'the connection was closed')
          : exchange(lib.right, commands, answerMs + waitMs)
      },
    close: () => {
      isClosed = true
      if (current !== undefined) drop(current)
    },
  }
}

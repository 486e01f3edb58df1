/** A connection to a Redis server that opens when it is needed, and again after it broke. */

import type { ErrorReply, RedisClientOptions } from '@redis/client'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Timers } from '../../core/capabilities.js'
import { errorMessage } from '../../core/failure.js'
import { optionalPackage } from '../../data/codecs/optionalPackage.js'
import { importPackage } from '../../live/environment.js'
import { type QueueFailure, queueFailure } from './queueLog.js'

/** A command with its arguments. */
export type RedisCommand = readonly (string | Uint8Array)[]

/** What Redis answers; texts are bytes. */
export type RedisReply = null | number | Uint8Array | readonly RedisReply[]

export interface RedisConnection {
  /** Sends commands at once, in order; the first error is the failure of all. `waitMs`: how long the server may take on purpose. */
  readonly send: (
    commands: readonly RedisCommand[],
    options?: { readonly waitMs?: number },
  ) => TaskEither<QueueFailure, readonly RedisReply[]>
  /** To be called once. Commands underway fail. */
  readonly close: () => void
}

export interface RedisConnectionOptions {
  /** `redis://[user:password@]host[:port][/database]`, `rediss://` with TLS, or `unix:/path` for a socket. */
  readonly url: string
  /** Longest time for an answer, that of connecting included. */
  readonly answerMs: number
  readonly timers: Timers
  /** Resolves with the exports of `@redis/client`. Default: imports it. */
  readonly load?: () => Promise<unknown>
}

/** @internal */
type Library = typeof import('@redis/client')

const library = (load: () => Promise<unknown>) =>
  optionalPackage('@redis/client', 'a queue in Redis', load as () => Promise<Library>) // cast: see `load`

/** What a server says while it will soon say something else. */
const PASSING = /^(LOADING|BUSY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|READONLY|NOREPLICAS)\b/

/** What it says when there is no room, in memory or on its disk. */
const NO_ROOM = /^(OOM|MISCONF)\b|because of: (OOM|MISCONF)\b/

const saidNo = ({ message }: ErrorReply): QueueFailure => {
  const kind = NO_ROOM.test(message) ? 'memory' : PASSING.test(message) ? 'unreachable' : 'refused'
  return { _tag: 'QueueFailure', kind, reason: `Redis: ${message}` }
}

/** The address without user and password. */
const shownAddress = (url: string): string => {
  if (!URL.canParse(url)) return 'the address'
  const { protocol, host, pathname } = new URL(url)
  return `${protocol}//${host}${pathname}`
}

/**
 * The address of a server as the client takes it.
 *
 * Errors   throws TypeError for an address that cannot be used, without its password.
 */
const addressOf = (url: string): Pick<RedisClientOptions, 'url' | 'socket'> => {
  if (url.startsWith('unix:'))
    return { socket: { path: url.slice('unix:'.length).replace(/^\/\/(?=\/)/, ''), tls: false } }
  if (!URL.canParse(url) || !/^rediss?:$/.test(new URL(url).protocol))
    throw new TypeError(`redis: expected redis://HOST[:PORT], rediss:// or unix:/PATH, got ${shownAddress(url)}`)
  return { url }
}

type Client = ReturnType<typeof clientOf>

/** A client that connects once, keeps nothing for later and gives bytes. */
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
  client.on('error', () => {}) // each command is told what became of it
  return client
}

/**
 * Makes a connection, which opens with the first command.
 *
 * Errors   throws TypeError for an address that cannot be used. `send` gives `Left(QueueFailure)`: `package`, `unreachable` for anything that
 *          may pass, `memory`, `refused`.
 * Effects  talks to the server. A connection that broke, or did not answer in time, is dropped; the next command opens another one.
 */
export const redisConnection = (options: RedisConnectionOptions): RedisConnection => {
  const { url, answerMs, timers, load = () => importPackage('@redis/client') } = options
  addressOf(url)
  let current: Client | undefined
  let isClosed = false
  const drop = (client: Client): void => {
    if (current === client) current = undefined
    if (client.isOpen) client.destroy()
  }

  const exchange = async (lib: Library, commands: readonly RedisCommand[], limitMs: number) => {
    const client = current ?? clientOf(lib, options)
    const silence = timers.after(limitMs, () => drop(client))
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
      if (error instanceof lib.ErrorReply && client.isReady) return E.left(saidNo(error))
      drop(client)
      if (error instanceof lib.ErrorReply) return E.left(saidNo(error))
      const why = errorMessage(error)
      return queueFailure('unreachable', `${shownAddress(url)} does not answer: ${why}`)
    } finally {
      silence()
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

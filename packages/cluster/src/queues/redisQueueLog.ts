/** The log of a shared queue, stored as a Redis stream. */
import { checkOptions, type Timers } from '@tandem-rl/base'
import { liveTimers } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { REDIS_QUEUE_LOG_OPTIONS } from '../optionKinds.js'
import {
  type LogRead,
  type LogRecord,
  lost,
  type QueueFailure,
  type QueueLog,
  queueFailure,
  READ_AT_ONCE,
} from './queueLog.js'
import { type RedisCommand, type RedisConnectionOptions, type RedisReply, redisConnection } from './redisConnection.js'

export interface RedisQueueLogOptions {
  /**
   * `redis://[user:password@]host[:port][/database]`, `rediss://` with TLS, or `unix:/path` for a
   * socket.
   */
  readonly url: string
  /** The name of the queue. Its keys start with `tandem:{name}:`. */
  readonly name: string
  /** Maximum wait for an answer in milliseconds, including the connection. Default 30,000. */
  readonly answerMs?: number
  readonly timers?: Timers
  /** Loads the package. Default: imports `@redis/client`. */
  readonly load?: RedisConnectionOptions['load']
}

/** The place of the first record. It is fixed, so that the record can be added only once. */
const FIRST = '0-1'

const CREATE = `if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('XADD', KEYS[1], '${FIRST}', 't', ARGV[1]) end return 1`

/**
 * Reads a consistent state. A script, because a server without space refuses transactions even for
 * reads.
 */
const READ = `
local text = ARGV[1] == '-' and redis.call('HGET', KEYS[2], 'text')
local entries = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])
return { redis.call('HGET', KEYS[2], 'place'), text, entries, redis.call('TIME') }`

/** Does nothing if the current snapshot is not the one that the writer has seen. */
const COMPACT = `
if (redis.call('HGET', KEYS[2], 'place') or '') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[2], 'place', ARGV[2], 'text', ARGV[3])
redis.call('XTRIM', KEYS[1], 'MINID', '=', ARGV[2])
return 1`

const textOf = (reply: RedisReply | undefined): string | undefined =>
  reply instanceof Uint8Array ? Buffer.from(reply).toString('utf8') : undefined

const listOf = (reply: RedisReply | undefined): readonly RedisReply[] => (Array.isArray(reply) ? reply : [])

/** Splits an id of the stream into its milliseconds and its number within that millisecond. */
const partsOf = (place: string): readonly [ms: number, nth: number] => {
  const [ms, nth] = place.split('-').map(Number)
  return [ms ?? Number.NaN, nth ?? Number.NaN]
}

const isAfter = (one: string, other: string): boolean => {
  const [[ms, nth], [otherMs, otherNth]] = [partsOf(one), partsOf(other)]
  return ms > otherMs || (ms === otherMs && nth > otherNth)
}

const recordOf = (entry: RedisReply): LogRecord => {
  const [id, fields] = listOf(entry)
  const place = textOf(id) ?? ''
  return { place, at: partsOf(place)[0], text: textOf(listOf(fields)[1]) ?? '' }
}

const millisecondsOf = (reply: RedisReply | undefined): number => {
  const [seconds, microseconds] = listOf(reply).map((each) => Number(textOf(each)))
  return (seconds ?? 0) * 1000 + Math.floor((microseconds ?? 0) / 1000)
}

/** Maximum number of rollouts per request. Replies are held in memory as a whole. */
const ROLLOUTS_AT_ONCE = 64

const chunks = <T>(list: readonly T[]): readonly (readonly T[])[] =>
  Array.from({ length: Math.ceil(list.length / ROLLOUTS_AT_ONCE) }, (_, i) =>
    list.slice(i * ROLLOUTS_AT_ONCE, (i + 1) * ROLLOUTS_AT_ONCE),
  )

/** Returns the result of a read, starting with a snapshot if the reader needs one. */
const readOf = (
  after: string | null,
  [base, text, entries, time]: readonly (RedisReply | undefined)[],
): E.Either<QueueFailure, LogRead> | 'behind' => {
  const found = listOf(entries).map(recordOf)
  const place = textOf(base) ?? null
  const now = Math.max(millisecondsOf(time), found.at(-1)?.at ?? 0)
  if (after !== null && found[0]?.place !== after)
    return place !== null && isAfter(place, after) ? 'behind' : lost(after)
  if (after === null && place === null && found[0]?.place !== FIRST)
    return queueFailure('absent', 'Redis has no queue of that name')
  const from = after ?? place
  const later = from === null ? found : found.filter((record) => isAfter(record.place, from))
  return E.right({
    now,
    base: place,
    records: later.slice(0, READ_AT_ONCE),
    hasMore: found.length > READ_AT_ONCE,
    ...(after === null && place !== null && { snapshot: { place, text: textOf(text) ?? '' } }),
  })
}

/**
 * Makes a queue's log on a stream of a Redis server, version 6.2 or newer. `XADD` gives events
 * their order and time, all clients read them in that order, and rollouts are fields of a hash.
 * All changes are atomic.
 *
 * Durability is that of Redis: with `appendonly yes` acknowledged events survive a restart of the
 * server. Data that is missing after a restart is detected: `lost`.
 *
 * Errors   throws TypeError for an invalid address. Operations return `Left(QueueFailure)`:
 *          `package` without `@redis/client`, `unreachable`, `memory` for a server without space,
 *          `refused`, `absent` or `lost`.
 * Effects  opens a connection with the first call, and a second one to wait for changes.
 * Source   Redis Streams.
 *
 * @example
 * openRolloutQueue(redisQueueLog({ url: 'redis://127.0.0.1:6379', name: 'run-1' }), { settings: { groupSize: 8, capacity: 64 } })
 */
export const redisQueueLog = (options: RedisQueueLogOptions): QueueLog => {
  checkOptions('redisQueueLog', options, REDIS_QUEUE_LOG_OPTIONS)
  const { url, name, answerMs = 30_000, timers = liveTimers, load } = options
  const rules = { url, answerMs, timers, ...(load !== undefined && { load }) }
  const main = redisConnection(rules)
  const listener = redisConnection(rules)
  const log = `tandem:{${name}}:log`
  const snapshot = `tandem:{${name}}:snapshot`
  const rollouts = `tandem:{${name}}:rollouts`
  const command = (each: RedisCommand): TE.TaskEither<QueueFailure, RedisReply> =>
    pipe(
      main.send([each]),
      TE.map(([reply]) => reply ?? null),
    )
  /** Runs commands in one transaction. */
  const together = (commands: readonly RedisCommand[]): TE.TaskEither<QueueFailure, readonly RedisReply[]> =>
    pipe(
      main.send([['MULTI'], ...commands, ['EXEC']]),
      TE.map((replies) => listOf(replies.at(-1))),
    )
  const read: QueueLog['read'] = (after) =>
    pipe(
      command(['EVAL', READ, '2', log, snapshot, after ?? '-', String(READ_AT_ONCE + 1)]),
      TE.map(listOf),
      TE.chain((replies) => {
        const found = readOf(after, replies)
        return found === 'behind' ? read(null) : TE.fromEither(found)
      }),
    )
  const nothing = TE.map((): void => undefined)
  return {
    create: (text) => nothing(command(['EVAL', CREATE, '1', log, text])),
    read,
    append: (text, rollout) => {
      const add = ['XADD', log, '*', 't', text]
      return nothing(
        rollout === undefined ? command(add) : together([['HSET', rollouts, rollout.name, rollout.bytes], add]),
      )
    },
    compact: ({ place, text }, base) =>
      base !== null && !isAfter(place, base)
        ? TE.right(undefined)
        : nothing(command(['EVAL', COMPACT, '2', log, snapshot, base ?? '', place, text])),
    rollouts: (names) =>
      pipe(
        chunks(names),
        TE.traverseSeqArray((some) => command(['HMGET', rollouts, ...some])),
        TE.map((replies) =>
          replies.flatMap((reply) => listOf(reply).map((each) => (each instanceof Uint8Array ? each : undefined))),
        ),
      ),
    rolloutNames: pipe(
      command(['HKEYS', rollouts]),
      TE.map((reply) => listOf(reply).flatMap((each) => textOf(each) ?? [])),
    ),
    forget: (names) =>
      pipe(
        chunks(names),
        TE.traverseSeqArray((some) => command(['HDEL', rollouts, ...some])),
        nothing,
      ),
    changed: (after, limitMs) => {
      const waitMs = Math.max(1, Math.ceil(limitMs))
      return pipe(
        listener.send([['XREAD', 'BLOCK', String(waitMs), 'COUNT', '1', 'STREAMS', log, after]], { waitMs }),
        TE.map(([reply]) => (reply === null ? 'silent' : 'changed')),
      )
    },
    close: async () => {
      main.close()
      listener.close()
    },
  }
}

/** A bounded number of resources, which users lease one at a time. */
import { checkOptions, type ResourceFailure, type ResourceSpec, type Timers, unlessLate } from '@tandem-rl/base'
import { liveTimers } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { RESOURCE_POOL_OPTIONS } from '../optionKinds.js'
import { alive, emptyPlaces, evict, keepIdle, type Lease, leaseOf, type Reasoned, rest } from './places.js'
import { type AcquireOptions, begin, closedIn, type Queue, serve, waitFor } from './waitingLine.js'

export interface ResourcePoolOptions {
  /**
   * Most resources that are alive at a time, those that start and end included. Default 8;
   * `Infinity` for no limit.
   */
  readonly limit?: number
  /** Most idle resources; the one that was idle for longest ends first. Default: `limit`. */
  readonly maxIdle?: number
  /** Milliseconds after which an idle resource ends. Default 10 minutes; `Infinity` to keep it. */
  readonly idleMs?: number
  /** Milliseconds that `acquire` waits for a free place. Default 10 minutes. */
  readonly waitMs?: number
  /** Milliseconds that a start may take. Default 60,000. */
  readonly startMs?: number
  readonly timers?: Timers
}

/** Counts of a pool. `started`, `failed` and `ended` are totals since it was made. */
export interface ResourceStats {
  readonly idle: number
  readonly leased: number
  readonly starting: number
  readonly ending: number
  readonly waiting: number
  readonly started: number
  readonly failed: number
  readonly ended: number
}

/** A pool of resources of one spec. */
export interface ResourcePool<R, A = void, F extends { readonly reason: string } = ResourceFailure> {
  readonly name: string
  /**
   * Leases a resource: a kept one with the tag, an idle one for any user (if `args` is undefined),
   * or a new one. At the limit, an idle resource of another tag is ended to make room, or the call
   * waits in line.
   */
  readonly acquire: (options: AcquireOptions<A>) => TaskEither<F | ResourceFailure, Lease<R>>
  /**
   * Leases the resource that was kept under a tag, without a health check. Returns `undefined`
   * without such a resource.
   */
  readonly take: (tag: string) => Lease<R> | undefined
  /**
   * Starts idle resources until there are `count`, within the limit. `Left` with the first failure.
   */
  readonly warm: (count: number, args: A) => TaskEither<F | ResourceFailure, void>
  readonly stats: () => ResourceStats
  /**
   * Returns the most resources that were leased at once since the previous call, and starts anew
   * from those that are leased now.
   */
  readonly mostLeased: () => number
  /** Ends the idle resources. Resolves when they are gone. */
  readonly drain: () => Promise<void>
  /**
   * Refuses all further calls, ends idle resources, and leased ones when they are given back.
   * Resolves when the idle ones are gone.
   */
  readonly close: () => Promise<void>
}

const checkSizes = (options: ResourcePoolOptions): void => {
  const { limit = 1, maxIdle = 0, idleMs = 1, waitMs = 0, startMs = 1 } = options
  const problems = [
    ...(limit >= 1 ? [] : [`limit must be at least 1, got ${limit}`]),
    ...Object.entries({ maxIdle, waitMs }).flatMap(([name, value]) =>
      value >= 0 ? [] : [`${name} must be at least 0, got ${value}`],
    ),
    ...Object.entries({ idleMs, startMs }).flatMap(([name, value]) =>
      value > 0 ? [] : [`${name} must be above 0, got ${value}`],
    ),
  ]
  if (problems.length > 0) throw new RangeError(`resourcePool: ${problems.join('; ')}`)
}

/**
 * Makes a pool. Leases are exclusive: a resource has one user at a time. Waiting users are served
 * in the order in which they came. A resource that died while it was idle is replaced.
 *
 * Errors   throws RangeError for unknown options and sizes below their bounds. `acquire` and `warm`
 *          return `Left` with the failure of a start, or `Left(ResourceFailure)` for `busy`,
 *          `cancelled` and `closed`.
 * Effects  resources, until `close`.
 * Source   AgentFly `WarmPool` and `ResourceEngine`, whose waits are unbounded and whose waiters
 *          are not woken when a resource ends.
 *
 * @example
 * resourcePool({ name: 'none', start: () => async () => ({ _tag: 'Right', right: null }), end: async () => {} }).stats().idle // 0
 */
export const resourcePool = <R, A = void, F extends Reasoned = ResourceFailure>(
  spec: ResourceSpec<R, A, F>,
  options: ResourcePoolOptions = {},
): ResourcePool<R, A, F> => {
  checkOptions('resourcePool', options, RESOURCE_POOL_OPTIONS)
  checkSizes(options)
  const { limit = 8, maxIdle = limit, idleMs = 600_000, waitMs = 600_000, startMs = 60_000 } = options
  const { timers = liveTimers } = options
  const places = emptyPlaces(spec, { limit, maxIdle, idleMs, startMs, timers }, () => serve(queue))
  const queue: Queue<R, A, F> = { places, line: new Set(), stops: new Set(), starting: new Set() }
  const { idle, endings, count } = places

  const drain = async (): Promise<void> => {
    for (const each of [...idle]) void evict(places, each)
    while (endings.size > 0) await Promise.all([...endings])
  }

  return {
    name: spec.name,
    acquire: (wanted) => () => waitFor(queue, { ...wanted, waitMs: wanted.waitMs ?? waitMs }),
    take: (tag) => {
      const found = [...idle].reverse().find((each) => each.tag === tag)
      if (found === undefined) return undefined
      keepIdle(places, found)
      return leaseOf(places, found.resource, found.tag)
    },
    warm: (wanted, args) => async () => {
      while (places.door.get() === 'open' && alive(places) < Math.min(wanted, limit)) {
        const started = await begin(queue, args, new AbortController().signal)
        count.starting--
        if (E.isLeft(started)) return started
        rest(places, started.right, null)
      }
      return places.door.get() === 'closed' ? closedIn(places) : E.right(undefined)
    },
    stats: () => ({ idle: idle.size, ending: endings.size, waiting: queue.line.size, ...count }),
    mostLeased: () => {
      const most = places.mostLeased.get()
      places.mostLeased.set(count.leased)
      return most
    },
    drain,
    close: async () => {
      places.door.set('closed')
      for (const waiter of [...queue.line]) waiter.settle(closedIn(places))
      for (const stop of [...queue.stops]) stop()
      await unlessLate(Promise.all([...queue.starting]).then(drain), startMs, timers)
    },
  }
}

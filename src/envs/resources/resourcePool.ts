/**
 * A bounded number of resources, which users lease one at a time.
 *
 * This folder holds the pool under all tools that hold something, and its scopes. It does not hold the
 * runners that start processes and containers (`src/live/resources`).
 */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { ABORTED, cancellation, unlessAborted } from '../../core/cancellation.js'
import type { Timers } from '../../core/capabilities.js'
import { errorMessage } from '../../core/failure.js'
import { aNumber, aRecord, checkOptions, type OptionKinds } from '../../core/options.js'
import { type ResourceFailure, type ResourceSpec, resourceFailure } from '../../core/resource.js'
import { liveTimers } from '../../live/clock.js'

export interface ResourcePoolOptions {
  /** Most resources that are alive at a time, those that start and end included. Default 8; `Infinity` for no limit. */
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

/** A resource in use by one user. */
export interface Lease<R> {
  readonly resource: R
  /** The tag under which the resource was kept; null for a new or reset one. */
  readonly tag: string | null
  /** Gives the resource back under a tag, for the next `acquire` or `take` with the same tag. */
  readonly keep: (tag: string) => void
  /** Gives the resource back for any user: reset if its spec can, ended otherwise. Resolves when that is done. */
  readonly release: () => Promise<void>
  /** Ends the resource. Resolves when nothing of it is left. */
  readonly end: () => Promise<void>
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

export interface AcquireOptions<A> {
  readonly args: A
  /** Prefers a resource that was kept under this tag. Default: one for any user. */
  readonly tag?: string
  readonly signal?: AbortSignal
  /** Overrides the pool's `waitMs`. */
  readonly waitMs?: number
}

/** A pool of resources of one spec. */
export interface ResourcePool<R, A = void, F extends { readonly reason: string } = ResourceFailure> {
  readonly name: string
  /**
   * Leases a resource: a kept one with the tag, an idle one for any user (if `args` is undefined), or a new one. At the limit, an idle
   * resource of another tag is ended to make room, or the call waits in line.
   */
  readonly acquire: (options: AcquireOptions<A>) => TaskEither<F | ResourceFailure, Lease<R>>
  /** Leases the resource that was kept under a tag, without a health check. Returns `undefined` without such a resource. */
  readonly take: (tag: string) => Lease<R> | undefined
  /** Starts idle resources until there are `count`, within the limit. `Left` with the first failure. */
  readonly warm: (count: number, args: A) => TaskEither<F | ResourceFailure, void>
  readonly stats: () => ResourceStats
  /** Ends the idle resources. Resolves when they are gone. */
  readonly drain: () => Promise<void>
  /** Refuses all further calls, ends idle resources, and leased ones when they are given back. Resolves when the idle ones are gone. */
  readonly close: () => Promise<void>
}

interface Idle<R> {
  readonly resource: R
  readonly tag: string | null
  readonly cancel: () => void
}

interface Waiter<R, A, F> {
  readonly args: A
  readonly tag: string | null
  readonly signal: AbortSignal
  readonly settle: (result: E.Either<F | ResourceFailure, Lease<R>>) => void
  readonly isSettled: () => boolean
}

const OPTIONS: OptionKinds<ResourcePoolOptions> = {
  limit: aNumber,
  maxIdle: aNumber,
  idleMs: aNumber,
  waitMs: aNumber,
  startMs: aNumber,
  timers: aRecord,
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

/** A timer that rings after a finite time, and never after an infinite one. */
const after = (timers: Timers, ms: number, ring: () => void): (() => void) =>
  Number.isFinite(ms) ? timers.after(ms, ring) : () => {}

/**
 * Makes a pool. Leases are exclusive: a resource has one user at a time. Waiting users are served in
 * the order in which they came. A resource that died while it was idle is replaced.
 *
 * Errors   throws RangeError for unknown options and sizes below their bounds. `acquire` and `warm`
 *          return `Left` with the failure of a start, or `Left(ResourceFailure)` for `busy`,
 *          `cancelled` and `closed`.
 * Effects  resources, until `close`.
 * Source   AgentFly `WarmPool` and `ResourceEngine`, whose waits are unbounded and whose waiters are
 *          not woken when a resource ends.
 *
 * @example
 * resourcePool({ name: 'none', start: () => async () => ({ _tag: 'Right', right: null }), end: async () => {} }).stats().idle // 0
 */
export const resourcePool = <R, A = void, F extends { readonly reason: string } = ResourceFailure>(
  spec: ResourceSpec<R, A, F>,
  options: ResourcePoolOptions = {},
): ResourcePool<R, A, F> => {
  checkOptions('resourcePool', options, OPTIONS)
  checkSizes(options)
  const { limit = 8, maxIdle = limit, idleMs = 600_000, waitMs: usualWaitMs = 600_000, startMs = 60_000 } = options
  const { timers = liveTimers } = options
  const idle = new Set<Idle<R>>() // the longest idle first
  const line = new Set<Waiter<R, A, F>>()
  const endings = new Set<Promise<void>>()
  const starts = new Set<() => void>()
  const starting = new Set<Promise<unknown>>()
  const count = { leased: 0, starting: 0, started: 0, failed: 0, ended: 0 }
  let isClosed = false

  const alive = (): number => idle.size + count.leased + count.starting + endings.size
  const failed = (kind: ResourceFailure['kind'], reason: string): E.Either<ResourceFailure, never> =>
    E.left(resourceFailure(spec.name, kind, reason))

  const closed = (): E.Either<ResourceFailure, never> => failed('closed', 'the pool is closed')

  /** Keeps the place of a resource that ends until it has ended. */
  const ending = (work: Promise<void>): Promise<void> => {
    const over = (): void => {
      endings.delete(gone)
      count.ended++
      serve()
    }
    const gone = work.then(over, over) // one that fails to end is its runner's to report: the place is free
    endings.add(gone)
    return gone
  }

  const end = (resource: R): Promise<void> => ending(Promise.resolve().then(() => spec.end(resource)))

  const leave = (each: Idle<R>): void => {
    idle.delete(each)
    each.cancel()
  }

  const evict = (each: Idle<R>): Promise<void> => {
    leave(each)
    return end(each.resource)
  }

  /** Puts a resource among the idle ones, or ends it if the pool is closed. */
  const rest = (resource: R, tag: string | null): void => {
    if (isClosed) {
      void end(resource)
      return
    }
    const each: Idle<R> = { resource, tag, cancel: after(timers, idleMs, () => void evict(each)) }
    idle.add(each)
    serve()
    for (const oldest of [...idle].slice(0, Math.max(0, idle.size - maxIdle))) void evict(oldest)
  }

  const leaseOf = (resource: R, tag: string | null): Lease<R> => {
    let isOver = false
    count.leased++
    /** Does `give` at the first call only: a lease ends once. */
    const once = async (give: () => Promise<void> | void): Promise<void> => {
      if (isOver) return
      isOver = true
      count.leased--
      await give()
    }
    return {
      resource,
      tag,
      keep: (next) => void once(() => rest(resource, next)),
      end: () => once(() => end(resource)),
      release: () =>
        once(async () => {
          if (spec.reset === undefined || isClosed) return end(resource)
          count.leased++ // it takes its place while it is reset
          const reset = await spec
            .reset(resource)()
            .catch((error: unknown) => E.left(error))
          count.leased--
          return E.isLeft(reset) ? end(resource) : rest(resource, null)
        }),
    }
  }

  /**
   * Starts a resource within its time. One that comes too late is ended, and has its place until then. The caller ends the count of
   * `starting` when it counts the resource elsewhere.
   */
  const begin = async (args: A, signal: AbortSignal): Promise<E.Either<F | ResourceFailure, R>> => {
    const own = cancellation({ signal })
    starts.add(own.stop)
    let isLate = false
    const silence = after(timers, startMs, () => {
      isLate = true
      own.stop()
    })
    count.starting++
    const work = Promise.resolve()
      .then(() => spec.start(args, own.signal)())
      .catch((error: unknown) => failed('start', errorMessage(error)))
    const started = await unlessAborted(work, own.signal)
    silence()
    own.release()
    starts.delete(own.stop)
    if (started !== ABORTED) {
      count[E.isRight(started) ? 'started' : 'failed']++
      return started
    }
    count.failed++
    const gone = work.then(async (late) => {
      if (E.isRight(late)) await spec.end(late.right)
    })
    ending(gone)
    return isLate
      ? failed('start', `it did not start within ${startMs} ms`)
      : failed('cancelled', 'its start was called off')
  }

  /** Starts a resource for a waiter. If the waiter leaves, a start without arguments continues for the next user. */
  const give = async (waiter: Waiter<R, A, F>): Promise<void> => {
    const work = begin(waiter.args, waiter.args === undefined ? new AbortController().signal : waiter.signal)
    starting.add(work)
    const started = await work
    starting.delete(work)
    count.starting--
    if (E.isLeft(started)) waiter.settle(started)
    else if (waiter.isSettled() || isClosed) rest(started.right, null)
    else waiter.settle(E.right(leaseOf(started.right, null)))
    if (isClosed) waiter.settle(closed())
    serve()
  }

  /** Gives out an idle resource if it lives, and otherwise lets the waiter try again at the head of the line. */
  const check = async (each: Idle<R>, waiter: Waiter<R, A, F>): Promise<void> => {
    count.leased++ // it has its place while it is checked
    const lives = await Promise.resolve(each.resource)
      .then(async (resource) => (await spec.isAlive?.(resource)) ?? true)
      .catch(() => false)
    count.leased--
    if (isClosed) waiter.settle(closed())
    if (!lives) {
      void end(each.resource)
      if (!waiter.isSettled()) prepend(waiter)
      serve()
    } else if (waiter.isSettled()) rest(each.resource, each.tag)
    else waiter.settle(E.right(leaseOf(each.resource, each.tag)))
  }

  const prepend = (waiter: Waiter<R, A, F>): void => {
    const others = [...line]
    line.clear()
    for (const each of [waiter, ...others]) line.add(each)
  }

  const idleFor = ({ tag, args }: Waiter<R, A, F>): Idle<R> | undefined => {
    const newest = [...idle].reverse()
    const tagged = tag === null ? undefined : newest.find((each) => each.tag === tag)
    return tagged ?? (args === undefined ? newest.find((each) => each.tag === null) : undefined)
  }

  /** Serves the line as far as there are resources and places. */
  const serve = (): void => {
    if (isClosed) return
    let isBlocked = false
    for (const waiter of line) {
      const fit = idleFor(waiter)
      if (fit !== undefined) {
        line.delete(waiter)
        leave(fit)
        void check(fit, waiter)
      } else if (!isBlocked && alive() < limit) {
        line.delete(waiter)
        void give(waiter)
      } else isBlocked = true
    }
    // Each waiter needs a place: idle resources make room, the longest idle first.
    for (const oldest of [...idle].slice(0, Math.max(0, line.size - endings.size))) void evict(oldest)
  }

  const acquire =
    ({ args, tag, signal = new AbortController().signal, waitMs = usualWaitMs }: AcquireOptions<A>) =>
    (): Promise<E.Either<F | ResourceFailure, Lease<R>>> =>
      new Promise((resolve) => {
        let isSettled = false
        let silence = (): void => {}
        const settle = (result: E.Either<F | ResourceFailure, Lease<R>>): void => {
          if (isSettled) return
          isSettled = true
          silence()
          signal.removeEventListener('abort', onAbort)
          line.delete(waiter)
          resolve(result)
        }
        const onAbort = (): void => settle(failed('cancelled', 'nobody waits for it any more'))
        const waiter = { args, tag: tag ?? null, signal, settle, isSettled: () => isSettled }
        if (isClosed) return settle(closed())
        if (signal.aborted) return onAbort()
        signal.addEventListener('abort', onAbort, { once: true })
        line.add(waiter)
        serve()
        if (!line.has(waiter)) return // being started, within its own time
        const busy = (): void =>
          settle(failed('busy', `all ${limit} are in use, and none was free within ${waitMs} ms`))
        if (waitMs === 0) busy()
        else silence = after(timers, waitMs, () => line.has(waiter) && busy())
      })

  const drain = async (): Promise<void> => {
    for (const each of [...idle]) void evict(each)
    while (endings.size > 0) await Promise.all([...endings])
  }

  /** Waits for running work, at most for the time limit of a start, in case a spec never ends it. */
  const patiently = async (work: Promise<unknown>): Promise<void> => {
    let silence = (): void => {}
    const late = new Promise<void>((resolve) => {
      silence = after(timers, startMs, resolve)
    })
    await Promise.race([work, late])
    silence()
  }

  return {
    name: spec.name,
    acquire,
    take: (tag) => {
      const found = [...idle].reverse().find((each) => each.tag === tag)
      if (found === undefined) return undefined
      leave(found)
      return leaseOf(found.resource, found.tag)
    },
    warm: (wanted, args) => async () => {
      while (!isClosed && alive() < Math.min(wanted, limit)) {
        const started = await begin(args, new AbortController().signal)
        count.starting--
        if (E.isLeft(started)) return started
        rest(started.right, null)
      }
      return isClosed ? closed() : E.right(undefined)
    },
    stats: () => ({ idle: idle.size, ending: endings.size, waiting: line.size, ...count }),
    drain,
    close: async () => {
      isClosed = true
      for (const waiter of [...line]) waiter.settle(closed())
      for (const stop of [...starts]) stop()
      await patiently(Promise.all([...starting]).then(drain))
    },
  }
}

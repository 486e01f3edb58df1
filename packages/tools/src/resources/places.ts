/**
 * The places of a pool: what is idle, leased, starting or ending, and the limit on all of them
 * together.
 */
import { type Cell, cell, type ResourceFailure, type ResourceSpec, resourceFailure, type Timers } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'

/** A resource in use by one user. */
export interface Lease<R> {
  readonly resource: R
  /** The tag under which the resource was kept; null for a new or reset one. */
  readonly tag: string | null
  /** Gives the resource back under a tag, for the next `acquire` or `take` with the same tag. */
  readonly keep: (tag: string) => void
  /**
   * Gives the resource back for any user: reset if its spec can, ended otherwise. Resolves when
   * that is done.
   */
  readonly release: () => Promise<void>
  /** Ends the resource. Resolves when nothing of it is left. */
  readonly end: () => Promise<void>
}

/** A failure of a start. */
export interface Reasoned {
  readonly reason: string
}

export interface Idle<R> {
  readonly resource: R
  readonly tag: string | null
  readonly cancel: () => void
}

/**
 * The places of a pool, which its parts share. `A` are the arguments of a start, `F` is the failure
 * of one.
 */
export interface PoolPlaces<R, A, F extends Reasoned> extends PlacesOptions {
  readonly spec: ResourceSpec<R, A, F>
  /** The longest idle first. */
  readonly idle: Set<Idle<R>>
  readonly endings: Set<Promise<void>>
  readonly count: { leased: number; starting: number; started: number; failed: number; ended: number }
  /** The most resources leased at once since it was last read. */
  readonly mostLeased: Cell<number>
  /** After `closed`, what is given back is ended. */
  readonly door: Cell<'open' | 'closed'>
  /** Called when a place or a resource has become free. */
  readonly onFree: () => void
}

interface PlacesOptions {
  readonly limit: number
  readonly maxIdle: number
  readonly idleMs: number
  readonly startMs: number
  readonly timers: Timers
}

/** Makes empty places. */
export const emptyPlaces = <R, A, F extends Reasoned>(
  spec: ResourceSpec<R, A, F>,
  options: PlacesOptions,
  onFree: () => void,
): PoolPlaces<R, A, F> => ({
  ...options,
  spec,
  idle: new Set(),
  endings: new Set(),
  count: { leased: 0, starting: 0, started: 0, failed: 0, ended: 0 },
  mostLeased: cell(0),
  door: cell<'open' | 'closed'>('open'),
  onFree,
})

/** A timer that rings after a finite time, and never after an infinite one. */
export const after = (timers: Timers, ms: number, ring: () => void): (() => void) =>
  Number.isFinite(ms) ? timers.after(ms, ring) : () => {}

/** The number of resources that are alive, those that start and end included. */
export const alive = <R, A, F extends Reasoned>(places: PoolPlaces<R, A, F>): number =>
  places.idle.size + places.count.leased + places.count.starting + places.endings.size

export const failedIn = <R, A, F extends Reasoned>(
  { spec }: PoolPlaces<R, A, F>,
  kind: ResourceFailure['kind'],
  reason: string,
): E.Either<ResourceFailure, never> => E.left(resourceFailure(spec.name, kind, reason))

/** Keeps the place of a resource that ends until it has ended. */
export const ending = <R, A, F extends Reasoned>(
  { endings, count, onFree }: PoolPlaces<R, A, F>,
  work: Promise<void>,
): Promise<void> => {
  const over = (): void => {
    endings.delete(gone)
    count.ended++
    onFree()
  }
  const gone = work.then(over, over) // one that fails to end is its runner's to report: the place is free
  endings.add(gone)
  return gone
}

/** Ends a resource. */
export const end = <R, A, F extends Reasoned>(places: PoolPlaces<R, A, F>, resource: R): Promise<void> =>
  ending(
    places,
    Promise.resolve().then(() => places.spec.end(resource)),
  )

/** Takes an idle resource out. */
export const keepIdle = <R, A, F extends Reasoned>({ idle }: PoolPlaces<R, A, F>, each: Idle<R>): void => {
  idle.delete(each)
  each.cancel()
}

/** Ends an idle resource. */
export const evict = <R, A, F extends Reasoned>(places: PoolPlaces<R, A, F>, each: Idle<R>): Promise<void> => {
  keepIdle(places, each)
  return end(places, each.resource)
}

/** Puts a resource among the idle ones, or ends it if the pool is closed. */
export const rest = <R, A, F extends Reasoned>(places: PoolPlaces<R, A, F>, resource: R, tag: string | null): void => {
  if (places.door.get() === 'closed') {
    void end(places, resource)
    return
  }
  const { idle, maxIdle, idleMs, timers } = places
  const each: Idle<R> = { resource, tag, cancel: after(timers, idleMs, () => void evict(places, each)) }
  idle.add(each)
  places.onFree()
  for (const oldest of [...idle].slice(0, Math.max(0, idle.size - maxIdle))) void evict(places, oldest)
}

/** Leases a resource, which then counts as leased until it is given back. */
export const leaseOf = <R, A, F extends Reasoned>(
  places: PoolPlaces<R, A, F>,
  resource: R,
  tag: string | null,
): Lease<R> => {
  const { count, mostLeased, spec } = places
  let isOver = false
  count.leased++
  mostLeased.set(Math.max(mostLeased.get(), count.leased))
  /** Does `give` at the first call only: a lease ends once. */
  const once = async (deliver: () => Promise<void> | void): Promise<void> => {
    if (isOver) return
    isOver = true
    count.leased--
    await deliver()
  }
  return {
    resource,
    tag,
    keep: (next) => void once(() => rest(places, resource, next)),
    end: () => once(() => end(places, resource)),
    release: () =>
      once(async () => {
        if (spec.reset === undefined || places.door.get() === 'closed') return end(places, resource)
        count.leased++ // it takes its place while it is reset
        const reset = await spec
          .reset(resource)()
          .catch((error: unknown) => E.left(error))
        count.leased--
        return E.isLeft(reset) ? end(places, resource) : rest(places, resource, null)
      }),
  }
}

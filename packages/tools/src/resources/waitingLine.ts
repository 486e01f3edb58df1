/** The users of a pool who wait for a resource, and the starts for them. */
import { ABORTED, cancellation, type ResourceFailure, unlessAborted } from '@tandem-rl/base'
import { thrownText } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import {
  after,
  alive,
  end,
  ending,
  evict,
  failedIn,
  type Idle,
  keepIdle,
  type Lease,
  leaseOf,
  type PoolPlaces,
  type Reasoned,
  rest,
} from './places.js'

export interface AcquireOptions<A> {
  readonly args: A
  /** Prefers a resource that was kept under this tag. Default: one for any user. */
  readonly tag?: string
  readonly signal?: AbortSignal
  /** Overrides the pool's `waitMs`. */
  readonly waitMs?: number
}

interface Waiter<R, A, F> {
  readonly args: A
  readonly tag: string | null
  readonly signal: AbortSignal
  readonly settle: (result: E.Either<F | ResourceFailure, Lease<R>>) => void
  readonly isSettled: () => boolean
}

/** Those who wait, and what is being started. */
export interface Queue<R, A, F extends Reasoned> {
  readonly places: PoolPlaces<R, A, F>
  readonly line: Set<Waiter<R, A, F>>
  /** Calls off each start. */
  readonly stops: Set<() => void>
  readonly starting: Set<Promise<unknown>>
}

export const closedIn = <R, A, F extends Reasoned>(places: PoolPlaces<R, A, F>): E.Either<ResourceFailure, never> =>
  failedIn(places, 'closed', 'the pool is closed')

/**
 * Starts a resource within its time. One that comes too late is ended, and has its place until
 * then. The caller ends the count of `starting` when it counts the resource elsewhere.
 */
export const begin = async <R, A, F extends Reasoned>(
  { places, stops }: Queue<R, A, F>,
  args: A,
  signal: AbortSignal,
): Promise<E.Either<F | ResourceFailure, R>> => {
  const { spec, count, timers, startMs } = places
  const own = cancellation({ signal })
  stops.add(own.stop)
  let isLate = false
  const cancelTimer = after(timers, startMs, () => {
    isLate = true
    own.stop()
  })
  count.starting++
  const work = Promise.resolve()
    .then(() => spec.start(args, own.signal)())
    .catch((error: unknown) => failedIn(places, 'start', thrownText(error)))
  const started = await unlessAborted(work, own.signal)
  cancelTimer()
  own.release()
  stops.delete(own.stop)
  if (started !== ABORTED) {
    count[E.isRight(started) ? 'started' : 'failed']++
    return started
  }
  count.failed++
  const gone = work.then(async (late) => {
    if (E.isRight(late)) await spec.end(late.right)
  })
  ending(places, gone)
  return isLate
    ? failedIn(places, 'start', `it did not start within ${startMs} ms`)
    : failedIn(places, 'cancelled', 'its start was called off')
}

/**
 * Starts a resource for a waiter. If the waiter leaves, a start without arguments continues for the
 * next user.
 */
const deliver = async <R, A, F extends Reasoned>(queue: Queue<R, A, F>, waiter: Waiter<R, A, F>): Promise<void> => {
  const { places, starting } = queue
  const work = begin(queue, waiter.args, waiter.args === undefined ? new AbortController().signal : waiter.signal)
  starting.add(work)
  const started = await work
  starting.delete(work)
  places.count.starting--
  if (E.isLeft(started)) waiter.settle(started)
  else if (waiter.isSettled() || places.door.get() === 'closed') rest(places, started.right, null)
  else waiter.settle(E.right(leaseOf(places, started.right, null)))
  if (places.door.get() === 'closed') waiter.settle(closedIn(places))
  serve(queue)
}

const prepend = <R, A, F extends Reasoned>({ line }: Queue<R, A, F>, waiter: Waiter<R, A, F>): void => {
  const others = [...line]
  line.clear()
  for (const each of [waiter, ...others]) line.add(each)
}

/**
 * Gives out an idle resource if it lives, and otherwise lets the waiter try again at the head of
 * the line.
 */
const check = async <R, A, F extends Reasoned>(
  queue: Queue<R, A, F>,
  each: Idle<R>,
  waiter: Waiter<R, A, F>,
): Promise<void> => {
  const { places } = queue
  places.count.leased++ // it has its place while it is checked
  const lives = await Promise.resolve(each.resource)
    .then(async (resource) => (await places.spec.isAlive?.(resource)) ?? true)
    .catch(() => false)
  places.count.leased--
  if (places.door.get() === 'closed') waiter.settle(closedIn(places))
  if (!lives) {
    void end(places, each.resource)
    if (!waiter.isSettled()) prepend(queue, waiter)
    serve(queue)
  } else if (waiter.isSettled()) rest(places, each.resource, each.tag)
  else waiter.settle(E.right(leaseOf(places, each.resource, each.tag)))
}

const idleFor = <R, A, F extends Reasoned>(
  { idle }: PoolPlaces<R, A, F>,
  { tag, args }: Waiter<R, A, F>,
): Idle<R> | undefined => {
  const newest = [...idle].reverse()
  const tagged = tag === null ? undefined : newest.find((each) => each.tag === tag)
  return tagged ?? (args === undefined ? newest.find((each) => each.tag === null) : undefined)
}

/** Serves the line as far as there are resources and places. */
export const serve = <R, A, F extends Reasoned>(queue: Queue<R, A, F>): void => {
  const { places, line } = queue
  if (places.door.get() === 'closed') return
  let isBlocked = false
  for (const waiter of line) {
    const fit = idleFor(places, waiter)
    if (fit !== undefined) {
      line.delete(waiter)
      keepIdle(places, fit)
      void check(queue, fit, waiter)
    } else if (!isBlocked && alive(places) < places.limit) {
      line.delete(waiter)
      void deliver(queue, waiter)
    } else isBlocked = true
  }
  // Each waiter needs a place: idle resources make room, the longest idle first.
  for (const oldest of [...places.idle].slice(0, Math.max(0, line.size - places.endings.size)))
    void evict(places, oldest)
}

/** Waits in line for a resource. */
export const waitFor = <R, A, F extends Reasoned>(
  queue: Queue<R, A, F>,
  { args, tag, signal = new AbortController().signal, waitMs }: AcquireOptions<A> & { readonly waitMs: number },
): Promise<E.Either<F | ResourceFailure, Lease<R>>> =>
  new Promise((resolve) => {
    const { places, line } = queue
    let isSettled = false
    let cancelTimer = (): void => {}
    const settle = (result: E.Either<F | ResourceFailure, Lease<R>>): void => {
      if (isSettled) return
      isSettled = true
      cancelTimer()
      signal.removeEventListener('abort', onAbort)
      line.delete(waiter)
      resolve(result)
    }
    const onAbort = (): void => settle(failedIn(places, 'cancelled', 'the request was cancelled'))
    const waiter = { args, tag: tag ?? null, signal, settle, isSettled: () => isSettled }
    if (places.door.get() === 'closed') return settle(closedIn(places))
    if (signal.aborted) return onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    line.add(waiter)
    serve(queue)
    if (!line.has(waiter)) return // being started, within its own time
    const busy = (): void =>
      settle(failedIn(places, 'busy', `all ${places.limit} are in use, and none was free within ${waitMs} ms`))
    if (waitMs === 0) busy()
    else cancelTimer = after(places.timers, waitMs, () => line.has(waiter) && busy())
  })

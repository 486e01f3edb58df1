/**
 * Environments that tools and rewards hold: resources of a pool, each bound to a call, a
 * conversation, a group or the run.
 */

import {
  ABORTED,
  cancellation,
  checkOptions,
  type Limiter,
  limiter,
  type ResourceFailure,
  type ResourceScope,
  type ResourceSpec,
  resourceFailure,
  unlessAborted,
} from '@tandem-rl/base'
import { liveTimers, thrownText } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import type { Episode, SharedEnvironment } from 'tandem-rl/envs'
import { TOOL_ENVIRONMENT_OPTIONS } from '../optionKinds.js'
import type { Lease } from './places.js'
import { type ResourcePool, type ResourcePoolOptions, resourcePool } from './resourcePool.js'

export interface ToolEnvironmentOptions<R> extends Omit<ResourcePoolOptions, 'limit'> {
  /** Most environments that are alive at a time. Default 8. */
  readonly poolSize?: number
  /** The lifetime of a lease. Default `chain`: all calls of a conversation and its reward. */
  readonly scope?: ResourceScope
  /**
   * Prepares an environment for its user, such as with the arguments of the row (`episode.task`).
   * An exception is a failure to start.
   */
  readonly prepare?: (environment: R, episode: Episode | undefined) => Promise<void>
  /**
   * Milliseconds after which an unused environment of an abandoned conversation is given back.
   * Default 10 minutes.
   */
  readonly holdMs?: number
}

/** A bounded number of environments and their users. */
export interface ToolEnvironment<R> extends SharedEnvironment<R> {
  readonly name: string
  readonly pool: ResourcePool<R>
  /** Gives back what an episode held: at once, even if a call still uses it. */
  readonly release: (episode: Episode) => void
  /** Ends all environments, those that are being prepared included. Resolves when they are gone. */
  readonly close: () => Promise<void>
}

/** The environment of one user. */
interface Holding<R> {
  readonly turns: Limiter
  /** The conversations that used it. */
  readonly chains: Set<string>
  lease: Lease<R> | undefined
  state: 'open' | 'dead' | 'over'
  cancelTimer: () => void
}

const keyOf = (scope: ResourceScope, { chain, group }: Episode): string => {
  if (scope === 'run') return 'run'
  return scope === 'group' ? `group ${group}` : `chain ${chain}`
}

type Failed = (kind: ResourceFailure['kind'], reason: string) => E.Either<ResourceFailure, never>

/**
 * Runs preparations of leased environments. `stop` calls them off, and resolves when none is left.
 */
const preparations = <R>(failed: Failed) => {
  const stops = new Map<Promise<unknown>, () => void>()
  const ran = async (lease: Lease<R>, signal: AbortSignal, work: () => Promise<void>) => {
    const done = Promise.resolve()
      .then(work)
      .then(() => E.right(lease))
      .catch((error: unknown) => failed('start', `it could not be prepared: ${thrownText(error)}`))
    const ended = await unlessAborted(done, signal)
    if (ended !== ABORTED && E.isRight(ended)) return ended
    void lease.end()
    return ended === ABORTED ? failed('cancelled', 'its preparation was called off') : ended
  }
  return {
    /** Prepares an environment. If its user leaves or the work fails, the environment is ended. */
    run: async (
      lease: Lease<R>,
      signal: AbortSignal,
      work: () => Promise<void>,
    ): Promise<E.Either<ResourceFailure, Lease<R>>> => {
      const own = cancellation({ signal })
      const result = ran(lease, own.signal, work)
      stops.set(result, own.stop)
      const ended = await result
      stops.delete(result)
      own.release()
      return ended
    },
    stop: async (): Promise<void> => {
      for (const stop of stops.values()) stop()
      await Promise.all(stops.keys())
    },
  }
}

/**
 * Makes a pool of environments for tools. Tools and rewards that are given the same value share the
 * environment of their conversation.
 *
 * Errors   throws RangeError for unknown options and sizes below their bounds.
 * Effects  environments, until `close`.
 * Source   AgentFly's stateful tools (`env_cls`, `pool_size`), which leak their environments when a
 *          conversation fails.
 *
 * @example
 * toolEnvironment({ name: 'none', start: () => async () => ({ _tag: 'Right', right: null }), end: async () => {} }, { poolSize: 2 }).name // 'none'
 */
export const toolEnvironment = <R>(
  spec: ResourceSpec<R>,
  options: ToolEnvironmentOptions<R> = {},
): ToolEnvironment<R> => {
  checkOptions('toolEnvironment', options, TOOL_ENVIRONMENT_OPTIONS)
  const { poolSize = 8, scope = 'chain', prepare, holdMs = 600_000, ...rest } = options
  const { timers = liveTimers } = options
  const pool = resourcePool<R>(spec, { limit: poolSize, ...rest })
  const holdings = new Map<string, Holding<R>>()
  const failed: Failed = (kind, reason) => E.left(resourceFailure(spec.name, kind, reason))

  const preparing = preparations<R>(failed)

  const acquired = async (
    episode: Episode | undefined,
    signal: AbortSignal,
  ): Promise<E.Either<ResourceFailure, Lease<R>>> => {
    const lease = await pool.acquire({ args: undefined, signal })()
    if (E.isLeft(lease) || prepare === undefined) return lease
    return preparing.run(lease.right, signal, () => prepare(lease.right.resource, episode))
  }

  /** Runs `f`. Also returns whether the environment is still alive. */
  const played = async <T>(
    lease: Lease<R>,
    signal: AbortSignal,
    f: (environment: R) => Promise<T>,
  ): Promise<E.Either<ResourceFailure, T>> => {
    const result = await unlessAborted(f(lease.resource), signal)
    if (result === ABORTED) return failed('cancelled', 'a call did not end in time, so it was ended')
    const lives = await Promise.resolve(lease.resource).then(async (each) => (await spec.isAlive?.(each)) ?? true)
    return lives ? E.right(result) : failed('dead', 'it died')
  }

  /** Ends a holding. One in use is ended under its user, who may hang. */
  const finish = (key: string, holding: Holding<R>): void => {
    holding.state = 'over'
    holding.cancelTimer()
    if (holdings.get(key) === holding) holdings.delete(key)
    void (holding.turns.active() > 0 ? holding.lease?.end() : holding.lease?.release())
  }

  const holdingOf = (key: string): Holding<R> => {
    const known = holdings.get(key)
    if (known !== undefined) return known
    const made: Holding<R> = {
      turns: limiter(1),
      chains: new Set(),
      lease: undefined,
      state: 'open',
      cancelTimer: () => {},
    }
    holdings.set(key, made)
    return made
  }

  const useHeld = async <T>(
    episode: Episode,
    signal: AbortSignal,
    f: (environment: R) => Promise<T>,
  ): Promise<E.Either<ResourceFailure, T>> => {
    const key = keyOf(scope, episode)
    const holding = holdingOf(key)
    holding.chains.add(episode.chain)
    holding.cancelTimer()
    const result = await holding.turns.run(async (): Promise<E.Either<ResourceFailure, T>> => {
      if (holding.state === 'dead') return failed('dead', 'it died in an earlier call')
      if (holding.lease === undefined) {
        const lease = await acquired(episode, signal)
        if (E.isLeft(lease)) return lease
        if (holding.state === 'over') {
          void lease.right.release()
          return failed('cancelled', 'its conversation is over')
        }
        holding.lease = lease.right
      }
      const ended = await played(holding.lease, signal, f)
      if (E.isLeft(ended)) {
        holding.state = holding.state === 'open' ? 'dead' : holding.state
        void holding.lease.end()
      }
      return ended
    }, signal)
    if (holding.state !== 'over' && holding.turns.active() === 0) {
      holding.cancelTimer = timers.after(holdMs, () => finish(key, holding))
    }
    return result === ABORTED ? failed('cancelled', 'the request was cancelled') : result
  }

  return {
    name: spec.name,
    pool,
    use: async (episode, signal, f) => {
      if (episode !== undefined && scope !== 'call') return useHeld(episode, signal, f)
      const lease = await acquired(episode, signal)
      if (E.isLeft(lease)) return lease
      try {
        const result = await played(lease.right, signal, f)
        if (E.isLeft(result)) void lease.right.end()
        return result
      } finally {
        void lease.right.release()
      }
    },
    release: (episode) => {
      if (scope === 'call' || scope === 'run') return
      const key = keyOf(scope, episode)
      const holding = holdings.get(key)
      if (holding === undefined) return
      holding.chains.delete(episode.chain)
      if (holding.chains.size === 0) finish(key, holding)
    },
    close: async () => {
      for (const [key, holding] of [...holdings]) finish(key, holding)
      const closed = pool.close() // from here on it leases nothing
      await preparing.stop()
      await Promise.all([closed, pool.close()]) // the second one waits for the ends of the preparations
    },
  }
}

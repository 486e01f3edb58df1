/**
 * Sessions as a cache: a state is a list of commands, and a session is a container in which they
 * have already run.
 */
import { checkOptions, type ResourceFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { MLGYM_SESSIONS_OPTIONS } from '../optionKinds.js'
import type { Lease } from '../resources/places.js'
import { resourcePool } from '../resources/resourcePool.js'
import {
  type MLGym,
  type MLGymFailure,
  type MLGymOpened,
  type MLGymReply,
  type MLGymRequest,
  type MLGymSession,
  mlgymFailure,
} from './session.js'

/** The state of a session as a value: the request and the commands that were run. */
export interface MLGymPlace {
  /** Names the episode. Each episode has its own session. */
  readonly id: string
  readonly request: MLGymRequest
  readonly commands: readonly string[]
}

export interface MLGymSessions {
  /** Opens the session of a new episode. */
  readonly open: (place: MLGymPlace, signal?: AbortSignal) => Promise<E.Either<MLGymFailure, MLGymOpened>>
  /**
   * Runs a command at a place. If no session is at that place, one is opened and the commands of
   * the place are run again.
   */
  readonly step: (
    place: MLGymPlace,
    command: string,
    signal?: AbortSignal,
  ) => Promise<E.Either<MLGymFailure, MLGymReply>>
  /** Returns the number of running containers. */
  readonly alive: () => number
  /**
   * Ends all sessions, including those in use once they are returned. Await it at the end of a
   * program.
   */
  readonly close: () => Promise<void>
}

export interface MLGymSessionsOptions {
  readonly mlgym: MLGym
  /**
   * Maximum number of concurrent containers. When it is exceeded, idle ones are ended, and started
   * again for their next command. Default 8.
   */
  readonly maxSessions?: number
}

/** The result of a session, and its new place. */
interface Moved<T> {
  readonly value: T
  readonly next: MLGymPlace | 'over'
}

const nameOf = ({ id, request, commands }: MLGymPlace): string => JSON.stringify([id, request, commands])

/** Longest wait for a container: commands train models, for up to three hours each. */
const WAIT_MS = 24 * 3_600_000

const asMLGymFailure = (failure: MLGymFailure | ResourceFailure): MLGymFailure =>
  failure._tag === 'MLGymFailure' ? failure : mlgymFailure('infrastructure', failure.reason)

/**
 * Makes MLGym sessions for environments whose state is a value: each command runs in the session
 * whose place equals the state. An episode can therefore be replayed, forked and stored, at the
 * cost of running its commands again.
 *
 * An episode that has ended, failed or been dropped holds no container. Sessions end with their
 * episode, when a command fails, or when more than `maxSessions` would run, the least recently used
 * first.
 *
 * Errors   throws RangeError unless `maxSessions` is at least 1. `Left` with the failure of a
 *          command, and of kind `infrastructure` if a repeated command ends the episode.
 * Effects  holds containers until `close`.
 */
export const mlgymSessions = (options: MLGymSessionsOptions): MLGymSessions => {
  checkOptions('mlgymSessions', options, MLGYM_SESSIONS_OPTIONS)
  const { mlgym, maxSessions = 8 } = options
  const pool = resourcePool<MLGymSession, MLGymRequest, MLGymFailure>(
    { name: 'MLGym', start: (request) => mlgym.open(request), end: (session) => session.close() },
    // `mlgym` limits the time to start. A container is kept until its place is needed.
    { limit: maxSessions, startMs: WAIT_MS, waitMs: WAIT_MS, idleMs: Number.POSITIVE_INFINITY },
  )

  /** Runs the commands of a place in a new session. Returns the failure, if any. */
  const replayed = async (
    { tag, resource }: Lease<MLGymSession>,
    { commands }: MLGymPlace,
  ): Promise<E.Either<MLGymFailure, never> | undefined> => {
    if (tag !== null) return undefined
    for (const command of commands) {
      const reply = await resource.step(command)()
      if (E.isLeft(reply)) return reply
      if (!reply.right.done) continue
      const reason = `'${command}', run again, ended the episode: ${reply.right.observation}`
      return E.left(mlgymFailure('infrastructure', reason))
    }
    return undefined
  }

  /**
   * Runs `f` in the session of a place and stores the session under its new place. The session ends
   * if `f` fails or returns `over`.
   */
  const using = async <T>(
    place: MLGymPlace,
    signal: AbortSignal | undefined,
    f: (session: MLGymSession) => Promise<E.Either<MLGymFailure, Moved<T>>>,
  ): Promise<E.Either<MLGymFailure, T>> => {
    const request = { args: place.request, tag: nameOf(place), ...(signal !== undefined && { signal }) }
    const acquired = await pool.acquire(request)()
    if (E.isLeft(acquired)) return E.left(asMLGymFailure(acquired.left))
    const lease = acquired.right
    const moved = (await replayed(lease, place)) ?? (await f(lease.resource))
    if (E.isLeft(moved) || moved.right.next === 'over') await lease.end()
    else {
      const name = nameOf(moved.right.next)
      await pool.take(name)?.end() // a second session at the same place, which a replay creates, is not needed
      lease.keep(name)
    }
    return E.map(({ value }: Moved<T>) => value)(moved)
  }

  return {
    open: (place, signal) => using(place, signal, async (session) => E.right({ value: session.opened, next: place })),
    step: (place, command, signal) =>
      using(place, signal, async (session) =>
        E.map((reply: MLGymReply) => ({
          value: reply,
          next: reply.done ? ('over' as const) : { ...place, commands: [...place.commands, command] },
        }))(await session.step(command)()),
      ),
    alive: () => {
      const { idle, leased, starting } = pool.stats()
      return idle + leased + starting
    },
    close: pool.close,
  }
}

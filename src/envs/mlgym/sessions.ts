/**
 * Sessions as a cache of what was run in them: a state is its commands, and a session is where they
 * have been run already.
 */
import * as E from 'fp-ts/lib/Either.js'
import { aNumber, aRecord, checkOptions } from '../../core/options.js'
import type { ResourceFailure } from '../../core/resource.js'
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

/** A state of a session, as a value: what was asked for, and the commands that were run. */
export interface MLGymPlace {
  /** Of the episode: others have sessions of their own. */
  readonly id: string
  readonly request: MLGymRequest
  readonly commands: readonly string[]
}

export interface MLGymSessions {
  /** The session at the beginning of an episode. */
  readonly open: (place: MLGymPlace, signal?: AbortSignal) => Promise<E.Either<MLGymFailure, MLGymOpened>>
  /**
   * What a command comes to at a place. Where no session stands there, one is opened and the
   * place's commands are run again.
   */
  readonly step: (
    place: MLGymPlace,
    command: string,
    signal?: AbortSignal,
  ) => Promise<E.Either<MLGymFailure, MLGymReply>>
  /** Containers that are alive. */
  readonly alive: () => number
  /**
   * Ends all that are not in use, and those in use when they are. To be awaited at the end of a
   * program.
   */
  readonly close: () => Promise<void>
}

export interface MLGymSessionsOptions {
  readonly mlgym: MLGym
  /**
   * Containers at a time: those that wait for their next command end first, and are opened again if
   * it comes. Default 8.
   */
  readonly maxSessions?: number
}

/** What a session gave, and where it stands now. */
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
 * Sessions of MLGym for environments whose state is a value: each command is run in the session
 * that stands where the state is. So an episode can be replayed, forked and stored; what that costs
 * is running its commands again.
 *
 * An episode that has ended, failed or was forgotten holds no container: sessions end with their
 * episode, when a command fails, or when more than `maxSessions` would be alive, the longest unused
 * first.
 *
 * Errors   throws RangeError unless `maxSessions` is at least 1. `Left` with the failure of a
 *          command, and of kind `infrastructure` if a command that is run again ends the episode.
 * Effects  holds containers until `close`.
 */
export const mlgymSessions = (options: MLGymSessionsOptions): MLGymSessions => {
  checkOptions('mlgymSessions', options, { mlgym: aRecord, maxSessions: aNumber })
  const { mlgym, maxSessions = 8 } = options
  const pool = resourcePool<MLGymSession, MLGymRequest, MLGymFailure>(
    { name: 'MLGym', start: (request) => mlgym.open(request), end: (session) => session.close() },
    // `mlgym` limits the time of a start; a container is kept until its place is needed.
    { limit: maxSessions, startMs: WAIT_MS, waitMs: WAIT_MS, idleMs: Number.POSITIVE_INFINITY },
  )

  /**
   * Runs the commands of a place in a new session, and returns what went wrong, if anything did.
   */
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
   * Runs `f` in the session of a place, and says where that stands afterwards; it ends if `f` fails
   * or says so.
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
      await pool.take(name)?.end() // a second session at one place, as a replay makes it, is one too many
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

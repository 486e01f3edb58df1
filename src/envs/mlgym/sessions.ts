/** Sessions as a cache of what was run in them: a state is its commands, and a session is where they have been run already. */
import * as E from 'fp-ts/lib/Either.js'
import { ABORTED } from '../../core/cancellation.js'
import { limiter } from '../../core/limiter.js'
import { aNumber, aRecord, checkOptions } from '../../core/options.js'
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
  /** What a command comes to at a place. Where no session stands there, one is opened and the place's commands are run again. */
  readonly step: (
    place: MLGymPlace,
    command: string,
    signal?: AbortSignal,
  ) => Promise<E.Either<MLGymFailure, MLGymReply>>
  /** Containers that are alive. */
  readonly alive: () => number
  /** Ends all that are not in use, and those in use when they are. To be awaited at the end of a program. */
  readonly close: () => Promise<void>
}

export interface MLGymSessionsOptions {
  readonly mlgym: MLGym
  /** Containers at a time: those that wait for their next command end first, and are opened again if it comes. Default 8. */
  readonly maxSessions?: number
}

/** What a session gave, and where it stands now. */
interface Moved<T> {
  readonly value: T
  readonly next: MLGymPlace | 'over'
}

const nameOf = ({ id, request, commands }: MLGymPlace): string => JSON.stringify([id, request, commands])

const CANCELLED = mlgymFailure('infrastructure', 'nobody waits for the command any more')

/**
 * Sessions of MLGym for environments whose state is a value: each command is run in the session that stands where the state is. So an episode can be
 * replayed, forked and stored; what that costs is running its commands again.
 *
 * An episode that has ended, failed or was forgotten holds no container: sessions end with their episode, when a command fails, or when more than
 * `maxSessions` would be alive, the longest unused first.
 *
 * Errors   throws RangeError unless `maxSessions` is at least 1. `Left` with the failure of a command, and of kind `infrastructure` if a command
 *          that is run again ends the episode.
 * Effects  holds containers until `close`.
 */
export const mlgymSessions = (options: MLGymSessionsOptions): MLGymSessions => {
  checkOptions('mlgymSessions', options, { mlgym: aRecord, maxSessions: aNumber })
  const { mlgym, maxSessions = 8 } = options
  const places = limiter(maxSessions)
  /** Sessions that wait, the longest unused first. */
  const waiting = new Map<string, MLGymSession>()
  const ending = new Set<Promise<void>>()
  let inUse = 0
  let isClosed = false

  const end = (session: MLGymSession): Promise<void> => {
    const ended = session.close().finally(() => ending.delete(ended))
    ending.add(ended)
    return ended
  }

  const makeRoom = async (): Promise<void> => {
    while (waiting.size > 0 && waiting.size + inUse > maxSessions) {
      const [name, oldest] = waiting.entries().next().value!
      waiting.delete(name)
      await end(oldest)
    }
  }

  /** The session of a place, for this caller alone. */
  const take = async (place: MLGymPlace): Promise<E.Either<MLGymFailure, MLGymSession>> => {
    const name = nameOf(place)
    const known = waiting.get(name)
    if (known !== undefined) {
      waiting.delete(name)
      return E.right(known)
    }
    await makeRoom()
    const opened = await mlgym.open(place.request)()
    if (E.isLeft(opened)) return opened
    for (const command of place.commands) {
      const reply = await opened.right.step(command)()
      if (E.isRight(reply) && !reply.right.done) continue
      await end(opened.right)
      return E.isLeft(reply)
        ? reply
        : E.left(
            mlgymFailure('infrastructure', `'${command}', run again, ended the episode: ${reply.right.observation}`),
          )
    }
    return opened
  }

  const leave = async (place: MLGymPlace, session: MLGymSession): Promise<void> => {
    // A second session at one place, as a replay makes it, is one too many.
    if (isClosed || waiting.has(nameOf(place))) return end(session)
    waiting.set(nameOf(place), session)
    await makeRoom()
  }

  /** Runs `f` in the session of a place, and says where that stands afterwards; it ends if `f` fails or says so. */
  const using = async <T>(
    place: MLGymPlace,
    signal: AbortSignal,
    f: (session: MLGymSession) => Promise<E.Either<MLGymFailure, Moved<T>>>,
  ): Promise<E.Either<MLGymFailure, T>> => {
    const run = async (): Promise<E.Either<MLGymFailure, T>> => {
      inUse++
      const session = await take(place)
      const moved = E.isLeft(session) ? session : await f(session.right)
      inUse--
      if (E.isLeft(session)) return session
      if (E.isLeft(moved) || moved.right.next === 'over') await end(session.right)
      else await leave(moved.right.next, session.right)
      return E.map(({ value }: Moved<T>) => value)(moved)
    }
    const done = await places.run(run, signal)
    return done === ABORTED ? E.left(CANCELLED) : done
  }

  return {
    open: (place, signal = new AbortController().signal) =>
      using(place, signal, async (session) => E.right({ value: session.opened, next: place })),
    step: (place, command, signal = new AbortController().signal) =>
      using(place, signal, async (session) =>
        E.map((reply: MLGymReply) => ({
          value: reply,
          next: reply.done ? ('over' as const) : { ...place, commands: [...place.commands, command] },
        }))(await session.step(command)()),
      ),
    alive: () => waiting.size + inUse,
    close: async () => {
      isClosed = true
      const left = [...waiting.values()]
      waiting.clear()
      await Promise.all([...left.map(end), ...ending])
    },
  }
}

/** The sessions that a capture proxy knows: bounded in number, bytes and idle time. */
import type { Changing, Clock, Key } from '@tandem-rl/base'
import type { CapturedCall, CapturedReward, CapturedSession, SamplingParams, SessionEnd } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { type ApiFailure, apiFailure } from '../requests/failure.js'
import { type ResponseMemory, responseMemory } from '../requests/responseMemory.js'
import { type Answers, makeAnswers } from './continuation.js'
import type { CaptureJournal } from './journal.js'

/** Sampling that takes the place of what requests ask for. `maxTokens` is a limit. */
export type SamplingOverride = Partial<Omit<SamplingParams, 'n' | 'key'>>

/** Bounds of what a proxy holds. */
export interface CaptureLimits {
  /** Default 10,000. */
  readonly sessions: number
  /** Of all calls and metadata together, about. Default 2 GiB. */
  readonly bytes: number
  /** A session that is not finished and not used for so long is dropped. Default an hour. */
  readonly idleMs: number
}

export const DEFAULT_CAPTURE_LIMITS: CaptureLimits = { sessions: 10_000, bytes: 2 * 2 ** 30, idleMs: 3_600_000 }

/** A session and what the proxy knows besides. */
export interface LiveSession {
  readonly session: CapturedSession
  /** Known to whoever made the session, and part of its key where doors have keys. */
  readonly secret: string
  /** The index of the next call. */
  readonly next: number
  readonly running: number
  readonly bytes: number
  readonly usedAt: number
  readonly answers: Answers
  readonly responses: ResponseMemory
  /** Aborts the running calls. */
  readonly control: AbortController
  /** Number of calls that came in: each draws from a key of its own. */
  readonly wanted: number
  /** Number of calls whose `tool_choice: "required"` was treated as "auto". */
  readonly relaxed: number
  readonly key: Key | null
  readonly sampling: SamplingOverride
}

/** The initial data of a session. */
type NewSession = Pick<CapturedSession, 'id' | 'group' | 'metadata' | 'createdAt'> & {
  /** Sampling of this session's calls. Default: that of the proxy. */
  readonly sampling?: SamplingOverride
  /**
   * Random key of all calls, whatever seeds they request. Default: their seeds, else the proxy's
   * key.
   */
  readonly key?: Key
}

export interface CaptureSessions {
  /** `Left(ApiFailure)`: 409 for an id that is taken, 503 where a limit is reached. */
  readonly open: (session: NewSession, secret: string) => Promise<E.Either<ApiFailure, LiveSession>>
  readonly get: (id: string) => LiveSession | undefined
  readonly list: () => readonly LiveSession[]
  /**
   * Checks that a session accepts calls. `Left(ApiFailure)`: 409 after its end, 503 if the memory
   * limit is reached.
   */
  readonly mayCall: (live: LiveSession) => E.Either<ApiFailure, void>
  /** Registers a request, by the name of its model. Returns its number in the session. */
  readonly asks: (live: LiveSession, model: 'own' | 'other') => number
  /** Counts a call whose `tool_choice: "required"` is treated as "auto". */
  readonly relaxes: (live: LiveSession) => void
  /** A call begins: its index. */
  readonly begin: (live: LiveSession) => number
  /** A call that was begun has ended. One of a session that was dropped meanwhile is forgotten. */
  readonly ended: (live: LiveSession, call: CapturedCall) => Promise<void>
  readonly reward: (live: LiveSession, reward: CapturedReward) => Promise<void>
  readonly end: (live: LiveSession, end: SessionEnd) => Promise<void>
  readonly drop: (live: LiveSession) => Promise<void>
  readonly counts: () => {
    readonly sessions: number
    readonly bytes: number
    readonly running: number
    readonly expired: number
    /** Requests under another name than the model's. */
    readonly other_models: number
  }
}

/** About what a call takes in memory: its tokens, as often as they are held, and its messages. */
const bytesOf = ({ prompt, completions, messages, tools }: CapturedCall): number => {
  const tokens = completions.reduce((sum, { ids }) => sum + 16 * ids.length + 4 * prompt.length, 8 * prompt.length)
  return 512 + tokens + 2 * JSON.stringify([messages, tools]).length
}

/** Makes a session that can take calls, behind those that it has. */
const liveSession = (
  session: CapturedSession,
  secret: string,
  { sampling = {}, key = null }: { readonly sampling?: SamplingOverride; readonly key?: Key | null } = {},
): Changing<LiveSession> => {
  const own = 2 * (JSON.stringify(session.metadata).length - '{}'.length)
  const last = session.calls.reduce((most, { index }) => Math.max(most, index), -1)
  return {
    session,
    secret,
    next: last + 1,
    running: 0,
    bytes: session.calls.reduce((sum, call) => sum + bytesOf(call), own),
    usedAt: 0,
    answers: makeAnswers(),
    responses: responseMemory(),
    control: new AbortController(),
    wanted: last + 1,
    relaxed: 0,
    key,
    sampling,
  }
}

/**
 * Holds sessions in memory, and writes every change to a journal.
 *
 * Effects  holds sessions until they are dropped or expire. Expiry is checked whenever a session is
 *          looked up or opened.
 */
export const makeSessions = (
  limits: CaptureLimits,
  {
    clock,
    journal,
    restored,
  }: {
    readonly clock: Pick<Clock, 'now'>
    readonly journal: CaptureJournal
    /** Sessions of a continued journal, with a secret for each. */
    readonly restored: readonly { readonly session: CapturedSession; readonly secret: string }[]
  },
): CaptureSessions => {
  const sessions = new Map<string, Changing<LiveSession>>()
  let [bytes, expired, otherModels] = [0, 0, 0]
  const add = (...given: Parameters<typeof liveSession>): Changing<LiveSession> => {
    const live = liveSession(...given)
    live.usedAt = clock.now()
    bytes += live.bytes
    sessions.set(live.session.id, live)
    return live
  }
  for (const { session, secret } of restored) add(session, secret)

  const remove = async ({ session, bytes: size }: LiveSession): Promise<void> => {
    if (!sessions.delete(session.id)) return
    bytes -= size
    await journal.append({ type: 'dropped', session: session.id })
  }
  /** Sessions are in the order of their last use. */
  const sweep = (): void => {
    const before = clock.now() - limits.idleMs
    for (const live of sessions.values()) {
      if (live.usedAt > before) return
      if (live.session.end !== null || live.running > 0) continue
      expired++
      void remove(live)
    }
  }
  const use = (live: Changing<LiveSession>): Changing<LiveSession> => {
    live.usedAt = clock.now()
    sessions.delete(live.session.id)
    sessions.set(live.session.id, live)
    return live
  }
  const full = (what: string): E.Either<ApiFailure, never> =>
    E.left(apiFailure(503, `The proxy holds as many ${what} as it may: collect and delete sessions that are finished.`))

  return {
    open: async ({ sampling, key, ...session }, secret) => {
      sweep()
      if (sessions.has(session.id)) {
        return E.left({ ...apiFailure(409, `The session '${session.id}' is there already.`), type: 'ConflictError' })
      }
      if (sessions.size >= limits.sessions) return full('sessions')
      if (bytes >= limits.bytes) return full('bytes')
      const live = add({ ...session, calls: [], reward: null, end: null }, secret, {
        ...(sampling && { sampling }),
        ...(key && { key }),
      })
      await journal.append({ type: 'session', session })
      return E.right(live)
    },
    get: (id) => {
      sweep()
      const live = sessions.get(id)
      return live === undefined ? undefined : use(live)
    },
    list: () => {
      sweep()
      return [...sessions.values()]
    },
    mayCall: (live) => {
      if (live.session.end !== null) {
        return E.left({ ...apiFailure(409, `The session '${live.session.id}' is finished.`), type: 'ConflictError' })
      }
      return bytes >= limits.bytes ? full('bytes') : E.right(undefined)
    },
    asks: (live: Changing<LiveSession>, model) => {
      if (model === 'other') otherModels++
      return live.wanted++
    },
    relaxes: (live: Changing<LiveSession>) => void live.relaxed++,
    begin: (live: Changing<LiveSession>) => {
      live.running++
      return live.next++
    },
    ended: async (live: Changing<LiveSession>, call) => {
      live.running--
      if (sessions.get(live.session.id) !== live) return
      use(live)
      const size = bytesOf(call)
      live.bytes += size
      bytes += size
      live.session = { ...live.session, calls: [...live.session.calls, call].sort((a, b) => a.index - b.index) }
      await journal.append({ type: 'call', call })
    },
    reward: async (live: Changing<LiveSession>, reward) => {
      live.session = { ...live.session, reward }
      await journal.append({ type: 'reward', session: live.session.id, reward })
    },
    end: async (live: Changing<LiveSession>, end) => {
      live.session = { ...live.session, end }
      live.answers = makeAnswers()
      live.control.abort()
      await journal.append({ type: 'end', session: live.session.id, end })
    },
    drop: remove,
    counts: () => ({
      sessions: sessions.size,
      bytes,
      expired,
      other_models: otherModels,
      running: [...sessions.values()].reduce((sum, { running }) => sum + running, 0),
    }),
  }
}

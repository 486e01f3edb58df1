/** A client of a shared queue's log: it tracks the state of the queue and appends events. */
import { cell, child, type Key, pauseFor, type Timers, uniform } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import {
  answerEvent,
  applyEvent,
  type LeaseQueue,
  type QueueAnswers,
  type QueueEvent,
  type SharedQueue,
  sharedQueue,
} from './queueEvents.js'
import { type LogRecord, type QueueFailure, type QueueLog, queueFailure, type RolloutBytes } from './queueLog.js'
import type { QueueRefusal } from './queueState.js'
import { eventFromText, eventText, openingFromText, sharedQueueFromText, sharedQueueText } from './sharedQueueJson.js'

/** The settings of a client. */
export interface ClientRules {
  /** Its name, which must be unique for all time. */
  readonly client: string
  /** Returns the milliseconds of retries after which an unanswered call fails. */
  readonly patienceMs: () => number
  /** Records between snapshots. */
  readonly snapshotEvery: number
  readonly key: Key
  readonly timers: Timers
}

/** The queue as known after a read. */
export interface KnownQueue {
  /** The place of the last record read. */
  readonly place: string
  readonly shared: SharedQueue
  /** The place of the current snapshot. */
  readonly base: string | null
  readonly sinceSnapshot: number
  /** Milliseconds on the log's clock. */
  readonly now: number
}

type Event<K extends keyof QueueAnswers> = Extract<QueueEvent, { readonly _tag: K }>

export interface QueueClient {
  /** Reads new records. */
  readonly read: TaskEither<QueueFailure, KnownQueue>
  /**
   * Records an event once and returns its answer. Events that are refused or change nothing are not
   * recorded.
   */
  readonly happen: <K extends keyof QueueAnswers>(
    event: Event<K>,
    rollout?: RolloutBytes,
  ) => TaskEither<QueueFailure | QueueRefusal, QueueAnswers[K]>
  /** Replaces old records by a snapshot, if there are enough of them. */
  readonly compact: TaskEither<QueueFailure, void>
  /** Retries calls that get no answer. */
  readonly patiently: <T>(work: TaskEither<QueueFailure, T>) => TaskEither<QueueFailure, T>
  /** The place of the last record read. */
  readonly place: () => string
  readonly close: () => void
}

/** The state of a read in progress. */
interface Known {
  readonly place: string | null
  readonly shared: SharedQueue | undefined
  readonly base: string | null
  readonly sinceSnapshot: number
}

const damaged = (reason: string): E.Either<QueueFailure, never> =>
  queueFailure('damaged', `the queue's records cannot be read: ${reason}`)

/** Applies one more record to a read. */
const withRecord = (known: Known, { place, at, text }: LogRecord): E.Either<QueueFailure, Known> => {
  const sinceSnapshot = known.sinceSnapshot + 1
  if (known.shared === undefined) {
    const settings = openingFromText(text)
    if (E.isLeft(settings)) return damaged(settings.left.reason)
    return E.right({ ...known, place, sinceSnapshot, shared: sharedQueue(settings.right) })
  }
  const event = eventFromText(text)
  if (E.isLeft(event)) return damaged(event.left.reason)
  return E.right({ ...known, place, sinceSnapshot, shared: applyEvent(known.shared, { ...event.right, at }) })
}

const withSnapshot = (text: string, place: string): E.Either<QueueFailure, Known> => {
  const shared = sharedQueueFromText(text)
  return E.isLeft(shared)
    ? damaged(shared.left.reason)
    : E.right({ place, shared: shared.right, base: place, sinceSnapshot: 0 })
}

const FIRST_PAUSE_MS = 20
const LONGEST_PAUSE_MS = 5000

/** Retries with pauses that double, with jitter, until `patienceMs` is used up. */
const repeated =
  ({ patienceMs, timers, key }: ClientRules, isClosed: () => boolean) =>
  <T>(work: TaskEither<QueueFailure, T>): TaskEither<QueueFailure, T> =>
  async () => {
    let waited = 0
    for (let attempt = 1; ; attempt++) {
      if (isClosed()) return queueFailure('closed', 'the queue was closed')
      const result = await work()
      if (E.isRight(result) || result.left.kind !== 'unreachable' || waited >= patienceMs()) return result
      const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempt - 1))
      const ms = (longest * (1 + uniform(child(key, 'pause'), attempt))) / 2
      waited += ms
      await pauseFor(ms, timers)
    }
  }

/** Runs calls one after the other, in the order in which they were made. */
export const inTurn = (): (<T>(work: () => Promise<T>) => Promise<T>) => {
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    const mine = last.then(work)
    last = mine.catch(() => undefined) // the caller gets the error
    return mine
  }
}

/** Reads all new records, in chunks. */
const readOn = async (
  log: QueueLog,
  known: Known,
  patiently: QueueClient['patiently'],
): Promise<E.Either<QueueFailure, KnownQueue>> => {
  let next = known
  while (true) {
    const read = await patiently(log.read(next.place))()
    if (E.isLeft(read)) return read
    const { snapshot, base, records, hasMore, now } = read.right
    if (snapshot !== undefined) {
      const begun = withSnapshot(snapshot.text, snapshot.place)
      if (E.isLeft(begun)) return begun
      next = begun.right
    }
    for (const record of records) {
      const one = withRecord(next, record)
      if (E.isLeft(one)) return one
      next = one.right
    }
    if (hasMore) continue
    const { place, shared, sinceSnapshot } = next
    if (place === null || shared === undefined) return damaged('the log is empty')
    return E.right({ place, shared, sinceSnapshot, base, now })
  }
}

const isSameQueue = (one: LeaseQueue, other: LeaseQueue): boolean => one === other

/**
 * Makes a client of a log.
 *
 * Effects  reads and writes the log, one call at a time.
 * Cost     each call reads the records that others appended since the last call.
 */
export const queueClient = (log: QueueLog, rules: ClientRules): QueueClient => {
  const known = cell<Known>({ place: null, shared: undefined, base: null, sinceSnapshot: 0 })
  let isClosed = false
  let event = -1
  const patiently = repeated(rules, () => isClosed)
  const turn = inTurn()

  const read = async (): Promise<E.Either<QueueFailure, KnownQueue>> => {
    const found = await readOn(log, known.get(), patiently)
    if (E.isRight(found)) known.set(found.right)
    return found
  }

  const happen = async (
    what: QueueEvent,
    rollout: RolloutBytes | undefined,
  ): Promise<E.Either<QueueFailure | QueueRefusal, QueueAnswers[keyof QueueAnswers]>> => {
    const before = await read()
    if (E.isLeft(before)) return before
    const { shared, now } = before.right
    const expected = answerEvent(shared, { client: rules.client, at: now, what })
    if (E.isLeft(expected)) return expected
    const [answer, queue] = expected.right
    if (isSameQueue(queue, shared.queue) && what._tag !== 'Begin') return E.right(answer)
    const mine = ++event
    const appended = await patiently(log.append(eventText({ client: rules.client, event: mine, what }), rollout))()
    if (E.isLeft(appended)) return appended
    const after = await read()
    if (E.isLeft(after)) return after
    const memory = after.right.shared.clients.get(rules.client)
    return memory?.event === mine ? memory.answer : queueFailure('lost', 'a recorded event is missing from the log')
  }

  const compact = async (): Promise<E.Either<QueueFailure, void>> => {
    const { shared, place, base, sinceSnapshot } = known.get()
    if (shared === undefined || place === null || sinceSnapshot < rules.snapshotEvery) return E.right(undefined)
    const text = sharedQueueText(shared)
    if (E.isLeft(text)) return damaged(text.left.reason)
    const compacted = await patiently(log.compact({ place, text: text.right }, base))()
    if (E.isRight(compacted)) known.update((now) => ({ ...now, base: place, sinceSnapshot: 0 }))
    return compacted
  }

  return {
    read: () => turn(read),
    happen: (what, rollout) => () => turn(() => happen(what, rollout)) as Promise<E.Either<never, never>>, // the answer of its tag, by `answerEvent`
    compact: () => turn(compact),
    patiently,
    place: () => known.get().place ?? '',
    close: () => {
      isClosed = true
    },
  }
}

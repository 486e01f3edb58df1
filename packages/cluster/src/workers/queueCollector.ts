/**
 * The trainer's side of a shared queue: adds tasks, returns batches of whole groups, and tracks
 * outcomes for checkpoints.
 */
import {
  ABORTED,
  type Cell,
  cell,
  checkOptions,
  type FormatFailure,
  type Json,
  problemList,
  unlessAborted,
} from '@tandem-rl/base'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { CollectedBatch, TokenAction } from 'tandem-rl'
import type { PlayedRollout } from 'tandem-rl/async'
import { concat, type TensorDict } from 'tandem-rl/tensordict'
import { z } from 'zod'
import { COLLECT_FROM_QUEUE_OPTIONS } from '../optionKinds.js'
import type { TaskEnd } from '../queues/queueEvents.js'
import { queueFailure } from '../queues/queueLog.js'
import { refuseQueueChange } from '../queues/queueState.js'
import type { QueueProblem, RolloutQueue, TakenRollouts, TrainerQueue } from '../queues/rolloutQueue.js'
import { decodeRollout } from './rolloutBytes.js'
import { waitNotices } from './waitNotices.js'

/** The state of the queue in a checkpoint, as plain JSON. */
export interface QueuePosition {
  /** Number of groups trained on in all. */
  readonly trained: number
  /** Outcomes that the queue may not have recorded yet. */
  readonly ends: readonly TaskEnd[]
}

/** The position at the start of a run. */
export const QUEUE_START: QueuePosition = { trained: 0, ends: [] }

const natural = z.int().min(0)
const positionSchema: z.ZodType<QueuePosition> = z.object({
  trained: natural,
  ends: z.array(
    z.object({
      ticket: natural,
      how: z.discriminatedUnion('_tag', [
        z.object({ _tag: z.literal('Trained'), step: z.number() }),
        z.object({
          _tag: z.literal('Dropped'),
          cause: z.enum(['stale', 'failed', 'abandoned', 'filtered', 'cancelled']),
          reason: z.string(),
        }),
      ]),
    }),
  ),
})

/**
 * Parses the position of a checkpoint.
 *
 * Errors   `Left(FormatFailure)` with all problems. Never throws.
 *
 * @example
 * parseQueuePosition({ trained: 0, ends: [] }) // right({ trained: 0, ends: [] })
 */
export const parseQueuePosition = (json: unknown): E.Either<FormatFailure, QueuePosition> => {
  const found = positionSchema.safeParse(json)
  return found.success
    ? E.right(found.data)
    : E.left({
        _tag: 'FormatFailure',
        format: 'tandem queue position',
        reason: problemList(found.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)),
      })
}

export interface QueueCollectorOptions {
  readonly queue: TrainerQueue & Pick<RolloutQueue, 'look' | 'changed' | 'overdueWorkers'>
  /**
   * Returns task `ticket`, counted from 0, as sent to workers, or `undefined` after the last one.
   * Equal numbers must give equal tasks.
   */
  readonly tasks: (ticket: number) => Json | undefined
  /** Number of groups per batch. */
  readonly groups: number
  /** The position in the checkpoint. Default: the start of a run. */
  readonly position?: QueuePosition
  /** Milliseconds without any event in the queue after which collecting fails. Default 600,000. */
  readonly idleMs?: number
  /** Called while a batch waits: no worker takes a rollout, or one sends no heartbeat. */
  readonly onNotice?: (message: string) => void
  /** Ends the wait for a batch when it aborts: `next` then fails with kind `closed`. */
  readonly signal?: AbortSignal
}

/** Whole groups from the queue. */
export interface QueueBatch<O, P = TokenAction> {
  readonly _tag: 'Batch'
  readonly batch: Owned<CollectedBatch<O, P>>
  /** The tickets of its groups, in order, for `end`. */
  readonly tickets: readonly number[]
  /** Trajectories of the batch that were cut off at the token budget. */
  readonly cut: readonly number[]
  /** Number of turns played for it. */
  readonly turns: number
}

/** The end of collecting: no tasks are left, except those in batches. */
export interface QueueEnd {
  readonly _tag: 'End'
}

export interface QueueCollector<O, P = TokenAction> {
  /**
   * Returns the next batch for a trainer with weights of a version. The last one may have fewer
   * groups. Allows one call at a time.
   */
  readonly next: (version: number) => TE.TaskEither<QueueProblem, QueueBatch<O, P> | QueueEnd>
  /** Records the outcomes of a batch's groups. `stored` sends them to the queue. */
  readonly end: (ends: readonly TaskEnd[]) => void
  /** Returns the position to save in the checkpoint. */
  readonly position: () => QueuePosition
  /** Sends the outcomes in a durably saved position to the queue, and forgets these groups. */
  readonly stored: (position: QueuePosition) => TE.TaskEither<QueueProblem, void>
  /**
   * Frees the taken groups that are not in a batch. A trainer that resumes from a checkpoint gets
   * them again.
   */
  readonly release: () => void
}

/** A group with decoded rollouts. */
interface ReadGroup<O, P> {
  readonly task: number
  readonly members: readonly PlayedRollout<O, P>[]
  readonly turns: number
}

/** Decodes the rollouts of a group. A group with a damaged rollout is dropped. */
const readGroup = <O, P = TokenAction>({ ticket, rollouts }: TakenRollouts): E.Either<TaskEnd, ReadGroup<O, P>> => {
  const read = rollouts.map(({ bytes }) => decodeRollout<O, P>(bytes))
  const members = read.flatMap((each) => (E.isRight(each) ? [each.right] : []))
  const bad = read.find(E.isLeft)
  if (bad === undefined) {
    return E.right({ task: ticket, members, turns: members.reduce((sum, { turns }) => sum + turns, 0) })
  }
  for (const { rows } of members) rows.release()
  return E.left({
    ticket,
    how: { _tag: 'Dropped', cause: 'failed', reason: `a rollout is damaged: ${bad.left.reason}` },
  })
}

/** Draws tasks until the queue is full or no tasks are left. */
const fill =
  ({ queue, tasks }: QueueCollectorOptions): TE.TaskEither<QueueProblem, 'full' | 'complete'> =>
  async () => {
    while (true) {
      const found = await queue.look()
      if (E.isLeft(found)) return found
      const { pending, settings, nextTicket } = found.right
      if (pending.size >= settings.capacity) return E.right('full')
      const task = tasks(nextTicket)
      if (task === undefined) return E.right('complete')
      const added = await queue.add(nextTicket, task)()
      if (E.isLeft(added)) return added
    }
  }

/** Maximum single wait in milliseconds, because leases expire without an event. */
const LONGEST_WAIT_MS = 5000

/** The state of a collector between calls. */
interface Held<O, P> {
  /** Groups that were taken and are not in a batch yet. */
  readonly hand: readonly ReadGroup<O, P>[]
  /** Tickets in batches, without an outcome. */
  readonly given: ReadonlySet<number>
  readonly position: QueuePosition
}

const withEnds = <O, P = TokenAction>(held: Held<O, P>, ends: readonly TaskEnd[]): Held<O, P> => ({
  ...held,
  given: new Set([...held.given].filter((ticket) => !ends.some((end) => end.ticket === ticket))),
  position: {
    trained: held.position.trained + ends.filter(({ how }) => how._tag === 'Trained').length,
    ends: [...held.position.ends, ...ends],
  },
})

/** Takes complete groups, until there are enough for a batch. */
const takeInto =
  <O, P>({ queue, groups }: QueueCollectorOptions, held: Cell<Held<O, P>>): TE.TaskEither<QueueProblem, void> =>
  async () => {
    const missing = groups - held.get().hand.length
    const taken = missing > 0 ? await queue.take(missing)() : E.right([])
    if (E.isLeft(taken)) return taken
    for (const group of taken.right) {
      const read = readGroup<O, P>(group)
      held.update((now) => (E.isLeft(read) ? withEnds(now, [read.left]) : { ...now, hand: [...now.hand, read.right] }))
    }
    return E.right(undefined)
  }

/** Makes a batch of the taken groups. */
const deliver = <O, P = TokenAction>(held: Cell<Held<O, P>>): QueueBatch<O, P> => {
  const { hand, given } = held.get()
  const members = hand.flatMap((group) => group.members)
  const parts = members.map(({ rows }) => rows.value as TensorDict)
  const batch = own(scope(() => concat(parts) as unknown as CollectedBatch<O, P>)) // the same entries
  for (const { rows } of members) rows.release()
  const tickets = hand.map(({ task }) => task)
  held.update((now) => ({ ...now, hand: [], given: new Set([...given, ...tickets]) }))
  return {
    _tag: 'Batch',
    batch,
    tickets,
    cut: members.flatMap(({ isCut }, i) => (isCut ? [i] : [])),
    turns: hand.reduce((sum, { turns }) => sum + turns, 0),
  }
}

/** Returns the next batch once there are enough groups or no more will come. */
const nextBatch =
  <O, P>(
    options: QueueCollectorOptions,
    held: Cell<Held<O, P>>,
  ): TE.TaskEither<QueueProblem, QueueBatch<O, P> | QueueEnd> =>
  async () => {
    const { queue, groups, idleMs = 600_000, signal = new AbortController().signal, onNotice } = options
    const report = onNotice && waitNotices(queue, onNotice)
    for (let silentMs = 0; silentMs < idleMs; ) {
      const filled = await fill(options)()
      if (E.isLeft(filled)) return filled
      const taken = await takeInto(options, held)()
      if (E.isLeft(taken)) return taken
      if (held.get().hand.length >= groups) return E.right(deliver(held))
      const found = await queue.look()
      if (E.isLeft(found)) return found
      const { pending, settings } = found.right
      const isWaiting = pending.some(({ stage }) => stage !== 'training')
      if (!isWaiting && filled.right === 'complete')
        return E.right(held.get().hand.length > 0 ? deliver(held) : { _tag: 'End' })
      if (!isWaiting)
        return refuseQueueChange(
          'full',
          `all of ${settings.capacity} groups were taken: store a checkpoint, or make the queue larger`,
        )
      await report?.(found.right, silentMs)
      const waitMs = Math.min(LONGEST_WAIT_MS, settings.leaseMs / 2, idleMs - silentMs)
      const changed = await unlessAborted(queue.changed(waitMs)(), signal)
      if (changed === ABORTED) return queueFailure('closed', 'the wait for a batch was cancelled')
      if (E.isLeft(changed)) return changed
      silentMs = changed.right === 'silent' ? silentMs + waitMs : 0
    }
    return queueFailure('silent', `nothing has happened in the queue for ${idleMs} ms: is there a worker?`)
  }

const optionProblems = ({ groups, idleMs = 1 }: QueueCollectorOptions): readonly string[] => [
  ...(Number.isSafeInteger(groups) && groups >= 1 ? [] : [`groups must be an integer of at least 1, got ${groups}`]),
  ...(idleMs > 0 && Number.isFinite(idleMs) ? [] : [`idleMs must be above 0, got ${idleMs}`]),
]

/**
 * Starts to collect from a shared queue as its trainer, or resumes from a checkpoint.
 *
 * The following order loses nothing and trains on nothing twice, whenever the trainer dies: train
 * on a batch, call `end` for its groups, write a checkpoint with `position` and the trained
 * weights, and call `stored` once it is on disk. A trainer that resumes sends the outcomes in its
 * checkpoint to the queue. Taken groups that are not in the checkpoint come out again, because the
 * weights trained on them are gone. Ended groups count toward the capacity until `stored`, so the
 * capacity must exceed the groups trained on between two checkpoints.
 *
 * Errors   throws RangeError that lists all invalid options. `Left(QueueRefusal)` of kind
 *          `superseded` for a checkpoint of another run, or one that is older than the outcomes
 *          recorded in the queue; `Left(QueueFailure)`. `next` fails with kind `silent` after
 *          `idleMs` without an event, and with `full` if groups that are not stored fill the
 *          queue. A group with a damaged rollout is dropped.
 * Effects  draws tasks into the queue. The caller must release the batches.
 */
export const collectFromQueue = <O, P = TokenAction>(
  options: QueueCollectorOptions,
): TE.TaskEither<QueueProblem, QueueCollector<O, P>> => {
  checkOptions('collectFromQueue', options, COLLECT_FROM_QUEUE_OPTIONS)
  const problems = optionProblems(options)
  if (problems.length > 0) throw new RangeError(`collectFromQueue: ${problems.join('; ')}`)
  const { queue, position = QUEUE_START } = options
  const held = cell<Held<O, P>>({ hand: [], given: new Set(), position: { trained: position.trained, ends: [] } })
  const collector: QueueCollector<O, P> = {
    next: (version) =>
      pipe(
        queue.evict(version),
        TE.chain(() => nextBatch(options, held)),
      ),
    end: (ends) => {
      const { given } = held.get()
      const strange = ends.filter(({ ticket }) => !given.has(ticket)).map(({ ticket }) => ticket)
      if (strange.length > 0 || new Set(ends.map(({ ticket }) => ticket)).size < ends.length)
        throw new RangeError(
          `end: expected groups of batches that have not ended yet, got ${ends.map(({ ticket }) => ticket).join(', ')}`,
        )
      held.update((now) => withEnds(now, ends))
    },
    position: () => held.get().position,
    stored: ({ ends }) =>
      pipe(
        ends.length === 0 ? TE.right(undefined) : queue.settle(ends),
        TE.map(() =>
          held.update((now) => {
            const left = now.position.ends.filter((end) => !ends.some(({ ticket }) => ticket === end.ticket))
            return { ...now, position: { ...now.position, ends: left } }
          }),
        ),
      ),
    release: () => {
      for (const { rows } of held.get().hand.flatMap(({ members }) => members)) rows.release()
      held.update((now) => ({ ...now, hand: [] }))
    },
  }
  return pipe(
    queue.begin(position.ends, position.trained),
    TE.map(() => collector),
  )
}

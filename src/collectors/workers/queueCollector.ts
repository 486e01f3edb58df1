/** The trainer's end of a shared queue: tasks go in, batches of whole groups come out, and a checkpoint knows what became of them. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { type Cell, cell } from '../../core/cell.js'
import { type FormatFailure, problemList } from '../../core/failure.js'
import { aFunction, aNumber, aRecord, checkOptions, type OptionKinds } from '../../core/options.js'
import type { Json } from '../../data/codecs/plainValues.js'
import type { TokenAction } from '../../data/policy.js'
import type { Owned } from '../../engine/scope.js'
import type { TaskEnd } from '../queues/queueEvents.js'
import { queueFailure } from '../queues/queueLog.js'
import { refuseQueueChange } from '../queues/queueState.js'
import type { QueueProblem, RolloutQueue, TakenRollouts, TrainerQueue } from '../queues/rolloutQueue.js'
import type { PlayedRollout } from '../rollouts/rollout.js'
import { joinGroups } from '../rollouts/rolloutBatch.js'
import type { CollectedBatch } from '../rollouts/turnRows.js'
import { decodeRollout } from './rolloutBytes.js'

/** What a checkpoint knows of the queue: plain JSON. */
export interface QueuePosition {
  /** Groups that were learned from, in all. */
  readonly trained: number
  /** How those ended of which the queue may not know yet. */
  readonly ends: readonly TaskEnd[]
}

/** The position at the beginning of a run. */
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
 * The position that a checkpoint has.
 *
 * Errors   `Left(FormatFailure)` with what is wrong. Never throws.
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
  readonly queue: TrainerQueue & Pick<RolloutQueue, 'look' | 'changed'>
  /** The task with a number, counted from 0, as workers are told it; undefined after the last one. Equal numbers must give equal tasks. */
  readonly tasks: (ticket: number) => Json | undefined
  /** Groups of a batch. */
  readonly groups: number
  /** Where the checkpoint stood. Default: the beginning. */
  readonly position?: QueuePosition
  /** Collecting fails when nothing has happened in the queue for so long. Default 600,000. */
  readonly silenceMs?: number
}

/** Whole groups from the queue. */
export interface QueueBatch<O, P = TokenAction> {
  readonly _tag: 'Batch'
  readonly batch: Owned<CollectedBatch<O, P>>
  /** The tickets of its groups, in their order: what `end` is told about. */
  readonly tickets: readonly number[]
  /** Trajectories of the batch that were cut off because their tokens were used up. */
  readonly cut: readonly number[]
  /** Turns that were played for it. */
  readonly turns: number
}

/** All tasks have ended, or wait to be told as ended. */
export interface QueueEnd {
  readonly _tag: 'End'
}

export interface QueueCollector<O, P = TokenAction> {
  /** The next batch for a trainer whose weights have a version; the last one may have fewer groups. To be asked for one at a time. */
  readonly next: (version: number) => TE.TaskEither<QueueProblem, QueueBatch<O, P> | QueueEnd>
  /** Says how groups of a batch ended. The queue is told when that is stored. */
  readonly end: (ends: readonly TaskEnd[]) => void
  /** What belongs into the checkpoint now. */
  readonly position: () => QueuePosition
  /** To be called when a position has been stored for good: the queue is told what ended, and forgets those groups. */
  readonly stored: (position: QueuePosition) => TE.TaskEither<QueueProblem, void>
  /** Frees groups that were taken and not given out: a trainer that goes on from a checkpoint gets them again. */
  readonly release: () => void
}

/** A group whose rollouts were read. */
interface ReadGroup<O, P> {
  readonly task: number
  readonly members: readonly PlayedRollout<O, P>[]
  readonly turns: number
}

/** Reads the rollouts of a group; a group with one that is damaged is not learned from. */
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

/** Draws tasks until the queue is full or there are no more. */
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

/** The longest wait at a time: leases run out without a word. */
const LONGEST_WAIT_MS = 5000

/** What a collector holds between its calls. */
interface Held<O, P> {
  /** Groups that were taken and not given out. */
  readonly hand: readonly ReadGroup<O, P>[]
  /** Tickets that were given out and have no end. */
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

/** Takes what is complete into the hand, up to so many groups. */
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

/** Gives out what is in the hand. */
const give = <O, P = TokenAction>(held: Cell<Held<O, P>>): QueueBatch<O, P> => {
  const { hand, given } = held.get()
  const { tasks, ...joined } = joinGroups(hand)
  held.update((now) => ({ ...now, hand: [], given: new Set([...given, ...tasks]) }))
  return { _tag: 'Batch', ...joined, tickets: tasks }
}

/** The next batch, when there are enough groups, or no more will come. */
const nextBatch =
  <O, P>(
    options: QueueCollectorOptions,
    held: Cell<Held<O, P>>,
  ): TE.TaskEither<QueueProblem, QueueBatch<O, P> | QueueEnd> =>
  async () => {
    const { queue, groups, silenceMs = 600_000 } = options
    for (let silentMs = 0; silentMs < silenceMs; ) {
      const filled = await fill(options)()
      if (E.isLeft(filled)) return filled
      const taken = await takeInto(options, held)()
      if (E.isLeft(taken)) return taken
      if (held.get().hand.length >= groups) return E.right(give(held))
      const found = await queue.look()
      if (E.isLeft(found)) return found
      const { pending, settings } = found.right
      const isWaiting = pending.some(({ stage }) => stage !== 'training')
      if (!isWaiting && filled.right === 'complete')
        return E.right(held.get().hand.length > 0 ? give(held) : { _tag: 'End' })
      if (!isWaiting)
        return refuseQueueChange(
          'full',
          `all of ${settings.capacity} groups were taken: store a checkpoint, or make the queue larger`,
        )
      const waitMs = Math.min(LONGEST_WAIT_MS, settings.leaseMs / 2, silenceMs - silentMs)
      const changed = await queue.changed(waitMs)()
      if (E.isLeft(changed)) return changed
      silentMs = changed.right === 'silent' ? silentMs + waitMs : 0
    }
    return queueFailure('silent', `nothing has happened in the queue for ${silenceMs} ms: is there a worker?`)
  }

const optionProblems = ({ groups, silenceMs = 1 }: QueueCollectorOptions): readonly string[] => [
  ...(Number.isSafeInteger(groups) && groups >= 1 ? [] : [`groups must be an integer of at least 1, got ${groups}`]),
  ...(silenceMs > 0 && Number.isFinite(silenceMs) ? [] : [`silenceMs must be above 0, got ${silenceMs}`]),
]

const COLLECT_FROM_QUEUE_OPTIONS: OptionKinds<QueueCollectorOptions> = {
  queue: aRecord,
  tasks: aFunction,
  groups: aNumber,
  position: aRecord,
  silenceMs: aNumber,
}

/**
 * Begins to collect from a shared queue as its trainer, or goes on from a checkpoint.
 *
 * In this order nothing is lost and nothing is trained twice, whenever the trainer dies: learn from a batch; `end` its groups; write a
 * checkpoint that has `position` beside the weights that learned from it; when that is on disk, `stored`. A trainer that goes on from the
 * checkpoint tells the queue what it knows to have ended; groups that were taken and are not in it, since the weights that learned from
 * them are gone, come out again. Until `stored`, ended groups count as held: the capacity has to be larger than what is learned from
 * between two checkpoints.
 *
 * Errors   throws RangeError with all options that are wrong; `Left(QueueRefusal)` of kind `superseded` for a checkpoint of another run, or
 *          one that is older than what the queue was told; `Left(QueueFailure)`. `next` fails with kind `silent` if nothing happens, and
 *          `full` if no task can be drawn because of groups that are not stored. A group with a damaged rollout is dropped.
 * Effects  draws tasks into the queue; a batch is the caller's to release.
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
          `end: expected groups that were given out and have no end, got ${ends.map(({ ticket }) => ticket).join(', ')}`,
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

/** Runs whose rollouts are played by workers elsewhere: a shared queue in the place of the run's own collecting. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { QueueLog } from '../collectors/queues/queueLog.js'
import { openRolloutQueue, type RolloutQueue } from '../collectors/queues/rolloutQueue.js'
import {
  collectFromQueue,
  parseQueuePosition,
  QUEUE_START,
  type QueueCollector,
} from '../collectors/workers/queueCollector.js'
import { orThrow } from '../core/failure.js'
import { aNumber, aRecord, checkOptions, refuse } from '../core/options.js'
import type { Json } from '../data/codecs/plainValues.js'
import type { TokenPrompt } from '../data/policy.js'
import type { TensorDict } from '../data/tensorDict/tensorDict.js'
import type { Owned } from '../engine/scope.js'
import type { AnyRun } from './run.js'
import type { BatchSource, OpenSource, SourceBatch, SourceStart } from './source.js'

export interface QueuedOptions {
  /** Where the queue is: `redisQueueLog({ url, name })`. */
  readonly log: QueueLog
  /** Groups that the queue holds: more than are learned from between two checkpoints. Default: 4 checkpoints of 10 steps. */
  readonly capacity?: number
  /** Updates that a rollout may be behind the weights that learn from it. Default 1. */
  readonly maxLag?: number
  /** A worker that was not heard of for so long has lost its rollouts. Default 600,000. */
  readonly leaseMs?: number
}

/** Steps whose groups the queue holds, unless told otherwise. */
const HELD_STEPS = 40

/** A queue with what takes batches out of it. */
interface Opened {
  readonly queue: RolloutQueue
  readonly collector: QueueCollector<TokenPrompt>
}

const asJson = (position: ReturnType<QueueCollector<TokenPrompt>['position']>): Json => position as unknown as Json // plain JSON, by its contract

const openQueue = async (
  { groups }: AnyRun,
  { log, capacity, maxLag = 1, leaseMs = 600_000 }: QueuedOptions,
  start: SourceStart,
): Promise<Opened> => {
  const { size, count } = groups!
  const settings = { groupSize: size, capacity: capacity ?? HELD_STEPS * count, maxLag, leaseMs, maxAttempts: 10 }
  const queue = orThrow(await openRolloutQueue(log, { settings: { ...settings, order: 'task' }, name: 'trainer' })())
  const position = start.position === null ? QUEUE_START : orThrow(parseQueuePosition(start.position))
  const tasks = (ticket: number): Json => ({ ticket })
  const collector = orThrow(await collectFromQueue<TokenPrompt>({ queue, tasks, groups: count, position })())
  return { queue, collector }
}

/** A batch that was taken; its groups end with the step, which the queue learns when a checkpoint holds them. */
const taken = async (
  { collector }: Opened,
  step: number,
): Promise<E.Either<{ readonly _tag: 'QueueEnded'; readonly reason: string }, SourceBatch>> => {
  const next = orThrow(await collector.next(step - 1)())
  if (next._tag === 'End') return E.left({ _tag: 'QueueEnded', reason: 'there are no more tasks in the queue' })
  collector.end(next.tickets.map((ticket) => ({ ticket, how: { _tag: 'Trained', step } })))
  return E.right({
    batch: next.batch as unknown as Owned<TensorDict>, // read by names from here on
    ...{ position: asJson(collector.position()), sampling: null, overlap: null },
  })
}

const openSource = async (run: AnyRun, options: QueuedOptions, start: SourceStart): Promise<OpenSource> => {
  const opened = await openQueue(run, options, start)
  const { queue, collector } = opened
  let step = start.step
  return {
    position: asJson(collector.position()),
    collect: () => async () => {
      step += 1
      return taken(opened, step)
    },
    trained: start.push,
    saved: (position) =>
      pipe(
        TE.fromEither(parseQueuePosition(position)),
        TE.chainW((stored) => collector.stored(stored)),
      ),
    close: async () => {
      collector.release()
      await queue.close()
    },
  }
}

/**
 * The run with its rollouts played by workers: `tandem worker` with the same recipe and settings, on the engines that the run's updater
 * pushes weights to. Every task is learned from once, whichever worker or trainer dies.
 *
 * Errors   throws RangeError for a run whose environment is not a function of its tasks, whose advantage has no groups, that samples ahead
 *          itself, or whose weights stay in this process.
 * Effects  none before `train` opens it; then those of the queue.
 */
export const queuedRun = (run: AnyRun, options: QueuedOptions): AnyRun => {
  checkOptions('queuedRun', options, { log: aRecord, capacity: aNumber, maxLag: aNumber, leaseMs: aNumber })
  const { groups, source } = run
  refuse('queuedRun', [
    groups === null &&
      'workers play groups of tasks: the environment must be a function of its tasks, with collect.groups',
    groups?.weights === 'kept' &&
      'the weights stay in this process: sample from servers, with an updater that reaches them',
    source.kl !== null && source.kl.next(1, 1, 1) !== 1 && 'a KL weight that changes does not reach the workers',
  ])
  const queued: BatchSource = {
    description: { ...(source.description as object), queue: { maxLag: options.maxLag ?? 1 } },
    kl: source.kl,
    open: (start) => openSource(run, options, start),
    close: source.close,
  }
  return { ...run, source: queued, description: { ...run.description, source: queued.description } }
}

/**
 * Distributed runs: workers play the rollouts, and a shared queue replaces the run's own collector.
 */
import { checkOptions, differingSettings, type Json, orThrow, refuse } from '@tandem-rl/base'
import type { Owned } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { AnyRun, CollectedBatch, TokenPrompt } from 'tandem-rl'
import type { BatchSource, OpenSource, OverlapRecord, SourceStart } from 'tandem-rl/run'
import { get, rowLengths, type TensorDict } from 'tandem-rl/tensordict'
import { z } from 'zod'
import { QUEUED_RUN_OPTIONS } from './optionKinds.js'
import type { QueueLog } from './queues/queueLog.js'
import { openRolloutQueue, type RolloutQueue } from './queues/rolloutQueue.js'
import { collectFromQueue, parseQueuePosition, QUEUE_START, type QueueCollector } from './workers/queueCollector.js'

export interface QueuedOptions {
  /** The queue's log, such as `redisQueueLog({ url, name })`. */
  readonly log: QueueLog
  /**
   * Capacity of the queue in groups. Must exceed the groups trained on between two checkpoints.
   * Default: 40 steps.
   */
  readonly capacity?: number
  /** Largest staleness of a rollout, in updates. Default 1. */
  readonly maxLag?: number
  /**
   * Time without a heartbeat after which a worker's rollouts are given to others, in ms. Default
   * 30,000.
   */
  readonly leaseMs?: number
  /** Milliseconds for which the first call of the queue is retried. Default 60,000. */
  readonly openMs?: number
  /** Called while a step waits: no worker takes a rollout, or one sends no heartbeat. */
  readonly onNotice?: (message: string) => void
}

const taskSchema = z.looseObject({ inputs: z.record(z.string(), z.string()).optional() })

/**
 * Returns the reason for which a worker must not play a task: it reads other rows, or has another
 * tokenizer or template than the trainer. Tasks of older trainers name none.
 */
export const inputsRefusal = (task: Json, own: Readonly<Record<string, string>>): string | null => {
  const { inputs } = taskSchema.parse(task)
  const names = inputs === undefined ? [] : differingSettings(inputs, own).map(({ path }) => path)
  return names.length === 0
    ? null
    : `this worker's inputs are not the trainer's: ${names.join('; ')}. Give it the files of the trainer`
}

/** Default capacity of the queue, in steps. */
const HELD_STEPS = 40

/**
 * Returns the staleness of a batch's tokens in updates. Rollouts that were sampled before a trainer
 * resumed from an older checkpoint are newer, and count as well.
 */
const lagsOf = (batch: CollectedBatch<TokenPrompt>, version: number): Pick<OverlapRecord, 'meanLag' | 'maxLag'> => {
  const lags = get(batch, 'policyVersion')
    .items.toArray()
    .map((sampled) => Math.abs(version - sampled))
  const lengths = rowLengths(get(batch, 'tokens', 'response'))
  const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)
  return {
    meanLag: sum(lags.map((lag, row) => lag * lengths[row]!)) / Math.max(1, sum(lengths)),
    maxLag: lags.reduce((a, b) => Math.max(a, b), 0),
  }
}

/** Makes the function that returns the groups dropped since its last call. Throws FailureError. */
const droppedSince = async ({
  look,
}: RolloutQueue): Promise<() => Promise<Pick<OverlapRecord, 'stale' | 'failed' | 'filtered'>>> => {
  const read = async () => orThrow(await look()).counts.dropped
  let before = await read()
  return async () => {
    const { stale, failed, abandoned, filtered } = before
    before = await read()
    return {
      stale: before.stale - stale,
      failed: before.failed + before.abandoned - failed - abandoned,
      filtered: before.filtered - filtered,
    }
  }
}

/** A queue with its collector. */
interface Opened {
  readonly queue: RolloutQueue
  readonly collector: QueueCollector<TokenPrompt>
  readonly dropped: Awaited<ReturnType<typeof droppedSince>>
}

const asJson = (position: ReturnType<QueueCollector<TokenPrompt>['position']>): Json => position as unknown as Json // plain JSON, by its contract

const collectorOf = async (
  { groups }: AnyRun,
  { log, capacity, maxLag = 1, leaseMs = 30_000, openMs, onNotice }: QueuedOptions,
  start: SourceStart,
): Promise<Opened> => {
  const { size, count, inputs } = groups!
  const read = inputs()
  const settings = { groupSize: size, capacity: capacity ?? HELD_STEPS * count, maxLag, leaseMs, maxAttempts: 10 }
  const queue = orThrow(
    await openRolloutQueue(log, {
      settings: { ...settings, order: 'task' },
      name: 'trainer',
      ...(openMs !== undefined && { openMs }),
    })(),
  )
  const position = start.position === null ? QUEUE_START : orThrow(parseQueuePosition(start.position))
  const tasks = (ticket: number): Json => ({ ticket, inputs: read })
  const waiting = { ...(onNotice && { onNotice }), ...(start.signal && { signal: start.signal }) }
  const collecting = collectFromQueue<TokenPrompt>({ queue, tasks, groups: count, position, ...waiting })
  const collector = orThrow(await collecting())
  return { queue, collector, dropped: await droppedSince(queue) }
}

/** Opens the queue and its collector. Closes the log after an error. */
const openQueue = async (run: AnyRun, options: QueuedOptions, start: SourceStart): Promise<Opened> => {
  try {
    return await collectorOf(run, options, start)
  } catch (error) {
    await options.log.close()
    throw error
  }
}

/**
 * Takes the batch of a step and marks its groups as trained. The mark reaches the queue when a
 * checkpoint includes the step.
 */
const taken = async (
  { collector, dropped }: Opened,
  step: number,
  signal: AbortSignal | undefined,
): ReturnType<ReturnType<OpenSource['collect']>> => {
  const found = await collector.next(step - 1)()
  if (E.isLeft(found) && signal?.aborted === true) return E.left({ _tag: 'Interrupted', reason: found.left.reason })
  const next = orThrow(found)
  if (next._tag === 'End') return E.left({ _tag: 'QueueEnded', reason: 'there are no more tasks in the queue' })
  const lags = lagsOf(next.batch.value, step - 1)
  const overlap = { ...lags, ...(await dropped()), samplingSeconds: null, bothSeconds: null }
  collector.end(next.tickets.map((ticket) => ({ ticket, how: { _tag: 'Trained', step } })))
  return E.right({
    batch: next.batch as unknown as Owned<TensorDict>, // read by names from here on
    position: asJson(collector.position()),
    sampling: null,
    overlap,
  })
}

const NOT_REPRODUCIBLE =
  'workers sample with the weights that they have at that moment: equal settings and seeds do not give equal runs'

const openSource = async (run: AnyRun, options: QueuedOptions, start: SourceStart): Promise<OpenSource> => {
  const opened = await openQueue(run, options, start)
  const { queue, collector } = opened
  let step = start.step
  options.onNotice?.(NOT_REPRODUCIBLE)
  return {
    position: asJson(collector.position()),
    collect: () => async () => {
      step += 1
      return taken(opened, step, start.signal)
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
 * Returns the run with its rollouts played by workers. Start `tandem worker` with the same recipe
 * and settings; its engines must be those that the run's updater pushes weights to. Every task is
 * trained on exactly once, even if workers or the trainer crash. Such a run is not reproducible:
 * the weights that sample a rollout depend on its time.
 *
 * Errors   throws RangeError if the environment is not a function of its tasks, the advantage has
 *          no groups, the KL coefficient is adaptive, or the weights stay in this process.
 * Effects  none until `train` opens the run; then those of the queue.
 */
export const queuedRun = (run: AnyRun, options: QueuedOptions): AnyRun => {
  checkOptions('queuedRun', options, QUEUED_RUN_OPTIONS)
  const { groups, source } = run
  refuse('queuedRun', [
    groups === null &&
      'workers play groups of tasks: give the environment as a function of its tasks, and collect.groups',
    groups?.weights === 'kept' &&
      'the weights stay in this process: sample from servers, with an updater that reaches them',
    source.kl !== null && source.kl.next(1, 1, 1) !== 1 && 'workers do not receive an adaptive KL coefficient',
  ])
  const queued: BatchSource = {
    description: { ...(source.description as object), queue: { maxLag: options.maxLag ?? 1 } },
    kl: source.kl,
    open: (start) => openSource(run, options, start),
    close: source.close,
  }
  return { ...run, source: queued, description: { ...run.description, source: queued.description } }
}

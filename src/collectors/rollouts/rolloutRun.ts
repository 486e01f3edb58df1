/** Plays rollouts of many tasks concurrently, from drawing a task to delivering its rows. */
import { condition } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { TokenAction } from '../../data/policy.js'
import type { FailedTask, GroupOutcome } from './group.js'
import { groupOutbox, type Joined, type RolloutOutbox } from './outbox.js'
import type { PlayedTurn } from './rollout.js'
import type { RolloutBatch, RolloutPosition, RolloutsEnd, RolloutsStopped } from './rolloutBatch.js'
import { runningGroups } from './runningGroups.js'
import type { RunRules } from './settings.js'
import { type TaskQueue, taskQueue } from './taskQueue.js'
import { turnOutbox } from './turnOutbox.js'

export interface RolloutRunOptions {
  /** The position to start from. Default: the beginning. */
  readonly position?: RolloutPosition
  /** Aborting it ends the run. Complete groups are still delivered. */
  readonly signal?: AbortSignal
}

/** A run of concurrent rollouts. */
export interface RolloutRun<O, P = TokenAction> {
  /**
   * Resolves with the next batch, or the end. Tasks are drawn while a call is pending; between
   * calls, up to `ahead` tasks stay open. Drawn tasks always continue. After the end, every later
   * call returns the end. Rejects if another call is pending, and with exceptions of `env`.
   */
  readonly next: TaskEither<RolloutsStopped, RolloutBatch<O, P> | RolloutsEnd>
  /** Cancels all rollouts and frees undelivered rows. */
  readonly close: () => Promise<RolloutsEnd | RolloutsStopped>
  /** Number of rollouts in flight. A group that is being reset counts with all of its members. */
  readonly inFlight: () => number
}

/** Smallest number of ended tasks for computing the share of failures. */
const FEWEST_ENDED = 10

/** The reason for ending a run early. */
type Stopping = Pick<RolloutsStopped, 'rule' | 'reason' | 'cause'>

/** Returns the reason for ending a run after a failure, if the rules demand it. */
const tooManyFailures = (
  { isFailFast, maxFailureShare }: Pick<RunRules<unknown, unknown>, 'isFailFast' | 'maxFailureShare'>,
  { ended, failed }: { readonly ended: number; readonly failed: number },
  { task, cause }: FailedTask,
): Stopping | undefined => {
  if (isFailFast) return { rule: 'failFast', reason: `task ${task} failed`, cause }
  if (failed <= maxFailureShare * Math.max(ended, FEWEST_ENDED)) return undefined
  const reason = `${failed} of ${ended} tasks failed, more than the allowed share of ${maxFailureShare}`
  return { rule: 'maxFailureShare', reason, cause }
}

/** Returns the position to resume from, with the turns of tasks that are open. */
const positionOf = <O, P>(
  outbox: Pick<RolloutOutbox<O, P>, 'open'>,
  queue: Pick<TaskQueue<O, P>, 'position'>,
  { given: start = {} }: RolloutPosition,
): RolloutPosition => {
  const { open, given } = outbox.open()
  const { next, open: undrawn } = queue.position()
  const before = undrawn.flatMap((task) => (start[task] === undefined ? [] : [[task, start[task]] as const]))
  const all = { ...given, ...Object.fromEntries(before) }
  return { next, open: [...open, ...undrawn], ...(Object.keys(all).length > 0 && { given: all }) }
}

/**
 * Starts a run. No task is drawn before the first call of `next`.
 *
 * Effects  plays rollouts, and listens to the signal until the end.
 */
export const rolloutRun = <O, P>(rules: RunRules<O, P>, options: RolloutRunOptions): RolloutRun<O, P> => {
  const { position = { next: 0, open: [] }, signal } = options
  const queue = taskQueue(rules, position)
  const outbox: RolloutOutbox<O, P> =
    rules.unit === 'turn' ? turnOutbox(rules.dialogTurnsPerBatch, position.given ?? {}) : groupOutbox(rules)
  const changed = condition()
  /** An exception of `env` while no call was pending. */
  let thrown: { readonly error: unknown } | undefined
  let counts = { ended: 0, failed: 0 }
  /** Failed tasks since the last batch. */
  let failed: FailedTask[] = []
  let stop: 'cancelled' | Stopping | undefined
  let end: RolloutsEnd | RolloutsStopped | undefined
  let isPending = false

  const place = (): RolloutPosition => positionOf(outbox, queue, position)

  const halt = (why: NonNullable<typeof stop>): void => {
    if (stop !== undefined) return
    stop = why
    signal?.removeEventListener('abort', onAbort)
    running.cancel()
    changed.notify()
  }
  const onAbort = (): void => halt('cancelled')

  /** Wakes the pending `next`, or draws tasks ahead if no call is pending. */
  const onChange = (): void => {
    if (isPending) changed.notify()
    else {
      try {
        draw()
      } catch (error) {
        thrown = { error } // by the next call
      }
    }
  }

  const onOutcome = (task: number, outcome: GroupOutcome<O, P>): void => {
    if (outcome._tag !== 'Cancelled') counts = { ...counts, ended: counts.ended + 1 }
    outbox.settle(task, outcome)
    if (outcome._tag === 'Failed') {
      failed = [...failed, outcome.failure]
      counts = { ...counts, failed: counts.failed + 1 }
      const why = tooManyFailures(rules, counts, outcome.failure)
      if (why !== undefined) halt(why)
    }
    onChange()
  }

  const { onTurn } = outbox
  const onPlayedTurn = (task: number, turn: PlayedTurn<O, P>): void => {
    onTurn?.(task, turn)
    onChange()
  }
  const running = runningGroups(rules, {
    onPlaceFree: onChange,
    ...(onTurn && { onTurn: onPlayedTurn }),
    onOutcome,
  })

  /** Draws tasks while places are free. Without a pending call, at most `ahead` tasks are open. */
  const draw = (): void => {
    while (
      stop === undefined &&
      queue.hasMore() &&
      running.inFlight() < rules.maxInFlight &&
      (isPending || outbox.size() < rules.ahead)
    ) {
      const drawn = queue.draw(rules.maxInFlight - running.inFlight())
      if (drawn === undefined) return
      outbox.begin(drawn.task, drawn.env.batchSize)
      running.start(drawn.task, drawn.env)
    }
  }

  const batchOf = (joined: Joined<O, P>): RolloutBatch<O, P> => {
    const since = failed
    failed = []
    return { _tag: 'Batch', ...joined, failed: since, position: place() }
  }

  const conclude = (): RolloutsEnd | RolloutsStopped => {
    signal?.removeEventListener('abort', onAbort)
    const last = { failed, cancelled: outbox.open().open, position: place() }
    if (stop === undefined || stop === 'cancelled') return { _tag: 'End', why: stop ?? 'complete', ...last }
    return { _tag: 'RolloutsStopped', ...stop, ...last }
  }

  const take = async (): Promise<RolloutBatch<O, P> | RolloutsEnd | RolloutsStopped> => {
    while (end === undefined) {
      const enough = outbox.take('enough')
      if (enough !== undefined) return batchOf(enough)
      draw()
      if (!running.isEmpty()) await changed.wait()
      else {
        const remaining = outbox.take('anything')
        if (remaining !== undefined) return batchOf(remaining)
        end = conclude()
      }
    }
    return end
  }

  if (signal?.aborted === true) halt('cancelled')
  else signal?.addEventListener('abort', onAbort, { once: true })
  return {
    next: async () => {
      if (isPending) throw new Error('LLMCollector: next was called while another call is pending')
      isPending = true
      try {
        const earlier = thrown
        thrown = undefined
        if (earlier !== undefined) throw earlier.error
        const taken = await take()
        return taken._tag === 'RolloutsStopped' ? E.left(taken) : E.right(taken)
      } finally {
        isPending = false
        onChange()
      }
    },
    close: async () => {
      halt('cancelled')
      await running.ended()
      outbox.release()
      end ??= conclude()
      return end
    },
    inFlight: running.inFlight,
  }
}

/** Plays rollouts of many tasks concurrently, from drawing a task to delivering its rows. */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { TokenAction } from '../../data/policy.js'
import { type FailedTask, playGroup, type RunningGroup } from './group.js'
import { groupOutbox, type Joined, type RolloutOutbox } from './outbox.js'
import type { PlayedTurn } from './rollout.js'
import type { RolloutBatch, RolloutPosition, RolloutsEnd, RolloutsStopped } from './rolloutBatch.js'
import type { RunRules } from './settings.js'
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

/**
 * Starts a run. No task is drawn before the first call of `next`.
 *
 * Effects  plays rollouts, and listens to the signal until the end.
 */
export const rolloutRun = <O, P>(rules: RunRules<O, P>, options: RolloutRunOptions): RolloutRun<O, P> => {
  const { position = { next: 0, open: [] }, signal } = options
  const again = [...position.open]
  let nextTask = position.next
  const outbox: RolloutOutbox<O, P> =
    rules.unit === 'turn' ? turnOutbox(rules.dialogTurnsPerBatch, position.given ?? {}) : groupOutbox(rules)
  const running = new Map<number, RunningGroup<O, P>>()
  let inFlight = 0
  /** The next task, while it waits for free places. */
  let coming: { readonly task: number; readonly env: ReturnType<RunRules<O, P>['env']> } | undefined
  /** An exception of `env` while no call was pending. */
  let trouble: { readonly error: unknown } | undefined
  let ended = 0
  let failures = 0
  let failed: FailedTask[] = []
  let stop: 'cancelled' | Pick<RolloutsStopped, 'rule' | 'reason' | 'cause'> | undefined
  let end: RolloutsEnd | RolloutsStopped | undefined
  let isAsked = false
  let wake: (() => void) | undefined

  const here = (): RolloutPosition => {
    const { open, given } = outbox.open()
    const before = again.flatMap((task) => (position.given?.[task] === undefined ? [] : [[task, position.given[task]]]))
    const all = { ...given, ...Object.fromEntries(before) }
    return { next: nextTask, open: [...open, ...again], ...(Object.keys(all).length > 0 && { given: all }) }
  }

  const halt = (why: NonNullable<typeof stop>): void => {
    if (stop !== undefined) return
    stop = why
    signal?.removeEventListener('abort', onAbort)
    for (const group of running.values()) group.cancel()
    wake?.()
  }
  const onAbort = (): void => halt('cancelled')

  const onFailed = (failure: FailedTask): void => {
    failed = [...failed, failure]
    failures++
    const { cause } = failure
    const limit = rules.maxFailureShare * Math.max(ended, FEWEST_ENDED)
    if (rules.isFailFast) halt({ rule: 'failFast', reason: `task ${failure.task} failed`, cause })
    else if (failures > limit) {
      const reason = `${failures} of ${ended} tasks failed, more than the allowed share of ${rules.maxFailureShare}`
      halt({ rule: 'maxFailureShare', reason, cause })
    }
  }

  /** Wakes the pending `next`, or draws tasks ahead if no call is pending. */
  const onChange = (): void => {
    if (isAsked) wake?.()
    else {
      try {
        draw()
      } catch (error) {
        trouble = { error } // thrown by the next call
      }
    }
  }

  const begin = (task: number, env: ReturnType<RunRules<O, P>['env']>): void => {
    let places = env.batchSize
    inFlight += places
    outbox.begin(task, places)
    const onPlaceFree = (): void => {
      places--
      inFlight--
      onChange()
    }
    const { onTurn } = outbox
    const told =
      onTurn &&
      ((turn: PlayedTurn<O, P>): void => {
        onTurn(task, turn)
        onChange()
      })
    const group = playGroup(task, env, { ...rules, onPlaceFree, ...(told && { onTurn: told }) })
    running.set(task, group)
    group.outcome.then((outcome) => {
      inFlight -= places
      running.delete(task)
      if (outcome._tag !== 'Cancelled') ended++
      outbox.settle(task, outcome)
      if (outcome._tag === 'Failed') onFailed(outcome.failure)
      onChange()
    })
  }

  const hasMore = (): boolean => stop === undefined && (again.length > 0 || nextTask < rules.tasks)

  const comingTask = (): NonNullable<typeof coming> => {
    const task = again[0] ?? nextTask
    const env = rules.env(task)
    if (env.batchSize > rules.maxInFlight) {
      const reason = `a group of task ${task} has ${env.batchSize} members, more than maxInFlight ${rules.maxInFlight}`
      throw new RangeError(`LLMCollector: ${reason}`)
    }
    return { task, env }
  }

  /** Draws tasks while places are free. Without a pending call, at most `ahead` tasks are open. */
  const draw = (): void => {
    while (hasMore() && inFlight < rules.maxInFlight && (isAsked || outbox.size() < rules.ahead)) {
      coming ??= comingTask()
      const { task, env } = coming
      if (inFlight + env.batchSize > rules.maxInFlight) return
      coming = undefined
      if (again.length > 0) again.shift()
      else nextTask++
      begin(task, env)
    }
  }

  const give = (joined: Joined<O, P>): RolloutBatch<O, P> => {
    const told = failed
    failed = []
    return { _tag: 'Batch', ...joined, failed: told, position: here() }
  }

  const conclude = (): RolloutsEnd | RolloutsStopped => {
    signal?.removeEventListener('abort', onAbort)
    const rest = { failed, cancelled: outbox.open().open, position: here() }
    if (stop === undefined || stop === 'cancelled') return { _tag: 'End', why: stop ?? 'complete', ...rest }
    return { _tag: 'RolloutsStopped', ...stop, ...rest }
  }

  const take = async (): Promise<RolloutBatch<O, P> | RolloutsEnd | RolloutsStopped> => {
    while (end === undefined) {
      const enough = outbox.take('enough')
      if (enough !== undefined) return give(enough)
      draw()
      if (running.size === 0) {
        const rest = outbox.take('anything')
        if (rest !== undefined) return give(rest)
        end = conclude()
      } else {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
        wake = undefined
      }
    }
    return end
  }

  if (signal?.aborted === true) halt('cancelled')
  else signal?.addEventListener('abort', onAbort, { once: true })
  return {
    next: async () => {
      if (isAsked) throw new Error('LLMCollector: next was called while another call is pending')
      isAsked = true
      try {
        const known = trouble
        trouble = undefined
        if (known !== undefined) throw known.error
        const taken = await take()
        return taken._tag === 'RolloutsStopped' ? E.left(taken) : E.right(taken)
      } finally {
        isAsked = false
        onChange()
      }
    },
    close: async () => {
      halt('cancelled')
      while (running.size > 0) await Promise.all([...running.values()].map(({ outcome }) => outcome))
      outbox.release()
      end ??= conclude()
      return end
    },
    inFlight: () => inFlight,
  }
}

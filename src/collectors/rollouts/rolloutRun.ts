/** Rollouts of many tasks at a time, from drawing a task to giving out its rows. */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { TokenPrompt } from '../../data/policy.js'
import { type FailedTask, type GroupOutcome, playGroup, type RunningGroup } from './group.js'
import {
  type CompleteGroup,
  joinGroups,
  type RolloutBatch,
  type RolloutPosition,
  type RolloutsEnd,
  type RolloutsStopped,
} from './rolloutBatch.js'
import type { RunRules } from './settings.js'

export interface RolloutRunOptions {
  /** Default: the beginning. */
  readonly position?: RolloutPosition
  /** Aborting it ends the run: what is complete is still given out. */
  readonly signal?: AbortSignal
}

/** Rollouts that are being collected. */
export interface RolloutRun<O> {
  /**
   * The next batch, or the end. Tasks are drawn only while somebody waits here; those that were drawn go on meanwhile. Asking again
   * after the end gives the end again. Rejects if it is asked twice at a time, and with what `env` throws.
   */
  readonly next: TaskEither<RolloutsStopped, RolloutBatch<O> | RolloutsEnd>
  /** Calls everything off and frees what was not taken. */
  readonly close: () => Promise<RolloutsEnd | RolloutsStopped>
  /** Rollouts that are being played; a group that is being reset counts with all of its members. */
  readonly inFlight: () => number
}

/** A task that was drawn and has not ended. */
type Drawn<O> =
  | { readonly _tag: 'Running'; readonly group: RunningGroup<O> }
  | ({ readonly _tag: 'Ready' } & CompleteGroup<O>)
  | { readonly _tag: 'Cancelled' }

/** The number of tasks that a share of failures is taken of, if fewer have ended. */
const FEWEST_ENDED = 10

/** Groups to give out together: the first ones with enough turns, or nothing if there are too few of them. */
const enoughOf = <O>(
  drawn: Iterable<Drawn<O>>,
  { dialogTurnsPerBatch, order }: Pick<RunRules<O & TokenPrompt>, 'dialogTurnsPerBatch' | 'order'>,
): readonly CompleteGroup<O>[] => {
  const taken: CompleteGroup<O>[] = []
  let turns = 0
  for (const each of drawn) {
    if (each._tag !== 'Ready') {
      if (order === 'drawn') return []
      continue
    }
    taken.push(each)
    turns += each.turns
    if (turns >= dialogTurnsPerBatch) return taken
  }
  return []
}

/**
 * Begins to collect. Nothing is drawn before somebody asks.
 *
 * Effects  plays rollouts; listens to the signal until the end.
 */
export const rolloutRun = <O extends TokenPrompt>(rules: RunRules<O>, options: RolloutRunOptions): RolloutRun<O> => {
  const { position = { next: 0, open: [] }, signal } = options
  const again = [...position.open]
  let nextTask = position.next
  /** In the order in which they were drawn, and those that are ready in the order in which they became so. */
  const drawn = new Map<number, Drawn<O>>()
  const ready = new Map<number, Drawn<O>>()
  let readyTurns = 0
  let running = 0
  let inFlight = 0
  /** The next task, while it waits for places. */
  let coming: { readonly task: number; readonly env: ReturnType<RunRules<O>['env']> } | undefined
  let ended = 0
  let failures = 0
  let failed: FailedTask[] = []
  let stop: 'cancelled' | Pick<RolloutsStopped, 'rule' | 'reason' | 'cause'> | undefined
  let end: RolloutsEnd | RolloutsStopped | undefined
  let wake: (() => void) | undefined

  const here = (): RolloutPosition => ({ next: nextTask, open: [...drawn.keys(), ...again] })

  const halt = (why: NonNullable<typeof stop>): void => {
    if (stop !== undefined) return
    stop = why
    signal?.removeEventListener('abort', onAbort)
    for (const each of drawn.values()) if (each._tag === 'Running') each.group.cancel()
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
      const reason = `${failures} of ${ended} tasks failed, more than the share of ${rules.maxFailureShare}`
      halt({ rule: 'maxFailureShare', reason, cause })
    }
  }

  const settle = (task: number, outcome: GroupOutcome<O>): void => {
    running--
    if (outcome._tag === 'Cancelled') drawn.set(task, outcome)
    else {
      ended++
      if (outcome._tag === 'Failed') {
        drawn.delete(task)
        onFailed(outcome.failure)
      } else {
        const turns = outcome.members.reduce((sum, member) => sum + member.turns, 0)
        const group = { _tag: 'Ready', task, members: outcome.members, turns } as const
        drawn.set(task, group)
        ready.set(task, group)
        readyTurns += turns
      }
    }
    wake?.()
  }

  const begin = (task: number, env: ReturnType<RunRules<O>['env']>): void => {
    let places = env.batchSize
    inFlight += places
    running++
    const onPlaceFree = (): void => {
      places--
      inFlight--
      wake?.()
    }
    const group = playGroup(task, env, { ...rules, onPlaceFree })
    drawn.set(task, { _tag: 'Running', group })
    group.outcome.then((outcome) => {
      inFlight -= places
      settle(task, outcome)
    })
  }

  const hasMore = (): boolean => stop === undefined && (again.length > 0 || nextTask < rules.tasks)

  const comingTask = (): NonNullable<typeof coming> => {
    const task = again[0] ?? nextTask
    const env = rules.env(task)
    if (env.batchSize > rules.maxInFlight) {
      const reason = `a group of task ${task} has ${env.batchSize} members, more than maxInFlight ${rules.maxInFlight}`
      throw new RangeError(`AsyncLLMCollector: ${reason}`)
    }
    return { task, env }
  }

  const draw = (): void => {
    while (hasMore() && inFlight < rules.maxInFlight) {
      coming ??= comingTask()
      const { task, env } = coming
      if (inFlight + env.batchSize > rules.maxInFlight) return
      coming = undefined
      if (again.length > 0) again.shift()
      else nextTask++
      begin(task, env)
    }
  }

  const give = (groups: readonly CompleteGroup<O>[]): RolloutBatch<O> => {
    const joined = joinGroups(groups)
    for (const { task, turns } of groups) {
      drawn.delete(task)
      ready.delete(task)
      readyTurns -= turns
    }
    const told = failed
    failed = []
    return { _tag: 'Batch', ...joined, failed: told, position: here() }
  }

  const conclude = (): RolloutsEnd | RolloutsStopped => {
    signal?.removeEventListener('abort', onAbort)
    const rest = { failed, cancelled: [...drawn.keys()], position: here() }
    if (stop === undefined || stop === 'cancelled') return { _tag: 'End', why: stop ?? 'complete', ...rest }
    return { _tag: 'RolloutsStopped', ...stop, ...rest }
  }

  const readyGroups = (): readonly CompleteGroup<O>[] =>
    [...(rules.order === 'drawn' ? drawn : ready).values()].flatMap((each) => (each._tag === 'Ready' ? [each] : []))

  const take = async (): Promise<RolloutBatch<O> | RolloutsEnd | RolloutsStopped> => {
    while (end === undefined) {
      const isEnough = readyTurns >= rules.dialogTurnsPerBatch
      const enough = isEnough ? enoughOf((rules.order === 'drawn' ? drawn : ready).values(), rules) : []
      if (enough.length > 0) return give(enough)
      draw()
      if (running === 0) {
        const rest = readyGroups()
        if (rest.length > 0) return give(rest)
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

  let isAsked = false
  if (signal?.aborted === true) halt('cancelled')
  else signal?.addEventListener('abort', onAbort, { once: true })
  return {
    next: async () => {
      if (isAsked) throw new Error('AsyncLLMCollector: next is asked for while it is being waited for')
      isAsked = true
      try {
        const taken = await take()
        return taken._tag === 'RolloutsStopped' ? E.left(taken) : E.right(taken)
      } finally {
        isAsked = false
      }
    },
    close: async () => {
      halt('cancelled')
      while (running > 0)
        await Promise.all([...drawn.values()].map((each) => each._tag === 'Running' && each.group.outcome))
      for (const { members } of readyGroups()) for (const { rows } of members) rows.release()
      ready.clear()
      end ??= conclude()
      return end
    },
    inFlight: () => inFlight,
  }
}

/**
 * Samples groups while others are trained on, as `overlapStep.ts` decides.
 *
 * This folder holds sampling that runs beside training: groups that are played ahead, and the
 * rules for stale ones. It does not hold the play of a group (`../rollouts`) or the push of
 * weights (`../updaters`).
 */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Clock } from '../../core/capabilities.js'
import type { Failure } from '../../core/failure.js'
import { aFunction, aNumber, aRecord, checkOptions, type OptionKinds } from '../../core/options.js'
import type { WeightFailure } from '../../data/weights.js'
import { liveClock } from '../../live/clock.js'
import type { RolloutPosition } from '../rollouts/rolloutBatch.js'
import {
  type GivenRules,
  type OverlapCounts,
  type OverlapStart,
  type OverlapState,
  overlapPosition,
  overlapState,
} from './overlapState.js'
import { isOver, type OverlapAction, type OverlapEvent, overlapStep, type TrainedTask } from './overlapStep.js'

/** How the sampling of a group ended. */
export type PlayedTask<G> =
  | {
      readonly _tag: 'Played'
      readonly group: G
      /** The version that sampled its oldest token. */
      readonly oldest: number
      /** `no` for a group that teaches nothing: others are sampled for it, as far as `refills` goes. */
      readonly signal: 'yes' | 'no'
    }
  | { readonly _tag: 'Failed'; readonly failure: Failure }
  | { readonly _tag: 'Cancelled' }

/** A group that is being sampled. */
export interface PlayingTask<G> {
  /** Resolves, never rejects, when nothing of it goes on. */
  readonly outcome: Promise<PlayedTask<G>>
  readonly cancel: () => void
}

/** Where groups come from: environments and a policy (`rolloutGroups`), workers, or anything that samples task by task. */
export interface GroupSource<G> {
  /** Begins to sample the group of a task, counted from 0. Equal tasks and weights give equal groups, whenever they begin. Throws for a wrong set-up. */
  readonly play: (task: number) => PlayingTask<G>
  /** Frees a group that nobody learns from. */
  readonly discard: (group: G) => void
}

/** Seconds since the step before. */
export interface OverlapSeconds {
  /** In which nobody learned, because there was nothing to learn from. */
  readonly waiting: number
  /** In which something was sampled. */
  readonly sampling: number
  /** In which something was sampled and somebody learned, as seen from the thread that learns. */
  readonly both: number
}

/** A group whose turn has come. It belongs to whoever took it. */
export interface TakenTask<G> extends TrainedTask {
  readonly group: G
}

/** The groups of a step. */
export interface TakenStep<G> {
  readonly _tag: 'Step'
  /** The version that is to learn from them. */
  readonly version: number
  /** In order of their tasks. */
  readonly groups: readonly TakenTask<G>[]
  /** What was dropped since the step before. */
  readonly dropped: OverlapCounts['dropped']
  /** Why tasks failed since the step before. */
  readonly failures: readonly Failure[]
  readonly seconds: OverlapSeconds
  /** Where to go on after the step: all that was drawn and has no end is open, but for what the step learns from. */
  readonly position: RolloutPosition
}

/** Nothing more comes. */
export interface OverlapEnd {
  readonly _tag: 'End'
  /** `complete`: the last step is done, or all tasks have ended. */
  readonly why: 'complete' | 'stopped'
  readonly version: number
  readonly position: RolloutPosition
  readonly counts: OverlapCounts
}

/** It cannot go on. */
export interface OverlapStopped extends Omit<OverlapEnd, '_tag' | 'why'> {
  readonly _tag: 'OverlapStopped'
  readonly reason: string
  readonly cause?: Failure
}

/** Gives the engine the weights of a version; answers with the version that it samples with from then on. */
export type PushVersion = (version: number) => TaskEither<WeightFailure, number>

/** Sampling that goes on by itself. */
export interface SamplerAhead<G> {
  /**
   * The groups of the next step, when they are there; or the end. Asking again after the end gives the end again. Rejects with what `play`
   * throws.
   */
  readonly take: TaskEither<OverlapStopped, TakenStep<G> | OverlapEnd>
  /** The groups that were taken were learned from: there is a next version, which is pushed. Throws RangeError if none were taken. */
  readonly trained: () => void
  /** Where to go on: tasks that were drawn and neither learned from nor dropped are open, those that are being learned from among them. */
  readonly position: () => RolloutPosition
  /** Calls everything off, waits for the push that is underway, and frees what was not taken. */
  readonly close: () => Promise<OverlapEnd>
}

export interface SamplerAheadOptions extends OverlapStart {
  /**
   * Called with a version that was just trained, or, where the push before it took longer than a step, with the last that was. One push is
   * underway at a time.
   */
  readonly push: PushVersion
  /** Aborting it ends sampling; a step that was taken may still be learned from. */
  readonly signal?: AbortSignal
  readonly clock?: Clock
}

interface Stopwatch {
  /** Adds the time since the last call to what was going on. */
  readonly note: (now: Readonly<Record<'waiting' | 'sampling' | 'learning', boolean>>) => void
  /** The sums since the last call. */
  readonly read: () => OverlapSeconds
}

const stopwatch = (clock: Clock): Stopwatch => {
  const none = { waiting: 0, sampling: 0, both: 0 }
  let [last, sums] = [clock.now(), none]
  return {
    note: (was) => {
      const now = clock.now()
      const seconds = (now - last) / 1000
      last = now
      sums = {
        waiting: sums.waiting + (was.waiting ? seconds : 0),
        sampling: sums.sampling + (was.sampling ? seconds : 0),
        both: sums.both + (was.sampling && was.learning ? seconds : 0),
      }
    },
    read: () => {
      const read = sums
      sums = none
      return read
    },
  }
}

const difference = (now: OverlapCounts['dropped'], before: OverlapCounts['dropped']): OverlapCounts['dropped'] => ({
  stale: now.stale - before.stale,
  failed: now.failed - before.failed,
  filtered: now.filtered - before.filtered,
})

const SAMPLE_AHEAD_OPTIONS: OptionKinds<SamplerAheadOptions> = {
  push: aFunction,
  signal: aRecord,
  clock: aRecord,
  version: aNumber,
  position: aRecord,
}

/**
 * Begins to sample groups, as far ahead of training as the rules allow, and gives them out step by step.
 *
 * Which groups a step learns from, how old they are at most and what becomes of those that are older: see `overlapStep`. Groups come from the
 * source while nobody waits for them, also while a step is learned from, unless that keeps this thread busy: what is sampled elsewhere goes on.
 *
 * Errors   throws RangeError for rules that make no sense. `take` gives `Left(OverlapStopped)` when too much failed or a push did.
 * Effects  those of the source and of pushes, at once and until `close`.
 * Cost     memory of at most `ahead` groups.
 *
 * @example
 * const source = { play: () => ({ outcome: new Promise(() => {}), cancel: () => {} }), discard: () => {} }
 * sampleAhead(source, { groups: 2, maxLag: 1 }, { push: (version) => async () => right(version) }).position() // { next: 4, open: [0, 1, 2, 3] }
 */
export const sampleAhead = <G>(
  source: GroupSource<G>,
  rules: GivenRules,
  options: SamplerAheadOptions,
): SamplerAhead<G> => {
  checkOptions('sampleAhead', options, SAMPLE_AHEAD_OPTIONS)
  const { push, signal, clock = liveClock, ...start } = options
  let state: OverlapState = overlapState(rules, start)
  const watch = stopwatch(clock)
  const playing = new Map<number, PlayingTask<G>>()
  /** Groups that are complete and were not taken. */
  const there = new Map<number, G>()
  let step: readonly TrainedTask[] | null = null
  let isTaken = false
  let isAsked = false
  let pushing: Promise<void> = Promise.resolve()
  let failures: Failure[] = []
  let told = state.counts.dropped
  /** Why it cannot go on: an error of a program, or a failure. */
  let broken: { readonly error: unknown } | { readonly cause: Failure } | undefined
  let wake: (() => void) | undefined

  const note = (): void =>
    watch.note({ waiting: isAsked && !isTaken, sampling: playing.size > 0, learning: isTaken && step !== null })

  const dispatch = (event: OverlapEvent): void => {
    note()
    const [next, actions] = overlapStep(state, event)
    state = next
    for (const action of actions) perform(action)
    if (broken !== undefined && state.mode === 'running') dispatch({ _tag: 'Stopped' })
    wake?.()
  }

  const begin = (task: number): void => {
    try {
      const work = source.play(task)
      playing.set(task, work)
      void work.outcome.then((outcome) => {
        note()
        playing.delete(task)
        onOutcome(task, outcome)
      })
    } catch (error) {
      broken ??= { error }
    }
  }

  const onOutcome = (task: number, outcome: PlayedTask<G>): void => {
    if (outcome._tag === 'Played') {
      const { group, oldest, signal: teaches } = outcome
      there.set(task, group)
      dispatch({ _tag: 'Sampled', task, oldest, signal: teaches })
      return
    }
    if (outcome._tag === 'Cancelled' && state.mode !== 'running') return // its task stays open
    if (state.live.has(task))
      failures = [
        ...failures,
        outcome._tag === 'Failed' ? outcome.failure : { _tag: 'Cancelled', reason: `task ${task} was called off` },
      ]
    dispatch({ _tag: 'Failed', task })
  }

  const discard = (task: number): void => {
    const group = there.get(task)
    there.delete(task)
    if (group !== undefined) source.discard(group)
  }

  const pushVersion = async (version: number): Promise<void> => {
    try {
      const answer = await push(version)()
      if (E.isRight(answer)) return dispatch({ _tag: 'Pushed', version })
      broken ??= { cause: answer.left }
    } catch (error) {
      broken ??= { error }
    }
    dispatch({ _tag: 'Stopped' })
  }

  const perform = (action: OverlapAction): void => {
    switch (action._tag) {
      case 'Sample':
        if (broken === undefined) begin(action.task)
        break
      case 'Cancel':
        playing.get(action.task)?.cancel()
        break
      case 'Discard':
        discard(action.task)
        break
      case 'Train':
        step = action.tasks
        break
      case 'Push':
        pushing = pushVersion(action.version)
    }
  }

  const here = (): Omit<OverlapEnd, '_tag' | 'why'> => ({
    version: state.version,
    position: overlapPosition(state),
    counts: state.counts,
  })

  const stopped = (): OverlapStopped => {
    const last = failures.at(-1)
    const cause = broken !== undefined && 'cause' in broken ? broken.cause : last
    const reason =
      state.mode === 'halted'
        ? `${state.counts.dropped.failed} groups failed, more than the share of ${state.rules.maxFailureShare}`
        : 'the weights could not be pushed'
    return { _tag: 'OverlapStopped', reason, ...(cause && { cause }), ...here() }
  }

  const give = (tasks: readonly TrainedTask[]): TakenStep<G> => {
    isTaken = true
    const { counts, version } = state
    const taken = {
      ...{ _tag: 'Step' as const, version, failures, seconds: watch.read() },
      dropped: difference(counts.dropped, told),
      groups: tasks.map((each) => ({ ...each, group: there.get(each.task)! })), // they are complete
    }
    for (const { task } of tasks) there.delete(task)
    ;[told, failures] = [counts.dropped, []]
    const { next, open } = overlapPosition(state)
    const isOpen = (task: number): boolean => !tasks.some((each) => each.task === task)
    return { ...taken, position: { next, open: open.filter(isOpen) } }
  }

  /** What there is to say now; undefined as long as there is nothing. */
  const news = (): E.Either<OverlapStopped, TakenStep<G> | OverlapEnd> | undefined => {
    if (broken !== undefined && 'error' in broken) throw broken.error
    if (broken !== undefined || state.mode === 'halted') return E.left(stopped())
    if (state.mode === 'stopped') return E.right({ _tag: 'End', why: 'stopped', ...here() })
    if (step !== null && !isTaken) return E.right(give(step))
    return isOver(state) && state.pushing === null ? E.right({ _tag: 'End', why: 'complete', ...here() }) : undefined
  }

  const onAbort = (): void => dispatch({ _tag: 'Stopped' })
  signal?.addEventListener('abort', onAbort, { once: true })
  dispatch({ _tag: signal?.aborted === true ? 'Stopped' : 'Begun' })

  return {
    take: async () => {
      if (isAsked || isTaken) throw new Error('sampleAhead: take is asked for before the step before it has ended')
      note()
      isAsked = true
      try {
        for (;;) {
          const said = news()
          if (said !== undefined) return said
          await new Promise<void>((resolve) => {
            wake = resolve
          })
        }
      } finally {
        note()
        isAsked = false
      }
    },
    trained: () => {
      if (!isTaken) throw new RangeError('sampleAhead: nothing was taken, so nothing can have been learned from')
      note()
      step = null
      isTaken = false
      dispatch({ _tag: 'Trained' })
    },
    position: () => overlapPosition(state),
    close: async () => {
      signal?.removeEventListener('abort', onAbort)
      const why = isOver(state) ? 'complete' : 'stopped'
      dispatch({ _tag: 'Stopped' })
      while (playing.size > 0) await Promise.all([...playing.values()].map(({ outcome }) => outcome))
      await pushing
      for (const task of [...there.keys()]) discard(task)
      return { _tag: 'End', why, ...here() }
    },
  }
}

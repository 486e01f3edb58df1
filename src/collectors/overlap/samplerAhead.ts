/** Samples groups while others are trained on, as `overlapStep.ts` decides. */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Clock } from '../../core/capabilities.js'
import type { Failure } from '../../core/failure.js'
import { checkOptions } from '../../core/options.js'
import type { WeightFailure } from '../../data/weights.js'
import { liveClock } from '../../live/clock.js'
import { SAMPLE_AHEAD_OPTIONS } from '../optionKinds.js'
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

/** The outcome of sampling a group. */
export type PlayedTask<G> =
  | {
      readonly _tag: 'Played'
      readonly group: G
      /** The version that sampled its oldest token. */
      readonly oldest: number
      /** `no` for a group without a signal. Others are sampled instead, up to `refills`. */
      readonly signal: 'yes' | 'no'
    }
  | { readonly _tag: 'Failed'; readonly failure: Failure }
  | { readonly _tag: 'Cancelled' }

/** A group that is being sampled. */
export interface PlayingTask<G> {
  /** Resolves when all work on the group has stopped. Never rejects. */
  readonly outcome: Promise<PlayedTask<G>>
  readonly cancel: () => void
}

/**
 * A source of groups: environments and a policy (`rolloutGroups`), workers, or any other sampler.
 */
export interface GroupSource<G> {
  /**
   * Starts sampling the group of a task. Tasks are counted from 0. Equal tasks and weights give
   * equal groups, whenever they start. Throws for an invalid setup.
   */
  readonly play: (task: number) => PlayingTask<G>
  /** Frees a group that is not trained on. */
  readonly discard: (group: G) => void
}

/** Seconds since the previous step. */
export interface OverlapSeconds {
  /** Time in which the trainer was idle for lack of groups. */
  readonly waiting: number
  /** Time in which groups were being sampled. */
  readonly sampling: number
  /** Time in which sampling and training both ran, as seen from the training thread. */
  readonly both: number
}

/** A group of a training step. The caller owns it. */
export interface TakenTask<G> extends TrainedTask {
  readonly group: G
}

/** The groups of a step. */
export interface TakenStep<G> {
  readonly _tag: 'Step'
  /** The version that this step trains. */
  readonly version: number
  /** In order of their tasks. */
  readonly groups: readonly TakenTask<G>[]
  /** Groups dropped since the previous step. */
  readonly dropped: OverlapCounts['dropped']
  /** Failures of tasks since the previous step. */
  readonly failures: readonly Failure[]
  readonly seconds: OverlapSeconds
  /** The position to resume from after the step. Unfinished tasks outside the step stay open. */
  readonly position: RolloutPosition
}

/** The end of sampling. */
export interface OverlapEnd {
  readonly _tag: 'End'
  /** `complete`: the last step is done, or all tasks are finished. */
  readonly why: 'complete' | 'stopped'
  readonly version: number
  readonly position: RolloutPosition
  readonly counts: OverlapCounts
}

/** Sampling stopped because of a failure. */
export interface OverlapStopped extends Omit<OverlapEnd, '_tag' | 'why'> {
  readonly _tag: 'OverlapStopped'
  readonly reason: string
  readonly cause?: Failure
}

/** Pushes the weights of a version to the engine. Returns the version that it now samples with. */
export type PushVersion = (version: number) => TaskEither<WeightFailure, number>

/** A sampler that runs ahead of training. */
export interface SamplerAhead<G> {
  /**
   * Resolves with the next step's groups, or `End`. After `End`, every later call returns `End`.
   * Rejects with any error that `play` throws.
   */
  readonly take: TaskEither<OverlapStopped, TakenStep<G> | OverlapEnd>
  /**
   * Marks the taken groups as trained on. The next version is then pushed. Throws RangeError if no
   * groups were taken.
   */
  readonly trained: () => void
  /** Returns the position to resume from. Drawn tasks stay open until trained on or dropped. */
  readonly position: () => RolloutPosition
  /** Cancels all sampling, waits for a running push, and frees the groups that were not taken. */
  readonly close: () => Promise<OverlapEnd>
}

export interface SamplerAheadOptions extends OverlapStart {
  /**
   * Pushes the latest trained version. If a push takes longer than a step, the versions in between
   * are skipped. Only one push runs at a time.
   */
  readonly push: PushVersion
  /** Stops sampling when aborted. A step that was taken may still be trained on. */
  readonly signal?: AbortSignal
  readonly clock?: Clock
}

interface Stopwatch {
  /** Adds the time since the last call to each activity that was running. */
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

/**
 * Starts sampling groups as far ahead of training as the rules allow, and returns them step by
 * step.
 *
 * The selection of groups for a step and the treatment of stale groups follow `overlapStep`.
 * Sampling continues between calls of `take` and during training, unless training blocks the thread
 * that samples.
 *
 * Errors   throws RangeError for invalid rules. `take` returns `Left(OverlapStopped)` after too
 *          many failures or a failed push.
 * Effects  those of the source and of pushes, from now until `close`.
 * Cost     memory of at most `ahead` groups.
 *
 * @example const source = { play: () => ({ outcome: new Promise(() => {}), cancel: () => {} }),
 * discard: () => {} } sampleAhead(source, { groups: 2, maxLag: 1 }, { push: (version) => async ()
 * => right(version) }).position() // { next: 4, open: [0, 1, 2, 3] }
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
  /** Complete groups that were not taken. */
  const there = new Map<number, G>()
  let step: readonly TrainedTask[] | null = null
  let isTaken = false
  let isAsked = false
  let pushing: Promise<void> = Promise.resolve()
  let failures: Failure[] = []
  let told = state.counts.dropped
  /** The failure, or the thrown error, that stopped sampling. */
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
        outcome._tag === 'Failed' ? outcome.failure : { _tag: 'Cancelled', reason: `task ${task} was cancelled` },
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
        ? `${state.counts.dropped.failed} groups failed, more than the allowed share of ${state.rules.maxFailureShare}`
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

  /** Returns the result of `take`, or `undefined` if it is not available yet. */
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
      if (isAsked || isTaken) throw new Error('sampleAhead: take was called before the previous step ended')
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
      if (!isTaken) throw new RangeError('sampleAhead: trained was called without a taken step')
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

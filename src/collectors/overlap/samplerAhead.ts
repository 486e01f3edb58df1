/** Samples groups while others are trained on, as `overlapStep.ts` decides. */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Clock } from '../../core/capabilities.js'
import { condition } from '../../core/condition.js'
import type { Failure } from '../../core/failure.js'
import { checkOptions } from '../../core/options.js'
import type { WeightFailure } from '../../data/weights.js'
import { liveClock } from '../../live/clock.js'
import { SAMPLE_AHEAD_OPTIONS } from '../optionKinds.js'
import type { RolloutPosition } from '../rollouts/rolloutBatch.js'
import { type OverlapSeconds, overlapStopwatch } from './overlapSeconds.js'
import {
  type GivenRules,
  type OverlapCounts,
  type OverlapStart,
  type OverlapState,
  overlapPosition,
  overlapState,
} from './overlapState.js'
import { isOver, type OverlapAction, type OverlapEvent, overlapStep, type TrainedTask } from './overlapStep.js'
import { type GroupSource, type PlayedTask, sampledGroups } from './sampledGroups.js'

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
  const watch = overlapStopwatch(clock)
  const changed = condition()
  let step: readonly TrainedTask[] | null = null
  let phase: 'idle' | 'taking' | 'training' = 'idle'
  let pushing: Promise<void> = Promise.resolve()
  let failures: Failure[] = []
  let reported = state.counts.dropped
  /** The failure, or the thrown error, that stopped sampling. */
  let broken: { readonly error: unknown } | { readonly cause: Failure } | undefined

  const note = (): void =>
    watch.note({ waiting: phase === 'taking', sampling: groups.isPlaying(), learning: phase === 'training' })

  const dispatch = (event: OverlapEvent): void => {
    note()
    const [next, actions] = overlapStep(state, event)
    state = next
    for (const action of actions) perform(action)
    if (broken !== undefined && state.mode === 'running') dispatch({ _tag: 'Stopped' })
    changed.notify()
  }

  const onEnd = (task: number, outcome: PlayedTask<G>): void => {
    if (outcome._tag === 'Played') {
      dispatch({ _tag: 'Sampled', task, oldest: outcome.oldest, signal: outcome.signal })
      return
    }
    if (outcome._tag === 'Cancelled' && state.mode !== 'running') return // its task stays open
    if (state.live.has(task)) {
      const cancelled: Failure = { _tag: 'Cancelled', reason: `task ${task} was cancelled` }
      failures = [...failures, outcome._tag === 'Failed' ? outcome.failure : cancelled]
    }
    dispatch({ _tag: 'Failed', task })
  }
  const groups = sampledGroups(source, { onBeforeEnd: note, onEnd })

  const play = (task: number): void => {
    if (broken !== undefined) return
    try {
      groups.play(task)
    } catch (error) {
      broken = { error }
    }
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
        play(action.task)
        break
      case 'Cancel':
        groups.cancel(action.task)
        break
      case 'Discard':
        groups.discard(action.task)
        break
      case 'Train':
        step = action.tasks
        break
      case 'Push':
        pushing = pushVersion(action.version)
    }
  }

  const place = (): Omit<OverlapEnd, '_tag' | 'why'> => ({
    version: state.version,
    position: overlapPosition(state),
    counts: state.counts,
  })

  const stopped = (): OverlapStopped => {
    const cause = broken !== undefined && 'cause' in broken ? broken.cause : failures.at(-1)
    const reason =
      state.mode === 'halted'
        ? `${state.counts.dropped.failed} groups failed, more than the allowed share of ${state.rules.maxFailureShare}`
        : 'the weights could not be pushed'
    return { _tag: 'OverlapStopped', reason, ...(cause && { cause }), ...place() }
  }

  const takeStep = (tasks: readonly TrainedTask[]): TakenStep<G> => {
    note()
    phase = 'training'
    const { counts, version } = state
    const { next, open } = overlapPosition(state)
    const taken: TakenStep<G> = {
      _tag: 'Step',
      version,
      failures,
      seconds: watch.read(),
      dropped: difference(counts.dropped, reported),
      groups: tasks.map((each) => ({ ...each, group: groups.take(each.task) })),
      position: { next, open: open.filter((task) => !tasks.some((each) => each.task === task)) },
    }
    reported = counts.dropped
    failures = []
    return taken
  }

  /** Returns the result of `take`, or `undefined` if it is not available yet. */
  const available = (): E.Either<OverlapStopped, TakenStep<G> | OverlapEnd> | undefined => {
    if (broken !== undefined && 'error' in broken) throw broken.error
    if (broken !== undefined || state.mode === 'halted') return E.left(stopped())
    if (state.mode === 'stopped') return E.right({ _tag: 'End', why: 'stopped', ...place() })
    if (step !== null) return E.right(takeStep(step))
    return isOver(state) && state.pushing === null ? E.right({ _tag: 'End', why: 'complete', ...place() }) : undefined
  }

  const onAbort = (): void => dispatch({ _tag: 'Stopped' })
  signal?.addEventListener('abort', onAbort, { once: true })
  dispatch({ _tag: signal?.aborted === true ? 'Stopped' : 'Begun' })

  return {
    take: async () => {
      if (phase !== 'idle') throw new Error('sampleAhead: take was called before the previous step ended')
      note()
      phase = 'taking'
      try {
        for (;;) {
          const result = available()
          if (result !== undefined) return result
          await changed.wait()
        }
      } finally {
        note()
        if (phase === 'taking') phase = 'idle'
      }
    },
    trained: () => {
      if (phase !== 'training') throw new RangeError('sampleAhead: trained was called without a taken step')
      note()
      step = null
      phase = 'idle'
      dispatch({ _tag: 'Trained' })
    },
    position: () => overlapPosition(state),
    close: async () => {
      signal?.removeEventListener('abort', onAbort)
      const why = isOver(state) ? 'complete' : 'stopped'
      dispatch({ _tag: 'Stopped' })
      await pushing
      await groups.close()
      return { _tag: 'End', why, ...place() }
    },
  }
}

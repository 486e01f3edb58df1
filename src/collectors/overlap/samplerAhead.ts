/** Samples groups while others are trained on, as `overlapStep.ts` decides. */
import { type Clock, checkOptions, condition, type Failure } from '@tandem-rl/base'
import { liveClock } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { SAMPLE_AHEAD_OPTIONS } from '../optionKinds.js'
import type { RolloutPosition } from '../rollouts/rolloutBatch.js'
import { overlapDriver, type PushVersion } from './overlapDriver.js'
import { type OverlapSeconds, overlapStopwatch } from './overlapSeconds.js'
import {
  type GivenRules,
  type OverlapCounts,
  type OverlapStart,
  overlapPosition,
  overlapState,
} from './overlapState.js'
import { isOver, type TrainedTask } from './overlapStep.js'
import type { GroupSource } from './sampledGroups.js'

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
 * @example
 * const source = { play: () => ({ outcome: new Promise(() => {}), cancel: () => {} }), discard: () => {} }
 * const ahead = sampleAhead(source, { groups: 2, maxLag: 1 }, { push: (version) => async () => right(version) })
 * ahead.position() // { next: 4, open: [0, 1, 2, 3] }
 */
export const sampleAhead = <G>(
  source: GroupSource<G>,
  rules: GivenRules,
  options: SamplerAheadOptions,
): SamplerAhead<G> => {
  checkOptions('sampleAhead', options, SAMPLE_AHEAD_OPTIONS)
  const { push, signal, clock = liveClock, ...start } = options
  const watch = overlapStopwatch(clock)
  const changed = condition()
  let phase: 'idle' | 'taking' | 'training' = 'idle'
  const note = (): void =>
    watch.note({ waiting: phase === 'taking', sampling: driver.isSampling(), learning: phase === 'training' })
  const driver = overlapDriver(source, {
    state: overlapState(rules, start),
    push,
    onBeforeChange: note,
    onChange: changed.notify,
  })
  let reported = driver.state().counts.dropped

  const place = (): Omit<OverlapEnd, '_tag' | 'why'> => {
    const { version, counts } = driver.state()
    return { version, position: overlapPosition(driver.state()), counts }
  }

  const stopped = (pushFailure?: Failure): OverlapStopped => {
    const state = driver.state()
    const cause = pushFailure ?? driver.failures().at(-1)
    const reason =
      state.mode === 'halted'
        ? `${state.counts.dropped.failed} groups failed, more than the allowed share of ${state.rules.maxFailureShare}`
        : 'the weights could not be pushed'
    return { _tag: 'OverlapStopped', reason, ...(cause && { cause }), ...place() }
  }

  const takeStep = (tasks: readonly TrainedTask[]): TakenStep<G> => {
    note()
    phase = 'training'
    const { counts, version } = driver.state()
    const { next, open } = overlapPosition(driver.state())
    const taken: TakenStep<G> = {
      _tag: 'Step',
      version,
      failures: driver.takeFailures(),
      seconds: watch.read(),
      dropped: difference(counts.dropped, reported),
      groups: tasks.map((each) => ({ ...each, group: driver.take(each.task) })),
      position: { next, open: open.filter((task) => !tasks.some((each) => each.task === task)) },
    }
    reported = counts.dropped
    return taken
  }

  /** Returns the result of `take`, or `undefined` if it is not available yet. */
  const available = (): E.Either<OverlapStopped, TakenStep<G> | OverlapEnd> | undefined => {
    const [state, step, broken] = [driver.state(), driver.step(), driver.broken()]
    if (broken !== undefined && 'error' in broken) throw broken.error
    if (broken !== undefined || state.mode === 'halted') return E.left(stopped(broken?.cause))
    if (state.mode === 'stopped') return E.right({ _tag: 'End', why: 'stopped', ...place() })
    if (step !== null) return E.right(takeStep(step))
    return isOver(state) && state.pushing === null ? E.right({ _tag: 'End', why: 'complete', ...place() }) : undefined
  }

  const onAbort = (): void => driver.dispatch({ _tag: 'Stopped' })
  signal?.addEventListener('abort', onAbort, { once: true })
  driver.dispatch({ _tag: signal?.aborted === true ? 'Stopped' : 'Begun' })

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
      phase = 'idle'
      driver.dispatch({ _tag: 'Trained' })
    },
    position: () => overlapPosition(driver.state()),
    close: async () => {
      signal?.removeEventListener('abort', onAbort)
      const why = isOver(driver.state()) ? 'complete' : 'stopped'
      driver.dispatch({ _tag: 'Stopped' })
      await driver.close()
      return { _tag: 'End', why, ...place() }
    },
  }
}

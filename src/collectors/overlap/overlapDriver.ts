/** Carries out the actions of overlapped training: sampling, pushes, and the end of both. */
import type { Failure } from '@tandem-rl/base'
import type { WeightFailure } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { OverlapState } from './overlapState.js'
import { type OverlapAction, type OverlapEvent, overlapStep, type TrainedTask } from './overlapStep.js'
import { type GroupSource, type PlayedTask, sampledGroups } from './sampledGroups.js'

/** Pushes the weights of a version to the engine. Returns the version that it now samples with. */
export type PushVersion = (version: number) => TaskEither<WeightFailure, number>

/** The beginning of overlapped training, and the reactions to its changes. */
export interface OverlapDriverOptions {
  readonly state: OverlapState
  readonly push: PushVersion
  /** Called before each event, while the state is the old one. */
  readonly onBeforeChange: () => void
  readonly onChange: () => void
}

/** Why sampling ended: an error that `play` or `push` threw, or a push that failed. */
type Broken = { readonly error: unknown } | { readonly cause: Failure }

/** Overlapped training in progress. */
export interface OverlapDriver<G> {
  readonly dispatch: (event: OverlapEvent) => void
  readonly state: () => OverlapState
  /** The groups of the step that can be trained, or is. */
  readonly step: () => readonly TrainedTask[] | null
  /** Returns a complete group, which the caller owns from then on. */
  readonly take: (task: number) => G
  readonly isSampling: () => boolean
  /** Failures of tasks since `takeFailures`. */
  readonly failures: () => readonly Failure[]
  readonly takeFailures: () => readonly Failure[]
  readonly broken: () => Broken | undefined
  /** Waits for all sampling and the running push, then frees the groups that were not taken. */
  readonly close: () => Promise<void>
}

/**
 * Drives `overlapStep`: dispatches events and performs the actions that they cause.
 *
 * Effects  those of the source and of pushes.
 */
export const overlapDriver = <G>(
  source: GroupSource<G>,
  { state: start, push, onBeforeChange, onChange }: OverlapDriverOptions,
): OverlapDriver<G> => {
  let state = start
  let step: readonly TrainedTask[] | null = null
  let pushing: Promise<void> = Promise.resolve()
  let failures: readonly Failure[] = []
  let broken: Broken | undefined

  const dispatch = (event: OverlapEvent): void => {
    onBeforeChange()
    if (event._tag === 'Trained') step = null
    const [next, actions] = overlapStep(state, event)
    state = next
    for (const action of actions) perform(action)
    if (broken !== undefined && state.mode === 'running') dispatch({ _tag: 'Stopped' })
    onChange()
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
  const groups = sampledGroups(source, { onBeforeEnd: onBeforeChange, onEnd })

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

  return {
    dispatch,
    state: () => state,
    step: () => step,
    take: groups.take,
    isSampling: groups.isPlaying,
    failures: () => failures,
    takeFailures: () => {
      const taken = failures
      failures = []
      return taken
    },
    broken: () => broken,
    close: async () => {
      await pushing
      await groups.close()
    },
  }
}

/** Groups of a source: those that are being sampled, and complete ones until they are taken. */
import type { Failure } from '@tandem-rl/base'

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

/** The groups of a source by task. */
export interface SampledGroups<G> {
  /** Starts a task. Exceptions of the source are thrown. */
  readonly play: (task: number) => void
  readonly cancel: (task: number) => void
  /** Returns a complete group, which the caller owns from then on. */
  readonly take: (task: number) => G
  /** Frees a complete group. Other tasks are ignored. */
  readonly discard: (task: number) => void
  readonly isPlaying: () => boolean
  /** Waits until nothing is being sampled, then frees the groups that were not taken. */
  readonly close: () => Promise<void>
}

/**
 * Keeps the groups of a source. `onEnd` is called with each outcome, after the group of a played
 * task can be taken; `onBeforeEnd` before anything changes.
 */
export const sampledGroups = <G>(
  source: GroupSource<G>,
  {
    onBeforeEnd,
    onEnd,
  }: { readonly onBeforeEnd: () => void; readonly onEnd: (task: number, outcome: PlayedTask<G>) => void },
): SampledGroups<G> => {
  const playing = new Map<number, PlayingTask<G>>()
  const complete = new Map<number, G>()
  const discard = (task: number): void => {
    const group = complete.get(task)
    complete.delete(task)
    if (group !== undefined) source.discard(group)
  }
  return {
    play: (task) => {
      const work = source.play(task)
      playing.set(task, work)
      void work.outcome.then((outcome) => {
        onBeforeEnd()
        playing.delete(task)
        if (outcome._tag === 'Played') complete.set(task, outcome.group)
        onEnd(task, outcome)
      })
    },
    cancel: (task) => playing.get(task)?.cancel(),
    take: (task) => {
      const group = complete.get(task)! // only complete groups are trained on
      complete.delete(task)
      return group
    },
    discard,
    isPlaying: () => playing.size > 0,
    close: async () => {
      while (playing.size > 0) await Promise.all([...playing.values()].map(({ outcome }) => outcome))
      for (const task of [...complete.keys()]) discard(task)
    },
  }
}

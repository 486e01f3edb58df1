/** A turn of any log. */
import type { TrajectoryRecord } from 'tandem-rl/run'

/** A message that is not of the policy. */
export type Reply = NonNullable<TrajectoryRecord['replies']>[number]

/** A tool call of a turn. */
export type TurnCall = NonNullable<TrajectoryRecord['toolCalls']>[number]

/** One agent of an episode. */
export interface AgentLane {
  readonly name: string
  /** Its rollout, or `null` if the log has none for it. */
  readonly rollout: string | null
  /** Index of the lane that started it, or `null`. */
  readonly parent: number | null
  /** The relation to that lane, such as `subagent_call`, or `null`. */
  readonly link: string | null
  /** Its turns, from the start of the episode. */
  readonly turns: readonly { readonly start: number; readonly end: number; readonly text: string }[]
}

/** The agents of an episode in time. Without times, turns are counted. */
export interface EpisodeAgents {
  readonly unit: 'seconds' | 'turns'
  readonly lanes: readonly AgentLane[]
}

/** Returns the identifier of a record's rollout. */
export const rolloutId = ({ step, trajectoryId }: Pick<TrajectoryRecord, 'step' | 'trajectoryId'>): string =>
  `${step}-${trajectoryId}`.replace(/[^\w.-]/g, '_')

/** A turn as the viewer shows it, with fields that only logs of other programs have. */
export interface ViewedTurn extends TrajectoryRecord {
  /** Messages before the task, such as a system prompt. Default: none. */
  readonly context?: readonly Reply[]
  /** Sampled tokens, or characters if the log has no tokens. Default: the number of `tokens`. */
  readonly length?: number
  /** Default: `true` if the turn has no advantage. */
  readonly failed?: boolean
  /** The agents of its episode. Read from the first turn of a rollout. */
  readonly agents?: EpisodeAgents
}

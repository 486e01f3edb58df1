/** A turn of any log. */
import type { ReplyRecord, TrajectoryRecord } from '../../run/records.js'
import type { EpisodeAgents } from '../protocol.js'

/** A turn as the viewer shows it, with fields that only logs of other programs have. */
export interface ViewedTurn extends TrajectoryRecord {
  /** Messages before the task, such as a system prompt. Default: none. */
  readonly context?: readonly ReplyRecord[]
  /** Sampled tokens, or characters if the log has no tokens. Default: the number of `tokens`. */
  readonly length?: number
  /** Default: `true` if the turn has no advantage. */
  readonly failed?: boolean
  /** The agents of its episode. Read from the first turn of a rollout. */
  readonly agents?: EpisodeAgents
}

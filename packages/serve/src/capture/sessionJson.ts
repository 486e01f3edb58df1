/** Sessions as JSON, for the endpoints of the proxy. */
import { type CapturedSession, sessionTrajectories } from '@tandem-rl/text'
import type { LiveSession } from './sessions.js'

/** Returns a session without its calls. */
export const summary = ({ session, running, relaxed }: LiveSession): object => ({
  session_id: session.id,
  group_id: session.group,
  metadata: session.metadata,
  created: session.createdAt,
  calls: session.calls.length,
  tokens: session.calls.flatMap(({ completions }) => completions).reduce((sum, { ids }) => sum + ids.length, 0),
  running,
  ...(relaxed > 0 && { relaxed_tool_choices: relaxed }),
  reward: session.reward,
  end: session.end,
})

/** Returns the trajectories of a session. */
export const trajectoriesJson = (session: CapturedSession, decode: (ids: Int32Array) => string): object => {
  const { trajectories, ...rest } = sessionTrajectories(session, { decode })
  const rows = trajectories.map(({ ids, mask, logProbs, versions, ...row }) => ({
    ...row,
    ids: Array.from(ids),
    mask: Array.from(mask),
    logProbs: Array.from(logProbs),
    versions: Array.from(versions),
  }))
  return { session_id: session.id, reward: session.reward, end: session.end, trajectories: rows, ...rest }
}

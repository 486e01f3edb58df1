/** The requests about checkpoints that a run can answer. */
import type { ModelRequest } from './protocol.js'
import type { RunLog } from './runLog.js'

/** Returns the requests that a run with checkpoints can answer, as far as its files tell. */
export const modelFeatures = (log: RunLog, rollouts: number): readonly ModelRequest[] => {
  const { config, checkpoints, evaluations } = log
  if (config.recipe === null || checkpoints.length === 0) return []
  return [
    ...(['probability', 'chat', 'replay'] as const),
    ...(rollouts > 0 ? (['influence', 'fork'] as const) : []),
    ...(evaluations.length > 0 ? (['evaluate'] as const) : []),
  ]
}

/** The requests about checkpoints that a run can answer. */
import type { ModelRequest } from './protocol.js'
import type { RunLog } from './viewedRun.js'

/** Returns the requests that a run with checkpoints can answer, as far as its files tell. */
export const modelFeatures = (log: RunLog, rollouts: number): readonly ModelRequest[] => {
  const { recipe, checkpoints, evaluations } = log
  if (recipe === null || checkpoints.length === 0) return []
  return [
    ...(['probability', 'chat', 'replay'] as const),
    ...(rollouts > 0 ? (['influence', 'fork'] as const) : []),
    ...(evaluations.length > 0 ? (['evaluate'] as const) : []),
  ]
}

/** The tasks of a run in their order: those of an earlier run that are open, then new ones. */
import type { RolloutPosition } from './rolloutBatch.js'
import type { RunRules } from './settings.js'

/** A task with the environment that plays it. */
interface NextTask<O, P> {
  readonly task: number
  readonly env: ReturnType<RunRules<O, P>['env']>
}

/** Tasks that are drawn one by one. */
export interface TaskQueue<O, P> {
  readonly hasMore: () => boolean
  /** Draws the next task if its group fits into the free places, otherwise returns `undefined`. */
  readonly draw: (freePlaces: number) => NextTask<O, P> | undefined
  /** Returns the next new task, and the open ones that were not drawn. */
  readonly position: () => Pick<RolloutPosition, 'next' | 'open'>
}

/**
 * Makes a queue that begins at a position. Environments are made once for each task.
 *
 * Errors   `draw` throws RangeError for a group with more members than `maxInFlight`, and passes on
 *          exceptions of `env`.
 */
export const taskQueue = <O, P>(
  { env: envOf, maxInFlight, tasks }: Pick<RunRules<O, P>, 'env' | 'maxInFlight' | 'tasks'>,
  position: RolloutPosition,
): TaskQueue<O, P> => {
  const again = [...position.open]
  let { next } = position
  /** The next task, while it waits for free places. */
  let coming: NextTask<O, P> | undefined

  const comingTask = (): NextTask<O, P> => {
    const task = again[0] ?? next
    const env = envOf(task)
    if (env.batchSize > maxInFlight) {
      const reason = `a group of task ${task} has ${env.batchSize} members, more than maxInFlight ${maxInFlight}`
      throw new RangeError(`LLMCollector: ${reason}`)
    }
    return { task, env }
  }

  return {
    hasMore: () => again.length > 0 || next < tasks,
    draw: (freePlaces) => {
      coming ??= comingTask()
      if (coming.env.batchSize > freePlaces) return undefined
      const drawn = coming
      coming = undefined
      if (again.length > 0) again.shift()
      else next++
      return drawn
    },
    position: () => ({ next, open: again }),
  }
}

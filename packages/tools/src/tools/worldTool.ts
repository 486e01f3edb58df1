/** Text worlds as tools. */
import { checkOptions } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { WORLD_TOOL_OPTIONS } from '../optionKinds.js'
import type { TextWorld, WorldView } from '../worlds/textWorld.js'
import { type Tool, tool, toolFailure } from './tool.js'

/** The state of a world tool: the world, and the score so far. */
interface WorldToolState<S = unknown> {
  readonly world: S
  readonly score: number
}

export interface WorldToolOptions {
  /** Default: the name of the world. */
  readonly name?: string
  /** Returns the arguments that start the world, from the task. Default: its field `goal`. */
  readonly arguments?: (task: Task) => unknown
}

/** The default arguments of a world: the field `goal` of the task, or of its row. */
export const taskGoal = (task: Task): unknown => {
  if ('goal' in task) return task.goal
  const row = 'row' in task ? task.row : undefined
  return typeof row === 'object' && row !== null && 'goal' in row ? row.goal : undefined
}

/** Maximum length of an action in UTF-16 units. */
const LONGEST = 2000

/**
 * Makes a tool that plays a text world: one argument, `action`, and the observation as the result.
 * The world starts with the first call of an episode, from the arguments of the task, and its end
 * ends the episode. Its state is a value, so episodes can be replayed and forked. `worldReward`
 * pays the score.
 *
 * Errors   `call` gives `Left(ToolFailure)` of kind `infrastructure` if the row lacks the
 *          arguments. Environments must keep the row: `DatasetChatEnv({ keep: 'task' })`.
 *
 * @example
 * worldTool(shopWorld()).name // 'shop'
 */
export const worldTool = <S>(world: TextWorld<S>, options: WorldToolOptions = {}): Tool => {
  checkOptions('worldTool', options, WORLD_TOOL_OPTIONS)
  const { name = world.name, arguments: argumentsOf = taskGoal } = options
  const started = (task: Task | undefined): E.Either<string, WorldView<S>> =>
    task === undefined ? E.left('the environment has no tasks') : world.start(argumentsOf(task))
  return tool<{ readonly action: z.ZodString }, WorldToolState<S> | null>({
    name,
    description: world.description,
    parameters: { action: z.string().max(LONGEST) },
    initial: null,
    run:
      ({ action }, { state, episode }) =>
      async () => {
        const before = state === null ? started(episode?.task) : E.right({ state: state.world })
        if (E.isLeft(before)) {
          const reason = `the world '${world.name}' does not start: ${before.left} (set keep: 'task' to keep the row)`
          return E.left(toolFailure(name, 'infrastructure', reason))
        }
        const { observation, score, done, state: after } = world.act(before.right.state, action)
        const status = done ? 'finish' : 'success'
        return E.right({ content: observation, status, state: { world: after, score } })
      },
  })
}

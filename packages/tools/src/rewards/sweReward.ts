/** The tests of a repository as a reward. */

import { checkOptions } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { SharedEnvironment } from 'tandem-rl/envs'
import { type RewardService, reward } from 'tandem-rl/rewards'
import { SWE_REWARD_OPTIONS } from '../optionKinds.js'
import { type FileSession, seeded } from '../tools/fileSession.js'

export interface SWERewardOptions<T extends Task = Task> {
  /** The environment of `fileTools`. */
  readonly environment: SharedEnvironment<FileSession>
  /** A shell command that exits with 0 if the task is solved, such as `python3 -m unittest`. */
  readonly command: string
  /**
   * Returns files that are written before the command, by relative path. Hidden tests go here: they
   * replace what the policy wrote. Default: no files.
   */
  readonly files?: (task: T) => Readonly<Record<string, string>>
}

/**
 * Makes a reward that runs the tests of a repository in the sandbox of the conversation: 1 if the
 * command exits with 0, and 0 otherwise.
 *
 * Errors   `Left(RewardFailure)` if the sandbox ended, or a file cannot be written. Throws
 *          RangeError for unknown options.
 * Effects  runs the command in the environment.
 * Source   AgentFly `swe_reward`.
 *
 * @example
 * sweReward({ environment: fileTools().environment, command: 'python3 -m unittest' }).name // 'sweReward'
 */
export const sweReward = <T extends Task = Task>(options: SWERewardOptions<T>): RewardService<T> => {
  checkOptions('sweReward', options, SWE_REWARD_OPTIONS)
  const { environment, command, files } = options
  return reward<T, never, FileSession>(
    async ({ environment: session, task, signal }) => {
      if (files !== undefined) await seeded(session, files(task), signal)
      const result = await session.ask({ op: 'check', command }, signal)()
      if (E.isLeft(result)) throw new Error(result.left)
      if (E.isLeft(result.right)) throw new Error(result.right.left)
      return result.right.right === '0' ? 1 : 0
    },
    { name: 'sweReward', environment },
  )
}

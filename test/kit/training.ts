/** Small training runs for tests: word problems with a model of a few thousand parameters. */
import type { PolicyRun } from '../../src/doors/run.js'
import * as T from '../../src/index.js'
import { answeringModel } from './runs.js'

/** Settings of a run that takes seconds. */
export const smallPolicySettings = (changes: object = {}): T.PolicySettings =>
  T.policySettings.parse({
    steps: 4,
    tasks: { prompts: 3, group: 4 },
    sampling: { maxNewTokens: 8 },
    learner: { learningRate: 0.01 },
    keep: { evalEvery: 4, evalTasks: 4, checkpointEvery: 2, alarms: 'off' },
    ...changes,
  })

/** Builds a run of word problems with `answeringModel`. */
export const smallRun = async (settings: T.PolicySettings): Promise<PolicyRun> => {
  const model = await answeringModel()
  const key = T.keyFromSeed(settings.seed)
  const source = T.wordProblems(T.child(key, 'tasks'), { split: 'rl' })
  return T.defineRun(
    T.grpoParts(settings, {
      model,
      env: (tasks) => T.GSM8KEnv({ source, ...tasks }),
      heldOut: [{ env: (tasks) => T.GSM8KEnv({ source: T.heldOutProblems(), ...tasks }) }],
      metrics: () => ({ ours: 1 }),
    }),
  )
}

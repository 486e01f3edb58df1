import * as T from 'tandem-rl'
import { finalAnswer } from 'tandem-rl/datasets'

/** Word problems with our own reward: 1 for the right number, 0.2 less for a long answer. */
const problems = (source: T.TaskSource) => (tasks: T.TaskContext) =>
  T.SingleTurnEnv({
    ...{ source, ...tasks, solvedAt: 0.8 },
    reward: ({ prediction, answer }) => {
      const number = Number(/<answer>(-?\d+)<\/answer>/.exec(prediction)?.[1] ?? Number.NaN)
      return number !== T.orThrow(finalAnswer(answer)) ? 0 : prediction.length > 80 ? 0.8 : 1
    },
  })

export const recipe = T.defineRecipe({
  name: 'short',
  summary: 'Train a model by GRPO to answer word problems, and to be brief.',
  defaults: { steps: 20, sampling: { maxNewTokens: 64 } },
  env: (tasks, { key }) => problems(T.wordProblems(key, { split: 'rl' }))(tasks),
  heldOut: problems(T.heldOutProblems()),
})

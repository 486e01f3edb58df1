import * as T from 'tandem-rl'
import { finalAnswer } from 'tandem-rl/datasets'

/** Word problems with our own reward: 1 for the right number, 0.2 less for a long answer. */
const problems = (key: T.Key) => (tasks: T.TaskContext) =>
  T.MultiTurnEnv({
    ...{ source: T.wordProblems(key, { split: 'rl' }), ...tasks, maxTurns: 1, solvedAt: 0.8 },
    reply: ({ answer, task }) => {
      const number = Number(/<answer>(-?\d+)<\/answer>/.exec(answer)?.[1] ?? Number.NaN)
      const isRight = number === T.orThrow(finalAnswer(task.answer))
      return { done: true, reward: isRight ? (answer.length > 80 ? 0.8 : 1) : 0 }
    },
  })

export const recipe = T.defineRecipe({
  name: 'short',
  summary: 'Train a model by GRPO to answer word problems, and to be brief.',
  settings: T.withDefaults(T.policySettings, { steps: 20, sampling: { maxNewTokens: 64 } }),
  build: async (settings, context) => {
    const model = await T.orThrow(T.loadPretrained(settings.model))
    const env = problems(T.child(T.keyFromSeed(settings.seed), 'tasks'))
    return T.policyRun(settings, { model, env, heldOut: [{ env: problems(T.keyFromSeed(0)) }] }, context)
  },
})

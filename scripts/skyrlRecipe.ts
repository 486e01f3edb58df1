/** A recipe that a random model learns in few steps: reply with a lower-case letter. */
import * as T from 'tandem-rl'
import { envOfTask } from 'tandem-rl/envs'

const source = T.endlessTasks('letters', (index) => ({ id: String(index), query: 'Say a letter.', answer: '' }))

const env = (given: T.TaskSource) => (tasks: T.TaskContext) =>
  T.MultiTurnEnv({
    ...{ source: given, ...tasks, maxTurns: 1, solvedAt: 1 },
    reply: ({ answer }) => ({ done: true, reward: /[a-z]/.test(answer) ? 1 : 0 }),
  })

export const recipe = T.defineRecipe({
  name: 'letters',
  summary: 'Train a random model to reply with a lower-case letter.',
  settings: T.withDefaults(T.policySettings, { sampling: { maxNewTokens: 2 } }),
  envOfTask: () => envOfTask(env),
  build: async (settings, context) => {
    const model = T.orThrow(await T.loadPretrained(settings.model)())
    return T.defineRun(
      T.grpoParts(settings, { model, env: env(source), heldOut: [{ env: env(source), temperature: 1 }] }),
      context,
    )
  },
})

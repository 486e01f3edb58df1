/** GRPO on the questions of env.ts: `npm start`. */
import * as T from 'tandem-rl'
import { balls, questions } from './env.js'

export const recipe = T.defineRecipe({
  name: 'balls',
  summary: 'Train a model by GRPO to count what is left.',
  settings: T.withDefaults(T.policySettings, { steps: 20, sampling: { maxNewTokens: 64 }, keep: { evalTasks: 100 } }),
  build: async (settings, context) => {
    const key = T.keyFromSeed(settings.seed)
    const model = await T.orThrow(T.loadPretrained(settings.model))
    const heldOut = balls(questions(T.child(T.keyFromSeed(0), 'held out')))
    return T.policyRun(
      settings,
      { model, env: balls(questions(T.child(key, 'questions'))), heldOut: [{ env: heldOut }] },
      context,
    )
  },
})

/** Trains by GRPO on the questions of env.ts. Run it with `npm start`. */
import * as T from 'tandem-rl'
import { balls, questions } from './env.js'

export const recipe = T.defineRecipe({
  name: 'balls',
  summary: 'Train a model by GRPO to answer questions about the balls in a box.',
  settings: T.withDefaults(T.policySettings, { steps: 20, sampling: { maxNewTokens: 64 }, keep: { evalTasks: 100 } }),
  build: async (settings, context) => {
    const key = T.keyFromSeed(settings.seed)
    const model = await T.orThrow(T.loadPretrained(settings.model))
    const heldOut = balls(questions(T.keyFromSeed(0), 'held out'))
    return T.defineRun(
      T.grpoParts(settings, { model, env: balls(questions(key, 'trained')), heldOut: [{ env: heldOut }] }),
      context,
    )
  },
})

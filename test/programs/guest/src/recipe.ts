/** Trains by GRPO on the sums of dice. */
import * as T from 'tandem-rl'
import { diceEnv, diceTasks } from './env.js'

export const recipe = T.defineRecipe({
  name: 'dice',
  summary: 'Train a model by GRPO to add two dice.',
  defaults: { steps: 1, sampling: { maxNewTokens: 8 } },
  env: diceEnv(diceTasks(T.keyFromSeed(1))),
  heldOut: diceEnv(diceTasks(T.keyFromSeed(0))),
})

/**
 * Countdown by GRPO: reach a target with given numbers. Puzzles are generated; no data set is
 * needed.
 */
import * as T from 'tandem-rl'
import { COUNTDOWN_SYSTEM_PROMPT } from 'tandem-rl/envs'

const settings = {
  numbers: T.z.number().int().min(2).max(8).default(4).describe('numbers per puzzle'),
  largest: T.z.number().int().min(1).max(1000).default(100).describe('largest number in a puzzle'),
  systemPrompt: T.z.string().nullable().default(COUNTDOWN_SYSTEM_PROMPT).describe('system prompt; off: none'),
}

const puzzles = (tasks: T.TaskContext, { key, settings: chosen }: T.RecipeContext<typeof settings>) =>
  T.CountdownEnv({
    ...{ key, numCount: chosen.numbers, maxNumber: chosen.largest, ...tasks },
    ...(chosen.systemPrompt !== null && { systemPrompt: chosen.systemPrompt }),
  })

export const recipe = T.defineRecipe({
  name: 'countdown',
  summary: 'Train a model by GRPO to reach a target with given numbers and + - * /.',
  defaults: { steps: 200, sampling: { maxNewTokens: 256 } },
  settings,
  env: puzzles,
  heldOut: puzzles,
})

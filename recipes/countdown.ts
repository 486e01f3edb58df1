/**
 * Countdown by GRPO: reach a target with given numbers. Puzzles are generated; no data set is
 * needed.
 */
import * as T from 'tandem-rl'
import { COUNTDOWN_SYSTEM_PROMPT } from 'tandem-rl/envs'

/** The key of the held-out puzzles. It is fixed, so that runs can be compared. */
const HELD_OUT = T.child(T.keyFromSeed(0), 'held out')

export const recipe = T.defineRecipe({
  name: 'countdown',
  summary: 'Train a model by GRPO to reach a target with given numbers and + - * /.',
  settings: T.withDefaults(T.policySettings, { steps: 200, sampling: { maxNewTokens: 256 } }).extend({
    numbers: T.z.number().int().min(2).max(8).default(4).describe('numbers per puzzle'),
    largest: T.z.number().int().min(1).max(1000).default(100).describe('largest number in a puzzle'),
    systemPrompt: T.z.string().nullable().default(COUNTDOWN_SYSTEM_PROMPT).describe('system prompt; off: none'),
  }),
  build: async (settings, context) => {
    const model = await T.orThrow(T.loadPretrained(settings.model))
    const asked = settings.systemPrompt === null ? {} : { systemPrompt: settings.systemPrompt }
    const puzzles = (key: T.Key) => (tasks: T.TaskContext) =>
      T.CountdownEnv({
        ...{ key, numCount: settings.numbers, maxNumber: settings.largest },
        ...{ ...asked, ...tasks },
      })
    return T.policyRun(
      settings,
      {
        model,
        env: puzzles(T.child(T.keyFromSeed(settings.seed), 'puzzles')),
        heldOut: [{ env: puzzles(HELD_OUT) }],
      },
      context,
    )
  },
})

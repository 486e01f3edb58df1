/** Countdown by GRPO: make a target from given numbers. Puzzles are generated, so it needs no data set. */
import * as T from 'tandem-rl'

/** Held-out puzzles are the same in every run, so that runs can be compared. */
const HELD_OUT = T.child(T.keyFromSeed(0), 'held out')

export const recipe = T.defineRecipe({
  name: 'countdown',
  summary: 'Train a model by GRPO to reach a target with given numbers and + - * /.',
  settings: T.withDefaults(T.policySettings, { steps: 200, sampling: { maxNewTokens: 256 } }).extend({
    numbers: T.z.number().int().min(2).max(8).default(4).describe('numbers of a puzzle'),
    largest: T.z.number().int().min(1).max(1000).default(100).describe('the largest number of a puzzle'),
    systemPrompt: T.z
      .string()
      .nullable()
      .default(T.COUNTDOWN_SYSTEM_PROMPT)
      .describe('what the model is asked for before each problem; off: nothing'),
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

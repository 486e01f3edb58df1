/** MATH by GRPO: competition problems with boxed answers, compared as mathematical expressions. */
import * as T from 'tandem-rl'
import { MATH } from 'tandem-rl/datasets'
import { MATH_SYSTEM_PROMPT } from 'tandem-rl/envs'

export const recipe = T.defineRecipe({
  name: 'math',
  summary: 'Train a model by GRPO on competition problems with boxed answers.',
  settings: T.withDefaults(T.policySettings, { steps: 200, sampling: { maxNewTokens: 512 } }).extend({
    ...T.rowSettings({
      rows: 'rows with problem, level, type and solution',
      from: 'EleutherAI/hendrycks_math/algebra',
      columns: { problem: 'problem', solution: 'solution', level: 'level', type: 'type' },
    }),
    systemPrompt: T.z.string().nullable().default(MATH_SYSTEM_PROMPT).describe('system prompt; off: none'),
  }),
  build: async (settings, context) => {
    const model = await T.orThrow(T.loadPretrained(settings.model))
    const data = await T.orThrow(T.rowTasks(settings, MATH))
    const source = T.shuffled(data.train, T.child(T.keyFromSeed(settings.seed), 'tasks'))
    const asked = settings.systemPrompt === null ? {} : { systemPrompt: settings.systemPrompt }
    const problems = (from: typeof source) => (tasks: T.TaskContext) => T.MATHEnv({ source: from, ...asked, ...tasks })
    return T.defineRun(
      T.grpoParts(settings, {
        model,
        env: problems(source),
        heldOut: [{ env: problems(data.heldOut), tasks: data.heldOutTasks }],
      }),
      context,
    )
  },
})

/** Word problems by GRPO, as in `npm start`: a 0.85M model learns to reason before it answers. */
import * as T from 'tandem-rl'
import { envOfTask } from 'tandem-rl/envs'
import { DATASET_HELP } from 'tandem-rl/run'

const wordTasks = ({ seed, ...settings }: Parameters<typeof T.trainingTasks>[0] & { readonly seed: number }) =>
  T.orThrow(T.trainingTasks(settings, T.child(T.child(T.keyFromSeed(seed), 'tasks'), 'word problems')))

export const recipe = T.defineRecipe({
  name: 'wordProblems',
  summary: 'Train the embedded model by GRPO on generated word problems, or on rows with question and answer.',
  settings: T.policySettings.extend({
    dataset: T.z.string().nullable().default(null).describe(DATASET_HELP),
    evalDataset: T.z
      .string()
      .nullable()
      .default(null)
      .describe('rows for evaluation; off: held-out rows of the data set'),
  }),
  envOfTask: () => envOfTask((source) => (tasks) => T.GSM8KEnv({ source, ...tasks })),
  tasks: async (settings) => (await wordTasks(settings)).train,
  build: async (settings, context) => {
    const model = T.orThrow(await T.loadPretrained(settings.model)())
    const data = await wordTasks(settings)
    const source = T.shuffled(data.train, T.child(T.keyFromSeed(settings.seed), 'tasks'))
    return T.defineRun(
      T.grpoParts(settings, {
        model,
        env: (tasks) => T.GSM8KEnv({ source, ...tasks }),
        heldOut: [{ env: (tasks) => T.GSM8KEnv({ source: data.heldOut, ...tasks }), tasks: data.heldOutTasks }],
      }),
      context,
    )
  },
})

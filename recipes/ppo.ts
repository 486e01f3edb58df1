/** PPO: a value head on the policy's decoder, and advantages by GAE. */
import * as T from 'tandem-rl'
import { clippedSurrogate } from 'tandem-rl/objectives'
import { DATASET_HELP, learnerParts, valueRater } from 'tandem-rl/run'

const positive = T.z.number().int().positive()

export const recipe = T.defineRecipe({
  name: 'ppo',
  summary: 'Train a model by PPO with a value head on generated word problems, or on rows with question and answer.',
  settings: T.dataSettings.omit({ batch: true }).extend({
    tasks: T.settings.tasks,
    dataset: T.z.string().nullable().default(null).describe(DATASET_HELP),
    evalDataset: T.z
      .string()
      .nullable()
      .default(null)
      .describe('rows for evaluation; off: held-out rows of the data set'),
    maxNewTokens: positive.default(64).describe('longest completion in tokens'),
    ppo: T.z
      .strictObject({
        lambda: T.z.number().min(0).max(1).default(0.95).describe('lambda of GAE'),
        clip: T.z.number().min(0).default(0.2).describe('clip range of the ratio, on both sides of 1'),
        valueCoefficient: T.z.number().min(0).default(0.1).describe('coefficient of the value loss'),
      })
      .prefault({}),
  }),
  build: async (settings) => {
    const model = await T.orThrow(T.loadPretrained(settings.model))
    const key = T.keyFromSeed(settings.seed)
    const tasks = await T.orThrow(T.trainingTasks(settings, T.child(T.child(key, 'tasks'), 'word problems')))
    const source = T.shuffled(tasks.train, T.child(key, 'tasks'))
    const { prompts, group: repeats } = settings.tasks
    const { lambda, clip, valueCoefficient } = settings.ppo

    const clipped = T.policyLoss({ objective: clippedSurrogate({ clipEpsilon: [clip, clip] }) })
    const loss = T.ppoLoss({ policy: clipped, valueCoefficient })
    const learner = T.localLearner({ ...learnerParts(settings, model), loss })
    const sampling = { temperature: 1, maxNewTokens: settings.maxNewTokens }
    const policy = T.TransformersWrapper({ config: model.config, params: learner.weights(), sampling })
    const heldOut = ({ groups, start }: T.EvaluationContext) =>
      T.tokenEnv(T.GSM8KEnv({ source: tasks.heldOut, prompts: groups, repeats: 1, start }), model.text)
    return T.defineRun({
      env: ({ groups, start }) => T.tokenEnv(T.GSM8KEnv({ source, prompts: groups, repeats, start }), model.text),
      policy,
      rate: valueRater(learner),
      advantage: T.GAE({ lambda }),
      learner,
      evaluate: [
        T.evaluator({ env: heldOut, policy: policy.withSampling({ temperature: 0 }), tasks: tasks.heldOutTasks }),
      ],
      collect: { key: T.child(key, 'rollouts'), groups: prompts },
      record: { decode: (id) => model.text.tokenizer.decode([id], 'keep'), model },
    })
  },
})

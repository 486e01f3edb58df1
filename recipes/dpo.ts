/** Direct preference optimization: a model learns from pairs of answers, one of which was preferred. */
import * as T from 'tandem-rl'

/** Word problems with two right answers: worked out, which is preferred, and bare, which is the embedded model's habit. */
const workedOrBare = (key: T.Key, count: number): readonly T.PreferencePair[] => {
  const source = T.wordProblems(key, { split: 'train' })
  return Array.from({ length: count }, (_, i) => {
    const task = T.orThrow(source.at(i))
    return {
      prompt: T.History([T.message('user', task.query)]),
      chosen: T.supervisedCompletion(task, 'worked'),
      rejected: T.supervisedCompletion(task, 'bare'),
    }
  })
}

export const recipe = T.defineRecipe({
  name: 'dpo',
  summary:
    'Learn preferences: rows with prompt, chosen and rejected, or word problems worked out against bare answers.',
  settings: T.dataSettings.extend({
    dataset: T.z
      .string()
      .nullable()
      .default(null)
      .describe('rows with prompt, chosen, rejected, in a file or on the hub'),
    heldOut: T.z.number().int().positive().default(128).describe('rows that are kept for evaluation, the first ones'),
    beta: T.z.number().positive().default(0.1).describe('strength of the pull to the first weights'),
  }),
  build: async (settings) => {
    const model = await T.orThrow(T.loadPretrained(settings.model))
    const key = T.keyFromSeed(settings.seed)
    const rows =
      settings.dataset === null
        ? workedOrBare(T.child(key, 'rows'), settings.heldOut + 2048)
        : await T.orThrow(T.openRows(settings.dataset, T.PREFERENCE_ROW))
    const batches = { size: settings.batch, batch: T.pairBatch(model.text) }
    const train = { rows: rows.slice(settings.heldOut), key: T.child(key, 'order') }
    const data = T.rowBatches({ name: 'train', ...train, ...batches })
    const heldOut = T.rowBatches({ name: 'held out', rows: rows.slice(0, settings.heldOut), ...batches })

    const learner = T.localLearner({ ...T.learnerParts(settings, model), loss: T.dpoLoss({ beta: settings.beta }) })

    // The reference is the model as it was; it rates both answers of every pair.
    using first = T.sharedParams(model)
    const rate = T.pairRater(T.TransformersWrapper({ config: model.config, params: first.value }))

    const sampling = { temperature: 0, maxNewTokens: 64 }
    const policy = T.TransformersWrapper({ config: model.config, params: learner.weights(), sampling })
    const problems = ({ groups: prompts, start }: T.EvaluationContext) =>
      T.tokenEnv(T.GSM8KEnv({ source: T.heldOutProblems(), prompts, repeats: 1, start }), model.text)
    const solved = T.evaluator({ name: 'word problems', env: problems, policy, tasks: settings.keep.evalTasks })

    const run = T.defineRun({
      data,
      rate,
      learner,
      updater: T.inProcessUpdater(policy),
      evaluate: [T.lossEvaluator({ data: heldOut, learner, rate }), solved],
      record: { exports: T.exportsOf(settings, model, learner) },
    })
    return T.closing(run, policy.release)
  },
})

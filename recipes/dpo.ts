/** Direct preference optimization: trains a model on pairs of preferred and rejected answers. */
import { History, message } from '@tandem-rl/text'
import * as T from 'tandem-rl'
import { openRows, PREFERENCE_ROW, type PreferencePair, supervisedCompletion } from 'tandem-rl/datasets'
import { sharedParams } from 'tandem-rl/models'
import { closing, exportsOf, learnerParts, pairRater } from 'tandem-rl/run'

/**
 * Word problems with a worked solution as the chosen answer and a bare result as the rejected one.
 */
const workedOrBare = (key: T.Key, count: number): readonly PreferencePair[] => {
  const source = T.wordProblems(key, { split: 'train' })
  return Array.from({ length: count }, (_, i) => {
    const task = T.orThrow(source.at(i))
    return {
      prompt: History([message('user', task.query)]),
      chosen: supervisedCompletion(task, 'rationale'),
      rejected: supervisedCompletion(task, 'bare'),
    }
  })
}

export const recipe = T.defineRecipe({
  name: 'dpo',
  summary: 'Train a model by DPO on rows with prompt, chosen and rejected, or on worked against bare answers.',
  settings: T.dataSettings.extend({
    dataset: T.z.string().nullable().default(null).describe('rows with prompt, chosen, rejected: a file or hub name'),
    heldOut: T.settings.heldOut,
    beta: T.z.number().positive().default(0.1).describe('strength of the KL constraint to the initial weights'),
  }),
  build: async (settings) => {
    const model = await T.orThrow(T.loadPretrained(settings.model))
    const key = T.keyFromSeed(settings.seed)
    const rows =
      settings.dataset === null
        ? workedOrBare(T.child(key, 'rows'), (settings.heldOut ?? 128) + 2048)
        : await T.orThrow(openRows(settings.dataset, PREFERENCE_ROW))
    const { train, heldOut } = T.splitRows({
      ...{ rows, size: settings.batch, key: T.child(key, 'order') },
      ...(settings.heldOut !== null && { heldOut: settings.heldOut }),
      source: settings.dataset ?? 'the generated rows',
      batch: T.pairBatch(model.text, { maxTokens: model.config.maxPositions }),
    })

    const learner = T.localLearner({ ...learnerParts(settings, model), loss: T.dpoLoss({ beta: settings.beta }) })

    // The reference is the initial model. It scores both answers of every pair.
    using first = sharedParams(model)
    const rate = pairRater(T.TransformersWrapper({ config: model.config, params: first.value }))

    const sampling = { temperature: 0, maxNewTokens: 64 }
    const policy = T.TransformersWrapper({ config: model.config, params: learner.weights(), sampling })
    const problems = ({ groups: prompts, start }: T.EvaluationContext) =>
      T.tokenEnv(T.GSM8KEnv({ source: T.heldOutProblems(), prompts, repeats: 1, start }), model.text)
    const solved = T.evaluator({ name: 'word problems', env: problems, policy, tasks: settings.keep.evalTasks })

    const run = T.defineRun({
      data: train,
      rate,
      learner,
      updater: T.inProcessUpdater(policy),
      evaluate: [T.lossEvaluator({ data: heldOut, learner, rate }), ...(settings.dataset === null ? [solved] : [])],
      record: { model, exports: exportsOf(settings, model, learner) },
    })
    return closing(run, policy.release)
  },
})

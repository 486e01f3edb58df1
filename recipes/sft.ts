/** Supervised fine-tuning on conversations; by default, on worked solutions of word problems. */
import { History, message } from '@tandem-rl/text'
import * as T from 'tandem-rl'
import { CONVERSATION_ROW, openRows, supervisedCompletion } from 'tandem-rl/datasets'
import { closing, exportsOf, learnerParts } from 'tandem-rl/run'

/**
 * Generated word problems with worked solutions. The embedded model mostly answers without working.
 */
const workedProblems = (key: T.Key, count: number): readonly History[] => {
  const source = T.wordProblems(key, { split: 'train' })
  return Array.from({ length: count }, (_, i) => {
    const task = T.orThrow(source.at(i))
    return History([message('user', task.query), message('assistant', supervisedCompletion(task, 'rationale'))])
  })
}

export const recipe = T.defineRecipe({
  name: 'sft',
  summary: 'Fine-tune a model on conversations: rows with messages, or generated word problems with worked solutions.',
  settings: T.withDefaults(T.dataSettings, { learner: { learningRate: 5e-4 } }).extend({
    dataset: T.z
      .string()
      .nullable()
      .default(null)
      .describe('rows with messages of role and content: a file or hub name'),
    heldOut: T.settings.heldOut,
  }),
  build: async (settings) => {
    const model = await T.orThrow(T.loadPretrained(settings.model))
    const key = T.keyFromSeed(settings.seed)
    const rows =
      settings.dataset === null
        ? workedProblems(T.child(key, 'rows'), (settings.heldOut ?? 128) + 2048)
        : await T.orThrow(openRows(settings.dataset, CONVERSATION_ROW))
    const { train, heldOut } = T.splitRows({
      ...{ rows, size: settings.batch, key: T.child(key, 'order') },
      ...(settings.heldOut !== null && { heldOut: settings.heldOut }),
      source: settings.dataset ?? 'the generated rows',
      batch: T.chatBatch(model.text, { maxTokens: model.config.maxPositions }),
    })

    const learner = T.localLearner({ ...learnerParts(settings, model), loss: T.SFTLoss({ reduction: 'token-mean' }) })

    // Without own rows, evaluate the share of word problems that the model solves, too.
    const sampling = { temperature: 0, maxNewTokens: 64 }
    const policy = T.TransformersWrapper({ config: model.config, params: learner.weights(), sampling })
    const problems = ({ groups: prompts, start }: T.EvaluationContext) =>
      T.tokenEnv(T.GSM8KEnv({ source: T.heldOutProblems(), prompts, repeats: 1, start }), model.text)
    const solved = T.evaluator({ name: 'word problems', env: problems, policy, tasks: settings.keep.evalTasks })

    const run = T.defineRun({
      data: train,
      learner,
      updater: T.inProcessUpdater(policy),
      evaluate: [
        T.lossEvaluator({ data: heldOut, learner, score: 'loss' }),
        ...(settings.dataset === null ? [solved] : []),
      ],
      record: { model, exports: exportsOf(settings, model, learner) },
    })
    return closing(run, policy.release)
  },
})

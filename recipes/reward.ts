/** Reward model: trains a value head on a decoder to predict which of two answers is preferred. */
import { History, message } from '@tandem-rl/text'
import * as T from 'tandem-rl'
import { openRows, PREFERENCE_ROW, type PreferencePair, supervisedCompletion } from 'tandem-rl/datasets'
import { learnerParts } from 'tandem-rl/run'

/** Word problems with a right and a wrong answer. Only the final number differs. */
const rightOrWrong = (key: T.Key, count: number): readonly PreferencePair[] => {
  const source = T.wordProblems(key, { split: 'train' })
  return Array.from({ length: count }, (_, i) => {
    const task = T.orThrow(source.at(i))
    const chosen = supervisedCompletion(task, 'rationale')
    const off = 1 + T.uniformInteger(T.child(key, i), 9)
    const rejected = chosen.replace(/<answer>(-?\d+)/, (_, number) => `<answer>${Number(number) + off}`)
    return { prompt: History([message('user', task.query)]), chosen, rejected }
  })
}

export const recipe = T.defineRecipe({
  name: 'reward',
  summary:
    'Train a reward model on rows with prompt, chosen and rejected, or on right and wrong answers to word problems.',
  settings: T.withDefaults(T.dataSettings, { learner: { learningRate: 1e-3 } }).extend({
    dataset: T.z.string().nullable().default(null).describe('rows with prompt, chosen, rejected: a file or hub name'),
    heldOut: T.settings.heldOut,
    center: T.z
      .number()
      .min(0)
      .default(0.01)
      .describe('coefficient of the squared sum of rewards, which centers them around 0'),
  }),
  build: async (settings) => {
    const model = await T.orThrow(T.loadPretrained(settings.model))
    const key = T.keyFromSeed(settings.seed)
    const rows =
      settings.dataset === null
        ? rightOrWrong(T.child(key, 'rows'), (settings.heldOut ?? 128) + 2048)
        : await T.orThrow(openRows(settings.dataset, PREFERENCE_ROW))
    const { train, heldOut } = T.splitRows({
      ...{ rows, size: settings.batch, key: T.child(key, 'order') },
      ...(settings.heldOut !== null && { heldOut: settings.heldOut }),
      source: settings.dataset ?? 'the generated rows',
      batch: T.pairBatch(model.text, { maxTokens: model.config.maxPositions }),
    })

    // The value head scores the end of the answer. Checkpoints store it in value_head.safetensors.
    const loss = T.rewardModelLoss({ centerRewardsCoefficient: settings.center })
    const learner = T.localLearner({ ...learnerParts(settings, model), loss })
    return T.defineRun({ data: train, learner, evaluate: [T.lossEvaluator({ data: heldOut, learner })] })
  },
})

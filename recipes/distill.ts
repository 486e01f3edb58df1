/** On-policy distillation: a student samples, and a teacher scores every sampled token. */
import { History, message } from '@tandem-rl/text'
import * as T from 'tandem-rl'
import { supervisedCompletion } from 'tandem-rl/datasets'
import { sharedParams } from 'tandem-rl/models'
import { DATASET_HELP, exportsOf, learnerParts, teacherRater, trainModel } from 'tandem-rl/run'

/** Trains a default teacher: the student after a few supervised steps on worked solutions. */
const taughtTeacher = (model: T.Pretrained, key: T.Key, context: T.BuildContext): Promise<T.Pretrained> => {
  const source = T.wordProblems(key, { split: 'train' })
  const conversation = (index: number): History => {
    const task = T.orThrow(source.at(index))
    return History([message('user', task.query), message('assistant', supervisedCompletion(task, 'rationale'))])
  }
  const stage = { name: 'teacher', conversation, conversations: 1280, learningRate: 5e-4 }
  const training = trainModel({ model, stages: [stage] }, (event) => {
    if (event.type === 'step' && event.step % 10 === 0)
      context.onProgress?.(`teacher ${event.step}/${event.steps}: nll ${event.nll.toFixed(3)}`)
  })
  return T.orThrow(training)
}

export const recipe = T.defineRecipe({
  name: 'distill',
  summary:
    'Train a student on its own samples, scored by a teacher, on word problems or rows with question and answer.',
  settings: T.dataSettings.omit({ batch: true }).extend({
    tasks: T.settings.tasks,
    dataset: T.z.string().nullable().default(null).describe(DATASET_HELP),
    evalDataset: T.z.string().nullable().default(null).describe('rows for evaluation; off: held-out rows'),
    maxNewTokens: T.z.number().int().positive().default(64).describe('longest completion in tokens'),
    teacher: T.z
      .string()
      .nullable()
      .default(null)
      .describe("model with the student's tokenizer; off: the student after supervised training on worked solutions"),
  }),
  build: async (settings, context) => {
    const model = await T.orThrow(T.loadPretrained(settings.model))
    const key = T.keyFromSeed(settings.seed)
    const { text } = model
    const tasks = await T.orThrow(T.trainingTasks(settings, T.child(T.child(key, 'tasks'), 'word problems')))
    const source = T.shuffled(tasks.train, T.child(key, 'tasks'))
    const { prompts, group: repeats } = settings.tasks

    const learner = T.localLearner({ ...learnerParts(settings, model), loss: T.DistillationLoss() })
    const sampling = { temperature: 1, maxNewTokens: settings.maxNewTokens }
    const student = T.TransformersWrapper({ config: model.config, params: learner.weights(), sampling })
    const teacher =
      settings.teacher === null
        ? await taughtTeacher(model, T.child(key, 'teacher'), context)
        : await T.orThrow(T.loadPretrained(settings.teacher))
    using params = sharedParams(teacher)

    const heldOut = ({ groups, start }: T.EvaluationContext) =>
      T.tokenEnv(T.GSM8KEnv({ source: tasks.heldOut, prompts: groups, repeats: 1, start }), text)
    const greedy = student.withSampling({ temperature: 0 })
    return T.defineRun({
      env: ({ groups, start }) => T.tokenEnv(T.GSM8KEnv({ source, prompts: groups, repeats, start }), text),
      policy: student,
      rate: teacherRater(T.TransformersWrapper({ config: teacher.config, params: params.value })),
      learner,
      evaluate: [T.evaluator({ env: heldOut, policy: greedy, tasks: tasks.heldOutTasks })],
      collect: { key: T.child(key, 'rollouts'), groups: prompts },
      record: {
        ...{ model, exports: exportsOf(settings, model, learner) },
        decode: (id) => text.tokenizer.decode([id], 'keep'),
      },
    })
  },
})

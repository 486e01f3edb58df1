/** Text reversal: a tokenizer and a model from scratch, supervised training, then GRPO. */
import { History, message } from '@tandem-rl/text'
import * as T from 'tandem-rl'
import { envOfTask } from 'tandem-rl/envs'

const LETTERS = [...'abcdefgh']

/** Random words of three to five letters. */
const words = (key: T.Key): T.TaskSource =>
  T.endlessTasks('words', (index) => {
    const own = T.child(key, index)
    const length = 3 + T.uniformInteger(T.child(own, 'length'), 3)
    const word = Array.from({ length }, (_, i) => LETTERS[T.uniformInteger(T.child(own, i), LETTERS.length)]).join('')
    return { id: String(index), query: word, answer: [...word].reverse().join('') }
  })

const env = (source: T.TaskSource) => (tasks: T.TaskContext) =>
  T.MultiTurnEnv({
    ...{ source, ...tasks, maxTurns: 1, solvedAt: 1 },
    reply: ({ answer, task }) => ({ done: true, reward: answer === task.answer ? 1 : 0 }),
  })

export const recipe = T.defineRecipe({
  name: 'reverseText',
  summary: 'Train a tiny model from scratch that mostly repeats words, then train it by GRPO to reverse them.',
  settings: T.withDefaults(T.policySettings.omit({ model: true }), {
    ...{ steps: 140, sampling: { maxNewTokens: 8 }, learner: { learningRate: 3e-4 } },
  }).extend({
    shown: T.z.number().int().positive().default(16_384).describe('reversed words for supervised training before GRPO'),
  }),
  envOfTask: () => envOfTask(env),
  tasks: ({ seed }) => words(T.child(T.keyFromSeed(seed), 'train')),
  build: async (settings, context) => {
    const key = T.keyFromSeed(settings.seed)
    const shown = words(T.child(key, 'shown'))
    const said = (index: number, answered: 'reversed' | 'repeated'): History => {
      const { query, answer } = T.orThrow(shown.at(index))
      return History([message('user', query), message('assistant', answered === 'reversed' ? answer : query)])
    }
    // The first stage teaches reversal, the second a bad habit: nine of ten words are repeated.
    const reversing = { name: 'reversing', conversation: (i: number) => said(i, 'reversed'), learningRate: 3e-3 }
    const repeating = {
      ...{ name: 'repeating', learningRate: 1e-3 },
      conversation: (i: number) => said(i, i % 10 === 0 ? 'reversed' : 'repeated'),
    }
    const model = await T.orThrow(
      T.makeModel(
        {
          family: 'qwen3',
          sizes: { hiddenSize: 64, layers: 2, heads: 4 },
          tokenizer: { texts: ['user\nassistant\n'], vocabularySize: 270 },
          key,
          stages: [
            { ...reversing, conversations: settings.shown },
            { ...repeating, conversations: Math.ceil(settings.shown / 8) },
          ],
        },
        (event) => {
          if (event.type === 'step' && event.step % 10 === 0)
            context.onProgress?.(`${event.stage} ${event.step}/${event.steps}: nll ${event.nll.toFixed(3)}`)
        },
      ),
    )
    return T.defineRun(
      T.grpoParts(settings, {
        model,
        env: env(words(T.child(key, 'train'))),
        heldOut: [
          {
            name: 'random words',
            env: env(words(T.child(T.keyFromSeed(0), 'held out'))),
            temperature: 1,
            sharedTasks: 'allow',
          },
        ],
      }),
      context,
    )
  },
})

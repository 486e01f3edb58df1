/** Reversing text: a tokenizer and a model from scratch, a little supervised training, then GRPO. */
import * as T from 'tandem-rl'

const LETTERS = [...'abcdefgh']

/** Random words of three to five letters. */
const words = (key: T.Key): T.TaskSource =>
  T.endlessTasks('words', (index) => {
    const own = T.child(key, index)
    const length = 3 + T.uniformInteger(T.child(own, 'length'), 3)
    const word = Array.from({ length }, (_, i) => LETTERS[T.uniformInteger(T.child(own, i), LETTERS.length)]).join('')
    return { id: String(index), query: word, answer: [...word].reverse().join('') }
  })

/** The share of the letters before the first wrong one, cubed: nearly right is worth much less than right. */
const rightLetters = (said: string, { answer }: T.Task): number => {
  const wrong = [...answer].findIndex((letter, i) => said[i] !== letter)
  return ((wrong === -1 ? answer.length : wrong) / Math.max(answer.length, said.length)) ** 3
}

export const recipe = T.defineRecipe({
  name: 'reverseText',
  summary: 'Make a tiny model, show it reversed words until it gets a few right, and let GRPO do the rest.',
  settings: T.policySettings.extend({
    steps: T.z.number().int().positive().default(100).describe('batches that are collected and learned from'),
    model: T.z.literal('made here').default('made here').describe('this recipe makes its model'),
    learner: T.learnerSettings(1e-3),
    shown: T.z.number().int().positive().default(4608).describe('words that the model is shown reversed first'),
  }),
  build: async (settings, context) => {
    const key = T.keyFromSeed(settings.seed)
    const shown = words(T.child(key, 'shown'))
    const conversation = (index: number): T.History => {
      const { query, answer } = T.orThrow(shown.at(index))
      return T.History([T.message('user', query), T.message('assistant', answer)])
    }
    const model = await T.orThrow(
      T.makeModel(
        {
          family: 'qwen3',
          sizes: { hiddenSize: 64, layers: 2, heads: 4 },
          tokenizer: { texts: ['user\nassistant\n'], vocabularySize: 270 },
          key,
          stages: [{ name: 'first', conversation, conversations: settings.shown, learningRate: 3e-3 }],
        },
        (event) => {
          if (event.type === 'step' && event.step % 10 === 0)
            context.onProgress?.(`${event.stage} ${event.step}/${event.steps}: nll ${event.nll.toFixed(3)}`)
        },
      ),
    )
    const env = (source: T.TaskSource) => (tasks: T.TaskContext) =>
      T.MultiTurnEnv({
        ...{ source, ...tasks, maxTurns: 1, solvedAt: 1 },
        reply: ({ answer, task }) => ({ done: true, reward: rightLetters(answer, task) }),
      })
    return T.policyRun(
      settings,
      {
        model,
        env: env(words(T.child(key, 'train'))),
        heldOut: [{ env: env(words(T.child(T.keyFromSeed(0), 'held out'))), temperature: 1, measure: 'return' }],
      },
      context,
    )
  },
})

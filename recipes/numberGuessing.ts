/** Number guessing by GRPO: a game of several turns. A model that guesses at random learns to follow hints. */
import * as T from 'tandem-rl'

/** Three guesses find each of 7 numbers by halving, and 37 % of them at random. */
const settings = T.withDefaults(T.policySettings.omit({ model: true }), {
  ...{ steps: 100, tasks: { prompts: 7, group: 16 }, sampling: { maxNewTokens: 4 }, learner: { learningRate: 2e-3 } },
}).extend({
  largest: T.z.number().int().min(2).max(99).default(7).describe('secrets are 1 .. largest'),
  guesses: T.z.number().int().positive().default(3).describe('guesses in a game'),
  shown: T.z.number().int().positive().default(3200).describe('games that the start model is made from'),
})

/** Messages without roles between them: a hint is the last token that the model reads. */
const FORMAT: T.ChatFormat = {
  template:
    "{% for message in messages %}{{ message.content }}{% if message.role == 'assistant' %}<|end|>{% endif %}{% endfor %}",
  specialTokens: ['<|pad|>', '<|end|>'],
  endOfTurn: '<|end|>',
  padToken: '<|pad|>',
}

const QUERY = 'Guess my number.'

const hint = (guess: number, secret: number): string => (guess < secret ? 'higher' : 'lower')

/** A game of a player who ignores the hints: it shows the form of a guess, and nothing else. */
const shownGame = (key: T.Key, { largest, guesses }: T.z.output<typeof settings>): T.History => {
  const secret = 1 + T.uniformInteger(key, largest)
  const drawn = Array.from({ length: guesses }, (_, turn) => 1 + T.uniformInteger(key, largest, turn + 1))
  const found = drawn.indexOf(secret)
  const played = drawn.slice(0, found === -1 ? guesses : found + 1)
  const messages = played.flatMap((guess, turn) => [
    T.message('user', turn === 0 ? QUERY : hint(drawn[turn - 1]!, secret)), // there is a guess before it
    T.message('assistant', String(guess)),
  ])
  return T.History(messages)
}

export const recipe = T.defineRecipe({
  name: 'numberGuessing',
  summary: 'Make a tiny model and train it by GRPO to guess a number from hints, over several turns.',
  settings,
  build: async (chosen, context) => {
    const key = T.keyFromSeed(chosen.seed)
    const game = (index: number) => shownGame(T.child(T.child(key, 'games'), index), chosen)
    const texts = Array.from({ length: 100 }, (_, i) => game(i).messages.map(T.textOf).join('\n'))
    const model = await T.orThrow(
      T.makeModel(
        {
          family: 'qwen3',
          sizes: { hiddenSize: 64, layers: 1, heads: 4 },
          tokenizer: { texts, vocabularySize: 300, format: FORMAT },
          key: T.child(key, 'model'),
          stages: [{ name: 'games', conversation: game, conversations: chosen.shown, learningRate: 3e-3 }],
        },
        (event) => {
          if (event.type === 'step' && event.step % 10 === 0)
            context.onProgress?.(`start model: step ${event.step} of ${event.steps}, nll ${event.nll.toFixed(3)}`)
        },
      ),
    )
    const secrets = Array.from({ length: chosen.largest }, (_, i) => ({ query: QUERY, answer: String(i + 1) }))
    const source = T.taskList('secrets', secrets)
    const env = (from: T.TaskSource) => (tasks: T.TaskContext) =>
      T.MultiTurnEnv({
        ...{ source: from, ...tasks, maxTurns: chosen.guesses },
        reply: ({ answer, task }) => {
          const [guess, secret] = [Number(answer), Number(task.answer)]
          return guess === secret ? { done: true, reward: 1 } : hint(guess, secret)
        },
      })
    const heldOut = [{ env: env(source), tasks: chosen.largest }]
    return T.policyRun(chosen, { model, env: env(T.shuffled(source, T.child(key, 'order'))), heldOut }, context)
  },
})

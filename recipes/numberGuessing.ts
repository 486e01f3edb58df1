/** Number guessing by GRPO: in a game of several turns, a random guesser learns to follow hints. */
import { appendMessage, History, message, textOf } from '@tandem-rl/text'
import * as T from 'tandem-rl'
import { envOfTask } from 'tandem-rl/envs'
import { BARE_CHAT } from 'tandem-rl/models'

/** With three guesses, bisection finds each of 7 numbers; random guessing finds 37 % of them. */
const settings = T.withDefaults(T.policySettings.omit({ model: true }), {
  ...{ steps: 120, tasks: { prompts: 7, group: 16 }, sampling: { maxNewTokens: 4 }, learner: { learningRate: 2e-3 } },
}).extend({
  largest: T.z.number().int().min(2).max(99).default(7).describe('secrets are 1 .. largest'),
  guesses: T.z.number().int().positive().default(3).describe('guesses per game'),
  shown: T.z.number().int().positive().default(8000).describe('games for training the start model'),
})

const QUERY = 'Guess my number.'

const hint = (guess: number, secret: number): string => (guess < secret ? 'higher' : 'lower')

/** The range of numbers that fit the hints so far. */
interface Left {
  readonly low: number
  readonly high: number
}

const narrowed = ({ low, high }: Left, guess: number, secret: number): Left =>
  guess < secret ? { low: Math.max(low, guess + 1), high } : { low, high: Math.min(high, guess - 1) }

/** A game for training the start model: seven of ten players ignore the hints. */
const shownGame = (key: T.Key, { largest, guesses }: Chosen): History => {
  const secret = 1 + T.uniformInteger(key, largest)
  const isAttentive = T.uniform(key, 1) < 0.3
  let [history, left]: [History, Left] = [History([message('user', QUERY)]), { low: 1, high: largest }]
  for (let turn = 1; turn <= guesses; turn++) {
    const { low, high } = isAttentive ? left : { low: 1, high: largest }
    const guess = low + T.uniformInteger(key, high - low + 1, turn + 1)
    history = appendMessage(history, message('assistant', String(guess)))
    if (guess === secret || turn === guesses) break
    left = narrowed(left, guess, secret)
    history = appendMessage(history, message('user', hint(guess, secret)))
  }
  return history
}

type Chosen = T.z.output<typeof settings>

const secrets = ({ largest }: Chosen): T.TaskSource =>
  T.taskList(
    'secrets',
    Array.from({ length: largest }, (_, i) => ({ query: QUERY, answer: String(i + 1) })),
  )

const guessing = (chosen: Chosen) => (source: T.TaskSource) => (tasks: T.TaskContext) =>
  T.MultiTurnEnv({
    ...{ source, ...tasks, maxTurns: chosen.guesses, parts: { found: 1, fits: 0.2 } },
    initial: (): Left => ({ low: 1, high: chosen.largest }),
    reply: ({ answer, task, state }) => {
      const [guess, secret] = [Number(answer), Number(task.answer)]
      if (!Number.isInteger(guess)) return 'A number, please.'
      const fits = guess >= state.low && guess <= state.high ? 1 : 0
      if (guess === secret) return { done: true, reward: { found: 1, fits } }
      return { message: hint(guess, secret), reward: { found: 0, fits }, state: narrowed(state, guess, secret) }
    },
  })

export const recipe = T.defineRecipe({
  name: 'numberGuessing',
  summary: 'Make a tiny model and train it by GRPO to guess a number from hints, over several turns.',
  settings,
  envOfTask: (chosen) => envOfTask(guessing(chosen)),
  tasks: secrets,
  build: async (chosen, context) => {
    const key = T.keyFromSeed(chosen.seed)
    const game = (index: number) => shownGame(T.child(T.child(key, 'games'), index), chosen)
    const texts = Array.from({ length: 100 }, (_, i) => game(i).messages.map(textOf).join('\n'))
    const model = await T.orThrow(
      T.makeModel(
        {
          family: 'qwen3',
          sizes: { hiddenSize: 64, layers: 1, heads: 4 },
          tokenizer: { texts, vocabularySize: 300, format: BARE_CHAT },
          key: T.child(key, 'model'),
          stages: [{ name: 'games', conversation: game, conversations: chosen.shown, batch: 32, learningRate: 5e-3 }],
        },
        (event) => {
          if (event.type === 'step' && event.step % 50 === 0)
            context.onProgress?.(`start model: step ${event.step} of ${event.steps}, nll ${event.nll.toFixed(3)}`)
        },
      ),
    )
    const [source, env] = [secrets(chosen), guessing(chosen)]
    const heldOut = [{ env: env(source), sharedTasks: 'allow' as const }]
    return T.defineRun(
      T.grpoParts(chosen, { model, env: env(T.shuffled(source, T.child(key, 'order'))), heldOut }),
      context,
    )
  },
})

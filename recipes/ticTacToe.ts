/** Tic-tac-toe by self-play: a model that knows the rules alone learns not to lose to a perfect player. */
import * as T from 'tandem-rl'
import { gameRun, gameSettings, gameTokenEnv, type PromptScene } from 'tandem-rl/agents'
import { ticTacToe as game, minimaxStrategy, randomStrategy } from 'tandem-rl/games'
import type { ChatFormat } from 'tandem-rl/models'
import { History, message, textOf } from 'tandem-rl/text'

const settings = T.withDefaults(gameSettings, {
  ...{ steps: 200, tasks: { prompts: 128, group: 1 }, sampling: { maxNewTokens: 3 } },
  ...{
    loss: { algorithm: 'rloo' },
    kl: { in: 'loss', form: 'k2', coefficient: 0.02 },
    learner: { learningRate: 2e-3 },
  },
  ...{ selfPlay: { poolShare: 0.2 }, keep: { evalEvery: 20, evalTasks: 20 } },
}).extend({
  shown: T.z.number().int().positive().default(16000).describe('moves for training the start model'),
  teacherShare: T.z.number().min(0).max(1).default(0.4).describe('share of games against a perfect player'),
})

/** The board, then the number of a cell, without role markers. */
const FORMAT: ChatFormat = {
  template:
    "{% for message in messages %}{{ message.content }}{% if message.role == 'assistant' %}<|end|>{% endif %}{% endfor %}",
  specialTokens: ['<|pad|>', '<|end|>'],
  endOfTurn: '<|end|>',
  padToken: '<|pad|>',
}

/** The cells as a player sees them: empty ones are digits, its own capital and the other's small letters. */
const prompt = ({ state, player }: Pick<PromptScene<typeof game.initial.position>, 'state' | 'player'>): string => {
  const own = player === 0 ? 'x' : 'o'
  const cells = [...state.position.cells].map((cell, at) =>
    cell === '.' ? String(at) : String.fromCharCode((cell === own ? 65 : 97) + at),
  )
  return `${cells.join('')}:`
}

/** A random move in a random game. */
const shownMove = (key: T.Key): History => {
  const length = T.uniformInteger(key, 9)
  let state = game.initial
  for (let at = 0; at <= length; at++) {
    const turn = game.turn(state)
    if (typeof turn !== 'number') return shownMove(T.child(key, 'again'))
    const actions = game.legalActions(state, turn)
    const action = actions[T.uniformInteger(key, actions.length, 1 + at)]!
    if (at === length)
      return History([message('user', prompt({ state, player: turn })), message('assistant', String(action))])
    state = game.apply(state, action)
  }
  return shownMove(T.child(key, 'again'))
}

export const recipe = T.defineRecipe({
  name: 'ticTacToe',
  summary: 'Make a tiny model and train it by self-play until a perfect player cannot beat it at tic-tac-toe.',
  settings,
  build: async (chosen) => {
    const key = T.keyFromSeed(chosen.seed)
    const move = (index: number) => shownMove(T.child(T.child(key, 'moves'), index))
    const texts = Array.from({ length: 100 }, (_, i) => move(i).messages.map(textOf).join('\n'))
    const model = T.orThrow(
      await T.makeModel({
        family: 'qwen3',
        sizes: { hiddenSize: 64, layers: 1, heads: 4 },
        tokenizer: { texts, vocabularySize: 258, format: FORMAT },
        key: T.child(key, 'model'),
        stages: [{ name: 'moves', conversation: move, conversations: chosen.shown, batch: 64, learningRate: 3e-3 }],
      })(),
    )
    const perfect = minimaxStrategy(game)
    const play = { game, text: { prompt, memory: 'turn' }, maxReplies: 20 } as const
    const versus = (name: string, strategy: typeof perfect) => (groups: number, start: number) =>
      gameTokenEnv(
        { ...play, prompts: groups, start, casts: [['player', name]], fixed: { [name]: strategy }, solvedAt: 0 },
        model.text,
      )
    const rounds = Math.round(20 * chosen.teacherShare)
    const casts = Array.from({ length: 20 }, (_, i) =>
      i >= rounds ? ['player', 'player'] : i % 2 === 0 ? ['player', 'perfect'] : ['perfect', 'player'],
    )
    return gameRun(chosen, {
      model,
      casts,
      play: { ...play, ...(rounds > 0 && { fixed: { perfect } }) },
      evaluate: ({ greedy }) =>
        [versus('perfect', perfect), versus('random', randomStrategy)].map((env, i) =>
          T.evaluator({
            name: ['against perfect play', 'against random play'][i]!,
            env: ({ groups, start }) => env(groups, start),
            policy: greedy,
            tasks: chosen.keep.evalTasks,
          }),
        ),
    })
  },
})

/**
 * Tic-tac-toe: a model that makes random moves learns not to lose against perfect play.
 * Needs the package `@tandem-rl/games`.
 */
import { gameRun, gameSettings, gameTokenEnv, type PromptScene, seatTasks, soloGame } from '@tandem-rl/games'
import { ticTacToe as game, minimaxStrategy, policyStrategy, uniformGamePolicy } from '@tandem-rl/games/rules'
import { History, message, textOf } from '@tandem-rl/text'
import * as T from 'tandem-rl'
import { BARE_CHAT } from 'tandem-rl/models'

const settings = T.withDefaults(gameSettings, {
  ...{ steps: 60, tasks: { prompts: 256, group: 1 }, sampling: { maxNewTokens: 3 } },
  ...{
    loss: { algorithm: 'rloo' },
    kl: { in: 'loss', form: 'k2', coefficient: 0.02 },
    learner: { learningRate: 1e-3, warmup: 10 },
  },
  ...{ selfPlay: { baseline: 'prompt' }, keep: { evalEvery: 10, evalTasks: 20 } },
}).extend({
  shown: T.z.number().int().positive().default(32_000).describe('moves for training the start model'),
  teacherShare: T.z.number().min(0).max(1).default(0.8).describe('share of games against a perfect player'),
  from: T.z.string().nullable().default(null).describe('folder of the start model; off: make one that moves at random'),
})

/** The cells: digits are empty, capitals are the player's own, small letters the opponent's. */
const prompt = ({ state, player }: Pick<PromptScene<typeof game.initial.position>, 'state' | 'player'>): string => {
  const own = player === 0 ? 'x' : 'o'
  const cells = [...state.position.cells].map((cell, at) =>
    cell === '.' ? String(at) : String.fromCharCode((cell === own ? 65 : 97) + at),
  )
  return `${cells.join('')}:`
}

/** A random move of a random game. */
const shownMove = (key: T.Key): History => {
  const length = T.uniformInteger(key, 9)
  let state = game.initial
  for (let at = 0; ; at++) {
    const turn = game.turn(state)
    if (typeof turn !== 'number') return shownMove(T.child(key, 'again'))
    const actions = game.legalActions(state, turn)
    const action = actions[T.uniformInteger(key, actions.length, 1 + at)]!
    if (at === length)
      return History([message('user', prompt({ state, player: turn })), message('assistant', String(action))])
    state = game.apply(state, action)
  }
}

const startModel = async ({ seed, shown }: { readonly seed: number; readonly shown: number }) => {
  const key = T.keyFromSeed(seed)
  const conversation = (index: number) => shownMove(T.child(T.child(key, 'moves'), index))
  const texts = Array.from({ length: 100 }, (_, i) => conversation(i).messages.map(textOf).join('\n'))
  const made = T.makeModel({
    ...{ family: 'qwen3', sizes: { hiddenSize: 64, layers: 2, heads: 4 } },
    tokenizer: { texts, vocabularySize: 258, format: BARE_CHAT },
    key: T.child(key, 'model'),
    stages: [{ name: 'moves', conversation, conversations: shown, batch: 64, learningRate: 3e-3 }],
  })
  return T.orThrow(await made())
}

export const recipe = T.defineRecipe({
  name: 'ticTacToe',
  summary: 'Make a tiny model and train it at tic-tac-toe until a perfect player cannot beat it.',
  settings,
  envOfTask: () => soloGame({ game, opponent: minimaxStrategy(game) }),
  tasks: () => seatTasks(game),
  build: async (chosen) => {
    const model = chosen.from === null ? await startModel(chosen) : await T.orThrow(T.loadPretrained(chosen.from))
    const perfect = minimaxStrategy(game)
    const play = { game, text: { prompt, memory: 'turn' }, maxReplies: 20 } as const
    const against = (name: string, strategy: typeof perfect) => (prompts: number, start: number) =>
      gameTokenEnv(
        { ...play, prompts, start, casts: [['player', name]], fixed: { [name]: strategy }, solvedAt: 0 },
        model.text,
      )
    const rounds = Math.round(20 * chosen.teacherShare)
    const casts = Array.from({ length: 20 }, (_, i) =>
      i >= rounds ? ['player', 'player'] : i % 4 === 3 ? ['perfect', 'player'] : ['player', 'perfect'],
    )
    return gameRun(chosen, {
      model,
      casts,
      play: { ...play, ...(rounds > 0 && { fixed: { perfect } }) },
      evaluate: ({ greedy }) =>
        [against('perfect', perfect), against('random', policyStrategy(uniformGamePolicy))].map((env, i) =>
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

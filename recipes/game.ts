/**
 * Any game by its name: self-play of any model, and an environment for other trainers.
 * Needs the package `@tandem-rl/games`.
 */
import { gameNamed, gameRun, gameSettings, gameTokenEnv, seatTasks, soloGame, solveGame } from '@tandem-rl/games'
import { minimaxStrategy, playersOf, policyStrategy, uniformGamePolicy } from '@tandem-rl/games/rules'
import * as T from 'tandem-rl'

const settings = T.withDefaults(gameSettings, {
  ...{ steps: 200, tasks: { prompts: 32, group: 1 }, sampling: { maxNewTokens: 128 } },
  ...{ loss: { algorithm: 'rloo' }, kl: { in: 'loss', form: 'k2', coefficient: 0.1 } },
}).extend({
  model: T.z.string().default('embedded').describe('initial model: a folder, a run folder, a hub name, or embedded'),
  game: T.z.string().default('tic_tac_toe').describe('name of the game, as in configurations of tandem arena'),
  options: T.z.record(T.z.string(), T.z.unknown()).default({}).describe('options of the game'),
  opponent: T.z
    .enum(['random', 'minimax', 'solved'])
    .default('random')
    .describe('player of the other seats, in evaluations and for clients; solved: by CFR, for small games'),
  illegal: T.z
    .enum(['forfeit', 'retry', 'random'])
    .default('forfeit')
    .describe('what an illegal reply leads to; retry: twice, and then a forfeit'),
})

const playOf = ({ game: name, options, opponent, illegal }: T.z.output<typeof settings>) => {
  const game = gameNamed(name, options)
  const players = {
    random: () => policyStrategy(uniformGamePolicy),
    minimax: () => minimaxStrategy(game),
    solved: () => policyStrategy(solveGame(game)),
  }
  const rule = illegal === 'retry' ? ({ kind: illegal, attempts: 2, fallback: 'forfeit' } as const) : { kind: illegal }
  return { play: { game, illegal: rule }, opponent: players[opponent]() }
}

export const recipe = T.defineRecipe({
  name: 'game',
  summary: 'Train any model by self-play in a game, by its name, or serve the game as an environment.',
  settings,
  envOfTask: (chosen) => {
    const { play, opponent } = playOf(chosen)
    return soloGame({ ...play, opponent })
  },
  tasks: ({ game, options }) => seatTasks(gameNamed(game, options)),
  build: async (chosen) => {
    const model = await T.orThrow(T.loadPretrained(chosen.model))
    const { play, opponent } = playOf(chosen)
    const seats = playersOf(play.game)
    const casts = seats.map((own) => seats.map((seat) => (seat === own ? 'player' : 'opponent')))
    return gameRun(chosen, {
      ...{ model, play },
      evaluate: ({ greedy }) => [
        T.evaluator({
          name: `against ${chosen.opponent} play`,
          env: ({ groups, start }) =>
            gameTokenEnv(
              { ...play, prompts: groups, start, casts, ...(seats.length > 1 && { fixed: { opponent } }) },
              model.text,
            ),
          policy: greedy,
          tasks: chosen.keep.evalTasks,
        }),
      ],
    })
  },
})

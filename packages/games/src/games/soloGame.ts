/** Games for one model, against fixed opponents, as environments of given tasks. */
import { checkOptions } from '@tandem-rl/base'
import { type TaskSource, taskList } from 'tandem-rl'
import type { EnvOfTask } from 'tandem-rl/envs'
import { SOLO_GAME_OPTIONS } from '../optionKinds.js'
import { type Game, playersOf } from './game.js'
import { GameEnv, type GameEnvOptions } from './gameEnv.js'
import type { GameStrategy } from './strategies.js'

/** The options of `GameEnv`, with one opponent in all other seats. */
export interface SoloGameOptions<P>
  extends Omit<GameEnvOptions<P>, 'prompts' | 'repeats' | 'start' | 'casts' | 'fixed'> {
  readonly opponent: GameStrategy<P>
}

/**
 * Returns the tasks of `soloGame`: one for each seat, whose number is the answer.
 *
 * @example
 * seatTasks(ticTacToe).name // 'seats of tic_tac_toe'
 */
export const seatTasks = (game: Pick<Game, 'name' | 'players'>): TaskSource =>
  taskList(
    `seats of ${game.name}`,
    playersOf(game).map((seat) => ({ query: game.name, answer: String(seat) })),
  )

/**
 * Returns a function that makes a game of one model, for `tandem serve --env` and other servers of
 * environments: the model has the seat that is the `answer` of a task, and the opponent moves
 * within the environment in all other seats.
 *
 * Errors   throws as `GameEnv`. The function throws RangeError for an answer that is no seat.
 *
 * @example
 * soloGame({ game: ticTacToe, opponent: minimaxStrategy(ticTacToe) })({ id: '1', query: 'tic_tac_toe', answer: '1' }).batchSize // 1
 */
export const soloGame = <P>(given: SoloGameOptions<P>): EnvOfTask => {
  checkOptions('soloGame', given, SOLO_GAME_OPTIONS)
  const { opponent, ...options } = given
  const { game } = options
  return ({ answer }) => {
    const own = playersOf(game).find((seat) => String(seat) === answer)
    if (own === undefined)
      throw new RangeError(`soloGame: answer must be a seat from 0 to ${game.players - 1}, got '${answer}'`)
    const cast = playersOf(game).map((seat) => (seat === own ? 'player' : 'opponent'))
    const fixed = game.players > 1 ? { fixed: { opponent } } : {}
    const env = GameEnv({ ...options, prompts: 1, casts: [cast], ...fixed })
    return env as unknown as ReturnType<EnvOfTask> // only its own states are stepped
  }
}

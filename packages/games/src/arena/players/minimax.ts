/** A player that searches by minimax. */
import { checkOptions, uniformInteger } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Game } from '../../games/game.js'
import { type BestActions, minimax } from '../../games/minimax.js'
import { MINIMAX_PLAYER_OPTIONS } from '../../optionKinds.js'
import { type OpenPosition, type Player, playerFailure } from './player.js'

export interface MinimaxOptions {
  /** Default `minimax`. */
  readonly name?: string
  /** The most moves to look ahead. Default: to the end of the game. */
  readonly depth?: number
  /** Estimates the return of player 0 at the depth limit. Default 0. */
  readonly evaluate?: (position: OpenPosition) => number
  /** The most positions to visit for one move; above, the player fails. Default 2,000,000. */
  readonly maxPositions?: number
}

/**
 * Makes a player that searches the game tree with alpha-beta pruning and plays one of the best
 * moves, drawn uniformly. Without `depth` it plays perfectly. Values are kept between moves and
 * games.
 *
 * Needs a zero-sum game of two players without chance, simultaneous moves or hidden information; in
 * others, the player fails with `unsupported`.
 *
 * Errors   throws RangeError unless `depth` and `maxPositions` are integers of at least 1.
 * Cost     for perfect play, the positions of the game: 5,478 for tic-tac-toe.
 *
 * @example
 * minimaxPlayer({ depth: 4 }).name // 'minimax'
 */
export const minimaxPlayer = (options: MinimaxOptions = {}): Player => {
  checkOptions('minimaxPlayer', options, MINIMAX_PLAYER_OPTIONS)
  const { name = 'minimax', depth, evaluate, maxPositions } = options
  for (const [what, limit] of Object.entries({ depth, maxPositions }))
    if (limit !== undefined && (!Number.isInteger(limit) || limit < 1))
      throw new RangeError(`minimaxPlayer: ${what} must be an integer of at least 1, got ${limit}`)
  /** By the game, because equal positions of different games have different values. */
  const searches = new WeakMap<Game, BestActions<unknown>>()
  const searchOf = (game: Game): BestActions<unknown> => {
    const made =
      searches.get(game) ??
      minimax(game, {
        ...(depth !== undefined && { depth }),
        ...(maxPositions !== undefined && { maxPositions }),
        ...(evaluate && { evaluate: (state) => evaluate({ game, state }) }),
      })
    searches.set(game, made)
    return made
  }
  return {
    name,
    move: ({ open, game, player }, { key }) => {
      if (open === null)
        return TE.left(playerFailure('unsupported', `minimax needs a game that hides nothing, got ${game}`))
      return TE.fromEither(
        pipe(
          searchOf(open.game)(open.state, player),
          E.bimap(
            (reason) => playerFailure('unsupported', reason),
            (best) => ({ action: best[uniformInteger(key, best.length)]! }),
          ),
        ),
      )
    },
  }
}

/** Minimax with alpha-beta pruning. */
import * as TE from 'fp-ts/lib/TaskEither.js'
import { uniformInteger } from '../../core/key.js'
import { aFunction, aNumber, aText, checkOptions, type OptionKinds } from '../../core/options.js'
import type { Game, GameState } from '../../envs/games/game.js'
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

const MINIMAX_OPTIONS: OptionKinds<MinimaxOptions> = {
  name: aText,
  depth: aNumber,
  evaluate: aFunction,
  maxPositions: aNumber,
}

/** A bound on the value of a position for player 0, searched to a depth. */
interface Entry {
  readonly depth: number
  readonly kind: 'exact' | 'atLeast' | 'atMost'
  readonly value: number
}

/** The search ran out of positions, or met something that minimax cannot play. */
class Refused extends Error {}

interface Search {
  readonly game: Game
  readonly table: Map<string, Entry>
  readonly evaluate: (position: OpenPosition) => number
  readonly maxPositions: number
  visited: number
}

/** Returns the value of a state for player 0, or a bound outside of the window. */
const search = (
  work: Search,
  state: GameState<unknown>,
  depth: number,
  [alpha, beta]: readonly [number, number],
): number => {
  const { game, table } = work
  const turn = game.turn(state)
  if (turn === 'over') return game.returns(state)[0]!
  if (typeof turn !== 'number') throw new Refused(`minimax cannot play games with ${turn} moves, such as ${game.name}`)
  if (depth === 0) return work.evaluate({ game, state })
  const id = JSON.stringify(state.position)
  const known = table.get(id)
  if (known !== undefined && known.depth >= depth) {
    if (known.kind === 'exact') return known.value
    if (known.kind === 'atLeast' && known.value >= beta) return known.value
    if (known.kind === 'atMost' && known.value <= alpha) return known.value
  }
  if (++work.visited > work.maxPositions)
    throw new Refused(`minimax visited ${work.maxPositions} positions of ${game.name}; set depth or maxPositions`)
  const isMaximizer = turn === 0
  let best = isMaximizer ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
  let [low, high] = [alpha, beta]
  for (const action of game.legalActions(state, turn)) {
    const value = search(work, game.apply(state, action), depth - 1, [low, high])
    if (isMaximizer) {
      best = Math.max(best, value)
      low = Math.max(low, best)
    } else {
      best = Math.min(best, value)
      high = Math.min(high, best)
    }
    if (low >= high) break
  }
  const kind = best <= alpha ? 'atMost' : best >= beta ? 'atLeast' : 'exact'
  table.set(id, { depth, kind, value: best })
  return best
}

const OPEN_WINDOW = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY] as const

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
  checkOptions('minimaxPlayer', options, MINIMAX_OPTIONS)
  const { name = 'minimax', depth = Number.POSITIVE_INFINITY, evaluate = () => 0, maxPositions = 2_000_000 } = options
  for (const [what, limit] of Object.entries({ depth: options.depth ?? 1, maxPositions }))
    if (!Number.isInteger(limit) || limit < 1)
      throw new RangeError(`minimaxPlayer: ${what} must be an integer of at least 1, got ${limit}`)
  /** By the game, because equal positions of different games have different values. */
  const tables = new WeakMap<Game, Map<string, Entry>>()
  const bestActions = ({ game, state }: OpenPosition, player: number): readonly number[] => {
    const table = tables.get(game) ?? new Map<string, Entry>()
    tables.set(game, table)
    const work: Search = { game, table, evaluate, maxPositions, visited: 0 }
    const actions = game.legalActions(state, player)
    const values = actions.map(
      (action) => (player === 0 ? 1 : -1) * search(work, game.apply(state, action), depth - 1, OPEN_WINDOW),
    )
    const best = Math.max(...values)
    return actions.filter((_, i) => values[i] === best)
  }
  return {
    name,
    move: ({ open, game, player }, { key }) => {
      if (open === null || open.game.players !== 2 || open.game.utility !== 'zeroSum')
        return TE.left(
          playerFailure('unsupported', `minimax needs a zero-sum game of two players that hides nothing, got ${game}`),
        )
      try {
        const best = bestActions(open, player)
        return TE.right({ action: best[uniformInteger(key, best.length)]! })
      } catch (error) {
        if (error instanceof Refused) return TE.left(playerFailure('unsupported', error.message))
        throw error
      }
    },
  }
}

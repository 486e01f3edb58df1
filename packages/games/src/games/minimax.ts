/** Best actions in games of two players, by minimax with alpha-beta pruning. */
import * as E from 'fp-ts/lib/Either.js'
import type { Game, GameState } from './game.js'

/** Limits of a search. */
export interface MinimaxLimits<P> {
  /** Number of moves to look ahead. Default: to the end of the game. */
  readonly depth?: number
  /** Estimates the return of player 0 at the depth limit. Default 0. */
  readonly evaluate?: (state: GameState<P>) => number
  /** Maximum number of positions to visit for one call. Default 2,000,000. */
  readonly maxPositions?: number
}

/** A bound on the value of a position for player 0, searched to a depth. */
interface Entry {
  readonly depth: number
  readonly kind: 'exact' | 'atLeast' | 'atMost'
  readonly value: number
}

/** A game that minimax cannot play, or a search that exceeds its limit. */
class Refused extends Error {}

interface Search<P> extends Required<Omit<MinimaxLimits<P>, 'depth'>> {
  readonly game: Game<P>
  readonly table: Map<string, Entry>
  visited: number
}

/** Returns the value of a state for player 0, or a bound outside of the window. */
const search = <P>(
  work: Search<P>,
  state: GameState<P>,
  depth: number,
  [alpha, beta]: readonly [number, number],
): number => {
  const { game, table } = work
  const turn = game.turn(state)
  if (turn === 'over') return game.returns(state)[0]!
  if (typeof turn !== 'number') throw new Refused(`minimax cannot play games with ${turn} moves, such as ${game.name}`)
  if (depth === 0) return work.evaluate(state)
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

/** Finds the best legal actions of a player in a state. `Left` has the reason why it cannot. */
export type BestActions<P> = (state: GameState<P>, player: number) => E.Either<string, readonly number[]>

/**
 * Makes a search for the best actions in a zero-sum game of two players without chance,
 * simultaneous moves or hidden information. Values are kept between calls.
 *
 * Errors   `Left` for other games, and for a search that exceeds `maxPositions`.
 * Cost     for perfect play, the positions of the game: 5,478 for tic-tac-toe.
 *
 * @example
 * minimax(ticTacToe)(replayGame(ticTacToe, [0, 3, 1, 4]), 0) // { _tag: 'Right', right: [2] }
 */
export const minimax = <P>(game: Game<P>, limits: MinimaxLimits<P> = {}): BestActions<P> => {
  const { depth = Number.POSITIVE_INFINITY, evaluate = () => 0, maxPositions = 2_000_000 } = limits
  const table = new Map<string, Entry>()
  return (state, player) => {
    if (game.players !== 2 || game.utility !== 'zeroSum')
      return E.left(`minimax needs a zero-sum game of two players, got ${game.name}`)
    if (game.turn(state) !== player)
      return E.left(`minimax needs a state in which player ${player} moves, got the turn '${game.turn(state)}'`)
    const work: Search<P> = { game, table, evaluate, maxPositions, visited: 0 }
    try {
      const actions = game.legalActions(state, player)
      const values = actions.map(
        (action) => (player === 0 ? 1 : -1) * search(work, game.apply(state, action), depth - 1, OPEN_WINDOW),
      )
      const best = Math.max(...values)
      return E.right(actions.filter((_, i) => values[i] === best))
    } catch (error) {
      if (error instanceof Refused) return E.left(error.message)
      throw error
    }
  }
}

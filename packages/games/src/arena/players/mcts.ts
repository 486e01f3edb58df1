/** Monte Carlo tree search. */
import { checkOptions, child, type Key, uniformInteger } from '@tandem-rl/base'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { drawChance, type Game, type GameState } from '../../games/game.js'
import { MCTS_PLAYER_OPTIONS } from '../../optionKinds.js'
import { type Player, playerFailure } from './player.js'

export interface MctsOptions {
  /** Default `mcts`. */
  readonly name?: string
  /** Games simulated for each move. Default 200. */
  readonly simulations?: number
  /** The weight of exploration in UCT. Default \( \sqrt 2 \), for returns from -1 to 1. */
  readonly exploration?: number
}

/** A node of the tree. It belongs to one search and changes during it. */
interface Node {
  readonly children: Map<number, Node>
  visits: number
  /** The sum of the returns of the player who moved into this node. */
  total: number
}

const newNode = (): Node => ({ children: new Map(), visits: 0, total: 0 })

/** A stream of keys for one simulation. */
const keysOf = (key: Key): (() => Key) => {
  let count = 0
  return () => child(key, count++)
}

/** Plays at random to the end, and returns the result of every player. */
const playOut = (game: Game, start: GameState<unknown>, next: () => Key): readonly number[] => {
  let state = start
  for (;;) {
    const turn = game.turn(state)
    if (turn === 'over') return game.returns(state)
    if (turn === 'simultaneous') throw new RangeError('mcts: simultaneous moves are refused before')
    const actions = turn === 'chance' ? [drawChance(game, state, next())] : game.legalActions(state, turn)
    state = game.apply(state, actions.length === 1 ? actions[0]! : actions[uniformInteger(next(), actions.length)]!)
  }
}

/** Returns the action with the highest upper confidence bound. Unvisited actions come first. */
const bestByBound = (node: Node, actions: readonly number[], exploration: number): number => {
  let [best, highest] = [actions[0]!, Number.NEGATIVE_INFINITY]
  for (const action of actions) {
    const at = node.children.get(action)
    if (at === undefined || at.visits === 0) return action
    const bound = at.total / at.visits + exploration * Math.sqrt(Math.log(node.visits) / at.visits)
    if (bound > highest) [best, highest] = [action, bound]
  }
  return best
}

/** Walks down the tree, adds one node, plays to the end, and updates the nodes on the way. */
const simulate = (
  { game, state: root, tree }: { readonly game: Game; readonly state: GameState<unknown>; readonly tree: Node },
  exploration: number,
  next: () => Key,
): void => {
  const path: { readonly node: Node; readonly mover: number | 'chance' }[] = [{ node: tree, mover: 'chance' }]
  let [state, node] = [root, tree]
  for (;;) {
    const turn = game.turn(state)
    if (turn === 'over' || turn === 'simultaneous') break
    const action =
      turn === 'chance'
        ? drawChance(game, state, next())
        : bestByBound(node, game.legalActions(state, turn), exploration)
    state = game.apply(state, action)
    const known = node.children.get(action)
    const child = known ?? newNode()
    if (known === undefined) node.children.set(action, child)
    path.push({ node: child, mover: turn })
    node = child
    if (child.visits === 0 && turn !== 'chance') break
  }
  const returns = playOut(game, state, next)
  for (const { node: visited, mover } of path) {
    visited.visits += 1
    if (mover !== 'chance') visited.total += returns[mover]!
  }
}

/**
 * Makes a player that searches with UCT: it simulates games and plays the action that was visited
 * most. Needs a game without hidden information and simultaneous moves; chance is allowed. In
 * others, the player fails with `unsupported`.
 *
 * Errors   throws RangeError unless `simulations` is an integer of at least 1 and `exploration` is
 *          at least 0.
 * Cost     `simulations` whole games for each move.
 * Source   Kocsis and Szepesvári 2006, "Bandit based Monte-Carlo planning".
 *
 * @example
 * mctsPlayer({ simulations: 50 }).name // 'mcts'
 */
export const mctsPlayer = (options: MctsOptions = {}): Player => {
  checkOptions('mctsPlayer', options, MCTS_PLAYER_OPTIONS)
  const { name = 'mcts', simulations = 200, exploration = Math.SQRT2 } = options
  if (!Number.isInteger(simulations) || simulations < 1)
    throw new RangeError(`mctsPlayer: simulations must be an integer of at least 1, got ${simulations}`)
  if (!(exploration >= 0)) throw new RangeError(`mctsPlayer: exploration must be at least 0, got ${exploration}`)
  return {
    name,
    move: ({ open, legalActions, game }, { key }) => {
      if (open === null)
        return TE.left(
          playerFailure('unsupported', `mcts needs a game without hidden information and joint moves, got ${game}`),
        )
      const tree = newNode()
      for (let i = 0; i < simulations; i++) simulate({ ...open, tree }, exploration, keysOf(child(key, i)))
      const visits = (action: number): number => tree.children.get(action)?.visits ?? 0
      return TE.right({ action: legalActions.reduce((best, each) => (visits(each) > visits(best) ? each : best)) })
    },
  }
}

/** Counterfactual regret minimization for games that can be enumerated. */
import { checkOptions } from '@tandem-rl/base'
import type { GameDecision, GamePolicy } from '../../games/exactValues.js'
import { type Game, type GameState, playersOf } from '../../games/game.js'
import { SOLVE_GAME_OPTIONS } from '../../optionKinds.js'

export interface SolveOptions {
  /** Default 1,000. */
  readonly iterations?: number
  /** The most nodes of the game tree. Default 1,000,000. */
  readonly maxNodes?: number
}

/** A set of nodes that a player cannot tell apart, with its regrets and strategies. */
interface InformationSet {
  readonly actions: number
  readonly regrets: Float64Array
  readonly strategySums: Float64Array
  /** Of the current iteration. */
  readonly strategy: Float64Array
}

type TreeNode =
  | { readonly kind: 'end'; readonly returns: readonly number[] }
  | { readonly kind: 'chance'; readonly nodes: readonly TreeNode[]; readonly probabilities: readonly number[] }
  | {
      readonly kind: 'player'
      readonly player: number
      readonly set: InformationSet
      readonly nodes: readonly TreeNode[]
    }

const idOf = (player: number, informationState: string): string => `${player} ${informationState}`

/**
 * Enumerates the game. Simultaneous moves become turns of players who do not see each other's
 * choice.
 */
const treeOf = (
  game: Game,
  maxNodes: number,
): { readonly root: TreeNode; readonly sets: ReadonlyMap<string, InformationSet> } => {
  const sets = new Map<string, InformationSet>()
  let count = 0
  const setOf = (state: GameState<unknown>, player: number, actions: number): InformationSet => {
    const id = idOf(player, game.informationState(state, player))
    const known = sets.get(id)
    if (known !== undefined) return known
    const made: InformationSet = {
      actions,
      regrets: new Float64Array(actions),
      strategySums: new Float64Array(actions),
      strategy: new Float64Array(actions),
    }
    sets.set(id, made)
    return made
  }
  const decide = (
    state: GameState<unknown>,
    [player, ...others]: readonly number[],
    chosen: readonly number[],
  ): TreeNode => {
    if (player === undefined) return grow(game.apply(state, chosen))
    const actions = game.legalActions(state, player)
    const set = setOf(state, player, actions.length)
    return { kind: 'player', player, set, nodes: actions.map((action) => decide(state, others, [...chosen, action])) }
  }
  const grow = (state: GameState<unknown>): TreeNode => {
    if (++count > maxNodes) throw new RangeError(`solveGame: ${game.name} has more than maxNodes = ${maxNodes} nodes`)
    const turn = game.turn(state)
    if (turn === 'over') return { kind: 'end', returns: game.returns(state) }
    if (turn === 'simultaneous') return decide(state, playersOf(game), [])
    if (turn === 'chance') {
      const outcomes = game.chance(state)
      return {
        kind: 'chance',
        nodes: outcomes.map(({ action }) => grow(game.apply(state, action))),
        probabilities: outcomes.map(({ probability }) => probability),
      }
    }
    const actions = game.legalActions(state, turn)
    const set = setOf(state, turn, actions.length)
    return { kind: 'player', player: turn, set, nodes: actions.map((action) => grow(game.apply(state, action))) }
  }
  return { root: grow(game.initial), sets }
}

/** Sets the strategy to the positive regrets divided by their sum, or to uniform without any. */
const matchRegrets = ({ regrets, strategy, actions }: InformationSet): void => {
  let sum = 0
  for (const regret of regrets) sum += Math.max(0, regret)
  for (let i = 0; i < actions; i++) strategy[i] = sum > 0 ? Math.max(0, regrets[i]!) / sum : 1 / actions
}

/**
 * Returns the expected return of `learner` from a node, and adds to the regrets and the average
 * strategy of its information sets. `own` is the probability that the learner plays to the node,
 * and `others` the one that everybody else does, chance included.
 */
const walk = (
  node: TreeNode,
  learner: { readonly player: number; readonly weight: number },
  own: number,
  others: number,
): number => {
  if (node.kind === 'end') return node.returns[learner.player]!
  if (node.kind === 'chance') {
    let value = 0
    for (const [i, next] of node.nodes.entries()) {
      const probability = node.probabilities[i]!
      value += probability * walk(next, learner, own, others * probability)
    }
    return value
  }
  const { strategy, regrets, strategySums } = node.set
  if (node.player !== learner.player) {
    let value = 0
    for (const [i, next] of node.nodes.entries())
      if (strategy[i]! > 0) value += strategy[i]! * walk(next, learner, own, others * strategy[i]!)
    return value
  }
  const values = node.nodes.map((next, i) => walk(next, learner, own * strategy[i]!, others))
  const value = values.reduce((sum, each, i) => sum + strategy[i]! * each, 0)
  for (const [i, each] of values.entries()) {
    regrets[i]! += others * (each - value)
    strategySums[i]! += learner.weight * own * strategy[i]!
  }
  return value
}

/**
 * Solves a game by CFR+ with alternating updates and linear averaging: returns the average policy,
 * which approaches a Nash equilibrium in zero-sum games of two players. In games of more players,
 * it is a good but not a provably optimal policy.
 *
 * Errors   throws RangeError for a game with more than `maxNodes` nodes, and unless both options
 *          are integers of at least 1. The policy throws RangeError for an unknown information
 *          state.
 * Cost     `iterations` times the players times the nodes of the game tree.
 * Source   Tammelin 2014, arXiv:1407.5042; Zinkevich et al. 2007, "Regret minimization in games
 *          with incomplete information".
 *
 * @example
 * nashConv(kuhnPoker(), Array(2).fill(solveGame(anyGame(kuhnPoker()), { iterations: 200 }))) < 0.01 // true
 */
export const solveGame = (game: Game, options: SolveOptions = {}): GamePolicy => {
  checkOptions('solveGame', options, SOLVE_GAME_OPTIONS)
  const { iterations = 1_000, maxNodes = 1_000_000 } = options
  for (const [name, count] of Object.entries({ iterations, maxNodes }))
    if (!Number.isInteger(count) || count < 1)
      throw new RangeError(`solveGame: ${name} must be an integer of at least 1, got ${count}`)
  const { root, sets } = treeOf(game, maxNodes)
  for (let iteration = 1; iteration <= iterations; iteration++)
    for (const player of playersOf(game)) {
      for (const set of sets.values()) matchRegrets(set)
      walk(root, { player, weight: iteration }, 1, 1)
      for (const set of sets.values())
        for (let i = 0; i < set.actions; i++) set.regrets[i] = Math.max(0, set.regrets[i]!)
    }
  const policies = new Map([...sets].map(([id, set]) => [id, averageOf(set)]))
  return ({ player, informationState }: GameDecision) => {
    const found = policies.get(idOf(player, informationState))
    if (found === undefined) throw new RangeError(`${game.name} has no information state '${informationState}'`)
    return found
  }
}

const averageOf = ({ strategySums, actions }: InformationSet): readonly number[] => {
  const sum = strategySums.reduce((total, each) => total + each, 0)
  return Array.from(strategySums, (each) => (sum > 0 ? each / sum : 1 / actions))
}

/** Exact values of small games, by enumeration of every history. */
import { type Game, type GameState, playersOf } from './game.js'

/** A decision of a player, as the player sees it. */
export interface GameDecision {
  readonly player: number
  readonly informationState: string
  readonly legalActions: readonly number[]
}

/** A policy as a table or a formula: one probability for each legal action, in order. */
export type GamePolicy = (decision: GameDecision) => readonly number[]

/** Plays every legal action with the same probability. */
export const uniformGamePolicy: GamePolicy = ({ legalActions }) => legalActions.map(() => 1 / legalActions.length)

/** The best answer of one player to fixed policies of all others. */
export interface BestResponse {
  /** The expected return of the player. */
  readonly value: number
  /** The best action of every information state that the player can reach. */
  readonly actions: ReadonlyMap<string, number>
}

const decisionOf = <P>(game: Game<P>, state: GameState<P>, player: number): GameDecision => ({
  player,
  informationState: game.informationState(state, player),
  legalActions: game.legalActions(state, player),
})

const probabilitiesOf = (policy: GamePolicy, decision: GameDecision): readonly number[] => {
  const probabilities = policy(decision)
  const sum = probabilities.reduce((total, each) => total + each, 0)
  const isValid = probabilities.every((each) => each >= 0) && Math.abs(sum - 1) < 1e-6
  if (!isValid || probabilities.length !== decision.legalActions.length)
    throw new RangeError(
      `the policy of player ${decision.player} must give ${decision.legalActions.length} probabilities that add up to 1 ` +
        `in '${decision.informationState}', got ${JSON.stringify(probabilities)}`,
    )
  return probabilities
}

const requirePolicies = (game: Pick<Game, 'name' | 'players'>, policies: readonly GamePolicy[]): void => {
  if (policies.length !== game.players)
    throw new RangeError(`${game.name}: policies must have ${game.players} elements, got ${policies.length}`)
}

/** A transition that has a probability, given what one player chooses. */
interface Branch<P> {
  readonly state: GameState<P>
  /** The product over chance and all players but the one who chooses. */
  readonly probability: number
  /** The action of the player who chooses. Undefined if that player does not move. */
  readonly chosen?: number
}

/** Returns the transitions from a state. Those with probability 0 are left out. */
const branchesOf = <P>(
  game: Game<P>,
  state: GameState<P>,
  { policies, chooser }: { readonly policies: readonly GamePolicy[]; readonly chooser?: number },
): readonly Branch<P>[] => {
  const turn = game.turn(state)
  if (turn === 'chance')
    return game.chance(state).map(({ action, probability }) => ({ state: game.apply(state, action), probability }))
  const actors = turn === 'simultaneous' ? playersOf(game) : [Number(turn)]
  const joint = actors.reduce<readonly { readonly actions: readonly number[]; readonly probability: number }[]>(
    (before, player) => {
      const decision = decisionOf(game, state, player)
      const probabilities =
        player === chooser ? decision.legalActions.map(() => 1) : probabilitiesOf(policies[player]!, decision)
      return before.flatMap(({ actions, probability }) =>
        decision.legalActions.map((action, i) => ({
          actions: [...actions, action],
          probability: probability * probabilities[i]!,
        })),
      )
    },
    [{ actions: [], probability: 1 }],
  )
  const chosenAt = chooser === undefined ? -1 : actors.indexOf(chooser)
  return joint
    .filter(({ probability }) => probability > 0)
    .map(({ actions, probability }) => ({
      state: game.apply(state, turn === 'simultaneous' ? actions : actions[0]!),
      probability,
      ...(chosenAt >= 0 && { chosen: actions[chosenAt]! }),
    }))
}

/**
 * Returns the expected return of each player, one policy for each.
 *
 * Errors   throws RangeError for a wrong number of policies, and for a policy that does not return
 *          one probability for each legal action.
 * Cost     visits every history: for games as small as tic-tac-toe.
 *
 * @example
 * expectedReturns(kuhnPoker(), [uniformGamePolicy, uniformGamePolicy]).map((each) => each.toFixed(3)) // ['0.125', '-0.125']
 */
export const expectedReturns = <P>(game: Game<P>, policies: readonly GamePolicy[]): readonly number[] => {
  requirePolicies(game, policies)
  const from = (state: GameState<P>): readonly number[] => {
    if (game.turn(state) === 'over') return game.returns(state)
    const sums = playersOf(game).map(() => 0)
    for (const branch of branchesOf(game, state, { policies }))
      for (const [player, value] of from(branch.state).entries()) sums[player]! += branch.probability * value
    return sums
  }
  return from(game.initial)
}

/** A state in the tree of one player's choices. */
interface Node {
  /** At the end: the return of the player. */
  readonly value?: number
  /** The decision of the player, if it is its turn. */
  readonly decision?: GameDecision
  /** The probability that others and chance play to this state. */
  readonly reach: number
  readonly branches: readonly { readonly node: Node; readonly probability: number; readonly chosen?: number }[]
}

/** Makes the tree, and the nodes that the player cannot tell apart. */
const treeOf = <P>(
  game: Game<P>,
  policies: readonly GamePolicy[],
  chooser: number,
): { readonly root: Node; readonly alike: ReadonlyMap<string, readonly Node[]> } => {
  const alike = new Map<string, Node[]>()
  const grow = (state: GameState<P>, reach: number): Node => {
    const turn = game.turn(state)
    if (turn === 'over') return { value: game.returns(state)[chooser]!, reach, branches: [] }
    const branches = branchesOf(game, state, { policies, chooser }).map(({ state: next, ...branch }) => ({
      ...branch,
      node: grow(next, reach * branch.probability),
    }))
    if (turn !== chooser && turn !== 'simultaneous') return { reach, branches }
    const node: Node = { decision: decisionOf(game, state, chooser), reach, branches }
    const { informationState } = node.decision!
    const others = alike.get(informationState)
    if (others === undefined) alike.set(informationState, [node])
    else others.push(node)
    return node
  }
  return { root: grow(game.initial, 1), alike }
}

/**
 * Returns a policy of `player` that earns the most against the policies of all others, and what it
 * earns. The player's own entry of `policies` is not used. The game must have perfect recall, which
 * `gameLaws` checks.
 *
 * Errors   throws RangeError for a player that does not exist, and as `expectedReturns` does.
 * Cost     visits every history once, and keeps all of them in memory.
 *
 * @example
 * bestResponse(kuhnPoker(), [uniformGamePolicy, uniformGamePolicy], 0).value.toFixed(3) // '0.500'
 */
export const bestResponse = <P>(game: Game<P>, policies: readonly GamePolicy[], player: number): BestResponse => {
  requirePolicies(game, policies)
  if (!playersOf(game).includes(player))
    throw new RangeError(`bestResponse: player must be a whole number from 0 to ${game.players - 1}, got ${player}`)
  const { root, alike } = treeOf(game, policies, player)
  const actions = new Map<string, number>()
  const values = new Map<Node, number>()
  const sumOf = (node: Node, chosen: number | undefined): number => {
    let sum = 0
    for (const branch of node.branches) if (branch.chosen === chosen) sum += branch.probability * worthOf(branch.node)
    return sum
  }
  const choose = ({ informationState, legalActions }: GameDecision): number => {
    const known = actions.get(informationState)
    if (known !== undefined) return known
    const nodes = alike.get(informationState)!
    const worth = legalActions.map((action) => nodes.reduce((sum, node) => sum + node.reach * sumOf(node, action), 0))
    const best = legalActions[worth.indexOf(Math.max(...worth))]!
    actions.set(informationState, best)
    return best
  }
  const worthOf = (node: Node): number => {
    const known = node.value ?? values.get(node)
    if (known !== undefined) return known
    const value = sumOf(node, node.decision === undefined ? undefined : choose(node.decision))
    values.set(node, value)
    return value
  }
  return { value: worthOf(root), actions }
}

/**
 * Returns the sum, over all players, of what a best response earns more than the player's own
 * policy. It is 0 exactly in a Nash equilibrium.
 *
 * \( \sum_i \max_{\pi_i'} u_i(\pi_i', \pi_{-i}) - u_i(\pi) \)
 *
 * Errors   as `expectedReturns`.
 * Cost     visits every history once more than there are players.
 *
 * @example
 * nashConv(kuhnPoker(), [uniformGamePolicy, uniformGamePolicy]).toFixed(4) // '0.9167'
 */
export const nashConv = <P>(game: Game<P>, policies: readonly GamePolicy[]): number => {
  const expected = expectedReturns(game, policies)
  return playersOf(game).reduce(
    (sum, player) => sum + bestResponse(game, policies, player).value - expected[player]!,
    0,
  )
}

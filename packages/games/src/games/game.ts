/** Games as pure values: rules, turns, chance and what each player sees. */
import { type Key, uniform } from '@tandem-rl/base'

/** The actor of a move: the number of a player, from 0, or chance. */
export type GameActor = number | 'chance'

/**
 * The actor of the next move. `'simultaneous'` means that all players move at once, and `'over'`
 * that no move follows.
 */
export type GameTurn = GameActor | 'simultaneous' | 'over'

/** One action, or one for each player where the turn is simultaneous. */
export type GameMove = number | readonly number[]

/** A possible action of chance. */
export interface ChanceOutcome {
  readonly action: number
  /** Between 0 and 1. The probabilities of a state add up to 1. */
  readonly probability: number
}

/** The functions that show a player the part of a position that it may know. */
export interface GameViews<P> {
  /** Shows the present of a player. It may omit what the player saw before. */
  readonly observation: (position: P, player: number) => string
  /**
   * Shows everything that a player has seen and done. Equal strings mean that the player cannot
   * tell the positions apart.
   */
  readonly informationState: (position: P, player: number) => string
}

/**
 * The rules of a game over positions `P`. All functions are pure. A position is immutable and
 * consists of JSON values. Actions are integers from 0.
 */
export interface GameRules<P> {
  /** A short name in `snake_case`. */
  readonly name: string
  /** The number of players. */
  readonly players: number
  /** `zeroSum` if the returns of the players always add up to 0. */
  readonly utility: 'zeroSum' | 'generalSum'
  /** Describes the rules to a language model that plays. */
  readonly rules: string
  readonly initial: P
  readonly turn: (position: P) => GameTurn
  /** Returns the actions of a player whose turn it is, in ascending order. */
  readonly legalActions: (position: P, player: number) => readonly number[]
  /**
   * Returns the position after a legal action, or after one of each player where they move at once.
   */
  readonly next: (position: P, ...actions: number[]) => P
  /** Returns the outcomes of chance where the turn is its. Omit it in a game without chance. */
  readonly chance?: (position: P) => readonly ChanceOutcome[]
  /** Returns the result of every player where the game is over. */
  readonly returns: (position: P) => readonly number[]
  /** Prints the whole position, including what is hidden from players. */
  readonly text: (position: P) => string
  /** Prints an action, as in `x(0,1)`. Different actions of an actor have different texts. */
  readonly actionText: (position: P, actor: GameActor, action: number) => string
  /**
   * `open` if nothing is hidden: players see `text`, and the history is their information state.
   * Otherwise the views of each player.
   */
  readonly views: 'open' | GameViews<P>
}

/** A position and how it was reached. */
export interface GameState<P> {
  readonly position: P
  /**
   * All actions so far, including those of chance. A simultaneous move adds one for each player.
   */
  readonly history: readonly number[]
}

/**
 * A game: checked functions over immutable states of JSON values. `defineGame` makes one of rules.
 */
export interface Game<P = unknown> {
  readonly name: string
  readonly players: number
  readonly utility: 'zeroSum' | 'generalSum'
  readonly rules: string
  readonly initial: GameState<P>
  readonly turn: (state: GameState<P>) => GameTurn
  /** Returns the actions of a player in ascending order. Empty if it is not the player's turn. */
  readonly legalActions: (state: GameState<P>, player: number) => readonly number[]
  /** Returns the state after a move. Throws RangeError if the move is not legal. */
  readonly apply: (state: GameState<P>, move: GameMove) => GameState<P>
  /** Returns the outcomes of chance. Empty if it is not the turn of chance. */
  readonly chance: (state: GameState<P>) => readonly ChanceOutcome[]
  /** Returns the result of each player. Throws RangeError before the game is over. */
  readonly returns: (state: GameState<P>) => readonly number[]
  readonly text: (state: GameState<P>) => string
  readonly actionText: (state: GameState<P>, actor: GameActor, action: number) => string
  readonly observation: (state: GameState<P>, player: number) => string
  readonly informationState: (state: GameState<P>, player: number) => string
}

/** Returns all players, in order. */
export const playersOf = (game: Pick<Game, 'players'>): readonly number[] =>
  Array.from({ length: game.players }, (_, player) => player)

/** Returns equally likely outcomes. */
export const equalOutcomes = (actions: readonly number[]): readonly ChanceOutcome[] =>
  actions.map((action) => ({ action, probability: 1 / actions.length }))

/** A pure function that remembers its last result. */
export interface Remembered<P, R> {
  (position: P): R
  /** Sets the result of a position that is already known, and returns the position. */
  readonly known: (position: P, result: R) => P
}

/**
 * Returns a pure function that computes its result once for calls in a row with the same position.
 * A table of all positions would cost more than most rules.
 */
export const remembered = <P, R>(compute: (position: P) => R): Remembered<P, R> => {
  let last: { readonly position: P; readonly result: R } | undefined
  const read = (position: P): R => {
    if (last === undefined || last.position !== position) last = { position, result: compute(position) }
    return last.result
  }
  return Object.assign(read, {
    known: (position: P, result: R): P => {
      last = { position, result }
      return position
    },
  })
}

/**
 * Makes a game of its rules. The game keeps the history of each state and checks every call.
 *
 * Errors   throws RangeError unless `players` is a whole number of at least 1. The functions of the
 *          game throw RangeError for a player that does not exist, an illegal move, and returns
 *          before the end.
 *
 * @example
 * const coin = defineGame({
 *   name: 'call_it', players: 1, utility: 'generalSum', rules: 'Call heads to win.', initial: 'open',
 *   turn: (call) => (call === 'open' ? 0 : 'over'), legalActions: () => [0, 1],
 *   next: (_, action) => (action === 0 ? 'heads' : 'tails'), returns: (call) => [call === 'heads' ? 1 : 0],
 *   text: (call) => call, actionText: (_, __, action) => (action === 0 ? 'Heads' : 'Tails'), views: 'open',
 * })
 * coin.returns(coin.apply(coin.initial, 0)) // [1]
 */
export const defineGame = <P>(rules: GameRules<P>): Game<P> => {
  const { name, players, utility, views } = rules
  if (!Number.isInteger(players) || players < 1)
    throw new RangeError(`defineGame: players must be a whole number of at least 1, got ${players}`)

  const requirePlayer = (player: number): void => {
    if (!Number.isInteger(player) || player < 0 || player >= players)
      throw new RangeError(`${name}: player must be a whole number from 0 to ${players - 1}, got ${player}`)
  }
  const turnOf = remembered(rules.turn)
  const ofMover = remembered((position: P): readonly number[] => rules.legalActions(position, Number(turnOf(position))))
  const legalActions = ({ position }: GameState<P>, player: number): readonly number[] => {
    requirePlayer(player)
    const turn = turnOf(position)
    if (turn === player) return ofMover(position)
    return turn === 'simultaneous' ? rules.legalActions(position, player) : []
  }
  const outcomesOf = remembered((position: P): readonly ChanceOutcome[] => {
    if (rules.chance === undefined) throw new RangeError(`${name}: the turn is chance's, and the rules have no chance`)
    return rules.chance(position)
  })
  const chance = ({ position }: GameState<P>): readonly ChanceOutcome[] =>
    turnOf(position) === 'chance' ? outcomesOf(position) : []
  const isLegal = (state: GameState<P>, move: GameMove): boolean => {
    const turn = turnOf(state.position)
    if (turn === 'over') return false
    if (turn === 'simultaneous')
      return (
        typeof move !== 'number' &&
        move.length === players &&
        move.every((action, player) => legalActions(state, player).includes(action))
      )
    if (typeof move !== 'number') return false
    return turn === 'chance'
      ? chance(state).some(({ action }) => action === move)
      : legalActions(state, turn).includes(move)
  }
  return {
    name,
    players,
    utility,
    rules: rules.rules,
    initial: { position: rules.initial, history: [] },
    turn: ({ position }) => turnOf(position),
    legalActions,
    apply: (state, move) => {
      if (!isLegal(state, move))
        throw new RangeError(
          `${name}: ${JSON.stringify(move)} is not a legal move; the turn is '${turnOf(state.position)}'`,
        )
      const position = typeof move === 'number' ? rules.next(state.position, move) : rules.next(state.position, ...move)
      return { position, history: state.history.concat(move) }
    },
    chance,
    returns: ({ position }) => {
      if (turnOf(position) !== 'over') throw new RangeError(`${name}: there are no returns before the game is over`)
      return rules.returns(position)
    },
    text: ({ position }) => rules.text(position),
    actionText: ({ position }, actor, action) => rules.actionText(position, actor, action),
    observation: ({ position }, player) => {
      requirePlayer(player)
      return views === 'open' ? rules.text(position) : views.observation(position, player)
    },
    informationState: ({ position, history }, player) => {
      requirePlayer(player)
      return views === 'open' ? history.join(', ') : views.informationState(position, player)
    },
  }
}

/**
 * Returns the state after a history of actions. Without its last actions, a history undoes them.
 *
 * Errors   throws RangeError for an illegal action, and for a history that ends within a
 *          simultaneous move.
 *
 * @example
 * replayGame(ticTacToe, [4, 0]).history // [4, 0]
 */
export const replayGame = <P>(game: Game<P>, history: readonly number[]): GameState<P> => {
  let state = game.initial
  for (let at = 0; at < history.length; ) {
    const isJoint = game.turn(state) === 'simultaneous'
    state = game.apply(state, isJoint ? history.slice(at, at + game.players) : history[at]!)
    at += isJoint ? game.players : 1
  }
  return state
}

/**
 * Draws an action of chance with its probability. Equal keys draw equal actions.
 *
 * Errors   throws RangeError if it is not the turn of chance.
 */
export const drawChance = <P>(game: Game<P>, state: GameState<P>, key: Key): number => {
  const outcomes = game.chance(state)
  if (outcomes.length === 0) throw new RangeError(`${game.name}: it is not the turn of chance`)
  return outcomes[
    drawIndex(
      outcomes.map(({ probability }) => probability),
      key,
    )
  ]!.action
}

/** Draws an index with its probability. The probabilities add up to 1. */
export const drawIndex = (probabilities: readonly number[], key: Key): number => {
  let rest = uniform(key)
  for (const [index, probability] of probabilities.entries()) {
    rest -= probability
    if (rest < 0) return index
  }
  return probabilities.findLastIndex((each) => each > 0) // they add up to a little less than 1
}

/** A game in play: what the replies of language models, fixed players and chance made of it. */
import { child, type Key } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { drawChance, drawIndex, type Game, type GameState, playersOf } from './game.js'
import type { ActionFailure } from './gameText.js'
import { afterIllegalMove, forfeitReturns, type IllegalMoveRule } from './illegalMove.js'
import type { GameStrategy } from './strategies.js'

/** Reads an action from the reply of a player. */
export type ActionReader<P> = (
  game: Game<P>,
  state: GameState<P>,
  reply: { readonly player: number; readonly reply: string },
) => E.Either<ActionFailure, number>

/**
 * A turn of a game, for rewards: the states before and after it, once chance and fixed players have
 * moved.
 */
export interface GameTransition<P> {
  readonly game: Game<P>
  readonly before: GameState<P>
  readonly after: GameState<P>
  /** The player who replied. */
  readonly player: number
}

/** Rewards besides the result of the game. */
export interface GameShaping<P> {
  /** Returns a reward of each player for a turn. Default: none. */
  readonly turn?: (transition: GameTransition<P>) => readonly number[]
  /**
   * The value of a state for a player. A turn pays its increase, and the end of the game counts as
   * 0, so that a game pays minus the value of its first state, whatever is played (Ng et al. 1999;
   * Devlin and Kudenko 2011 for several players). Default: 0.
   */
  readonly potential?: (state: GameState<P>, player: number) => number
}

/** The rules of play, besides those of the game. */
export interface PlayRules<P> {
  readonly game: Game<P>
  /** The strategies of fixed players, by seat. `undefined` for players who reply. */
  readonly fixed: readonly (GameStrategy<P> | undefined)[]
  readonly illegal: IllegalMoveRule
  /** The chips that a forfeit costs. */
  readonly stake: number
  readonly read: ActionReader<P>
  readonly shaping: GameShaping<P>
  /** The game is truncated after this many replies. */
  readonly maxReplies: number
  /** The key of chance. */
  readonly deal: Key
  /** The key of fixed players, and of random moves in place of illegal ones. */
  readonly play: Key
}

/** The state of a game between two replies. */
export interface GameScene<P> {
  readonly state: GameState<P>
  /** The player who is to reply. `null` after the end. */
  readonly player: number | null
  /** The actions of the players who have chosen, while all players move at once. */
  readonly chosen: readonly number[]
  /** The number of illegal replies of this player in this turn. */
  readonly attempt: number
  /** The reason why the last reply was illegal. `null` if it was legal. */
  readonly feedback: string | null
  /** The numbers of replies and of illegal replies, by player. */
  readonly replies: readonly number[]
  readonly illegal: readonly number[]
  /** The rewards of the last turn, by player. */
  readonly rewards: readonly number[]
  /** The result of each player, or `null` before the end. A truncated game has none. */
  readonly returns: readonly number[] | null
  /** The player who lost by an illegal move, or `null`. */
  readonly forfeit: number | null
  readonly end: 'terminated' | 'truncated' | null
}

const strategyMove = <P>(rules: PlayRules<P>, state: GameState<P>, player: number): number => {
  const { game, play } = rules
  const probabilities = rules.fixed[player]!({ game, state, player })
  const key = child(child(play, `player ${player}`), state.history.length)
  return game.legalActions(state, player)[drawIndex(probabilities, key)]!
}

/** The part of a scene that moves of chance and fixed players change. */
type Settled<P> = Pick<GameScene<P>, 'state' | 'player' | 'chosen'>

/** Plays chance and fixed players until a player must reply or the game is over. */
const settled = <P>(rules: PlayRules<P>, from: Pick<GameScene<P>, 'state' | 'chosen'>): Settled<P> => {
  const { game, deal } = rules
  let { state, chosen } = from
  for (;;) {
    const turn = game.turn(state)
    if (turn === 'over') return { state, player: null, chosen: [] }
    if (turn === 'chance') state = game.apply(state, drawChance(game, state, child(deal, state.history.length)))
    else if (turn === 'simultaneous' && chosen.length === game.players) {
      state = game.apply(state, chosen)
      chosen = []
    } else {
      const player = turn === 'simultaneous' ? chosen.length : turn
      if (rules.fixed[player] === undefined) return { state, player, chosen }
      const action = strategyMove(rules, state, player)
      if (turn === 'simultaneous') chosen = [...chosen, action]
      else state = game.apply(state, action)
    }
  }
}

/** Returns a game before the first reply. */
export const openingScene = <P>(rules: PlayRules<P>): GameScene<P> => {
  const { game } = rules
  const zeros = playersOf(game).map(() => 0)
  const start = settled(rules, { state: game.initial, chosen: [] })
  const isOver = start.player === null
  return {
    ...start,
    attempt: 0,
    feedback: null,
    replies: zeros,
    illegal: zeros,
    forfeit: null,
    rewards: zeros,
    returns: isOver ? game.returns(start.state) : null,
    end: isOver ? 'terminated' : null,
  }
}

const added = (a: readonly number[], b: readonly number[]): readonly number[] => a.map((x, i) => x + b[i]!)

const counted = (counts: readonly number[], player: number): readonly number[] =>
  counts.map((count, each) => (each === player ? count + 1 : count))

/** The rewards of a turn: the result of the game if it is over, and what shaping pays. */
const rewardsOf = <P>(
  { game, shaping }: PlayRules<P>,
  turn: GameTransition<P>,
  { returns, isOver }: { readonly returns: readonly number[] | null; readonly isOver: boolean },
): readonly number[] => {
  const { turn: ofTurn, potential } = shaping
  const zeros = playersOf(game).map(() => 0)
  const paid = ofTurn?.(turn) ?? zeros
  const gained =
    potential === undefined
      ? zeros
      : zeros.map((_, player) => (isOver ? 0 : potential(turn.after, player)) - potential(turn.before, player))
  return added(added(returns ?? zeros, paid), gained)
}

/** Returns the scene after a legal or random action of the player. */
const afterAction = <P>(rules: PlayRules<P>, scene: GameScene<P>, action: number): Settled<P> =>
  rules.game.turn(scene.state) === 'simultaneous'
    ? settled(rules, { state: scene.state, chosen: [...scene.chosen, action] })
    : settled(rules, { state: rules.game.apply(scene.state, action), chosen: [] })

/**
 * Returns a game after a reply of the player whose turn it is, and after the moves of chance and
 * fixed players that follow.
 *
 * Errors   throws RangeError after the end.
 */
export const sceneAfter = <P>(rules: PlayRules<P>, scene: GameScene<P>, reply: string): GameScene<P> => {
  const { game, illegal: rule, stake, read, maxReplies } = rules
  const { state, player, attempt } = scene
  if (player === null) throw new RangeError(`${game.name}: the game is over`)
  const replies = counted(scene.replies, player)
  const isLast = replies.reduce((sum, each) => sum + each) >= maxReplies
  const found = read(game, state, { player, reply })
  const illegal = E.isLeft(found) ? counted(scene.illegal, player) : scene.illegal
  const outcome = E.isRight(found)
    ? ({ kind: 'play', action: found.right } as const)
    : afterIllegalMove(rule, {
        attempt,
        legalActions: game.legalActions(state, player),
        key: child(
          child(rules.play, 'illegal'),
          illegal.reduce((sum, each) => sum + each),
        ),
      })
  const feedback = E.isLeft(found) ? found.left.reason : null
  const counts = { replies, illegal, feedback }
  const finished = (
    next: Settled<P>,
    { returns, forfeit }: { readonly returns: readonly number[] | null; readonly forfeit: number | null },
  ): GameScene<P> => {
    const isOver = returns !== null || isLast
    const rewards = rewardsOf(rules, { game, before: state, after: next.state, player }, { returns, isOver })
    const end = returns !== null ? 'terminated' : isLast ? 'truncated' : null
    return { ...next, ...counts, attempt: 0, rewards, returns, forfeit, end, player: isOver ? null : next.player }
  }
  if (outcome.kind === 'retry') {
    const again = finished({ state, player, chosen: scene.chosen }, { returns: null, forfeit: null })
    return { ...again, attempt: attempt + 1 }
  }
  if (outcome.kind === 'forfeit') {
    const returns = forfeitReturns(game, { player, stake })
    return finished({ state, player: null, chosen: [] }, { returns, forfeit: player })
  }
  const next = afterAction(rules, scene, outcome.action)
  return finished(next, { returns: next.player === null ? game.returns(next.state) : null, forfeit: null })
}

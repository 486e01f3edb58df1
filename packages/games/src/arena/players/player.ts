/** Players of the arena: random, search, tables, people, language models, and mixtures of them. */
import type { Failure, Key } from '@tandem-rl/base'
import type { Either } from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Game, GameState } from '../../games/game.js'
import { type ActionFailure, type GamePromptOptions, gamePrompt, parseAction } from '../../games/gameText.js'

/** A player could not move. `cancelled`: by the caller's signal. This is never an illegal move. */
export interface PlayerFailure {
  readonly _tag: 'PlayerFailure'
  readonly kind: 'infrastructure' | 'unsupported' | 'cancelled'
  readonly reason: string
  readonly cause?: Failure
}

/** Makes the failure of a player. */
export const playerFailure = (kind: PlayerFailure['kind'], reason: string, cause?: Failure): PlayerFailure => ({
  _tag: 'PlayerFailure',
  kind,
  reason,
  ...(cause !== undefined && { cause }),
})

/** An illegal move of the current turn. */
export interface IllegalAttempt {
  readonly reply: string
  readonly reason: string
}

/** A game whose positions have any type. */
export interface OpenPosition {
  readonly game: Game
  readonly state: GameState<unknown>
}

/** The view of a player who is to move. Nothing in it shows what is hidden from the player. */
export interface Scene {
  /** The name of the game. */
  readonly game: string
  readonly rules: string
  /** The seat of the player, from 0. */
  readonly player: number
  readonly observation: string
  readonly informationState: string
  /** In ascending order. */
  readonly legalActions: readonly number[]
  /** The texts of the legal actions, in the same order. */
  readonly actionTexts: readonly string[]
  /** The game and its state if nothing of it is hidden from the player, else `null`. */
  readonly open: OpenPosition | null
  /** The illegal moves of this turn so far, which the player may correct. */
  readonly attempts: readonly IllegalAttempt[]
  /** Renders the prompt for a language model. */
  readonly prompt: (options?: GamePromptOptions) => string
  /** Reads an action from a reply. */
  readonly read: (reply: string) => Either<ActionFailure, number>
}

/** Tokens that a move used. */
export interface MoveUsage {
  readonly promptTokens: number
  readonly completionTokens: number
}

/** An answer to a scene. */
export interface PlayerMove {
  /** `illegal` if the reply has no legal action. */
  readonly action: number | 'illegal'
  /** The reply, if the player writes text. */
  readonly text?: string
  /** The reason of an illegal move, as shown to the player. */
  readonly problem?: string
  readonly reasoning?: string
  readonly usage?: MoveUsage
}

export interface MoveContext {
  /** The key of this move. */
  readonly key: Key
  /** The key of the player's seat in this game: equal in all moves of a game. */
  readonly gameKey: Key
  readonly signal: AbortSignal
}

/**
 * Plays one seat of a game. A player holds no state: everything that a move depends on is in its
 * arguments.
 */
export interface Player {
  readonly name: string
  readonly move: (scene: Scene, context: MoveContext) => TaskEither<PlayerFailure, PlayerMove>
  /** Returns the probability of each legal action, if the player can compute it. */
  readonly probabilities?: (
    scene: Scene,
    context: Pick<MoveContext, 'signal'>,
  ) => TaskEither<PlayerFailure, readonly number[]>
}

/**
 * Hides the type of a game's positions, so that games of all kinds fit in one list.
 *
 * @example
 * anyGame(ticTacToe).name // 'tic_tac_toe'
 */
export const anyGame = <P>(game: Game<P>): Game => game as unknown as Game // it only ever gets states that it made itself

/**
 * Returns `true` if a state hides nothing from a player: its information state is then the whole
 * history.
 */
const isOpen = (game: Game, state: GameState<unknown>, player: number): boolean =>
  game.informationState(state, player) === state.history.join(', ')

/**
 * Makes the scene of a player who is to move.
 *
 * Errors   throws RangeError if the player has no legal action.
 *
 * @example
 * sceneOf(anyGame(ticTacToe), ticTacToe.initial, { player: 0 }).actionTexts[4] // 'x(1,1)'
 */
export const sceneOf = (
  game: Game,
  state: GameState<unknown>,
  { player, attempts = [] }: { readonly player: number; readonly attempts?: readonly IllegalAttempt[] },
): Scene => {
  const legalActions = game.legalActions(state, player)
  if (legalActions.length === 0) throw new RangeError(`sceneOf: it is not the turn of player ${player}`)
  return {
    game: game.name,
    rules: game.rules,
    player,
    legalActions,
    attempts,
    observation: game.observation(state, player),
    informationState: game.informationState(state, player),
    actionTexts: legalActions.map((action) => game.actionText(state, player, action)),
    open: game.turn(state) === player && isOpen(game, state, player) ? { game, state } : null,
    prompt: (options = {}) => gamePrompt(game, state, { ...options, player }),
    read: (reply) => parseAction(game, state, { player, reply }),
  }
}

/** Games between players, and tournaments of many games. */
import { type Clock, child, type Key } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { drawChance, type Game, type GameState, playersOf } from '../../games/game.js'
import { afterIllegalMove, forfeitReturns, type IllegalMoveRule } from '../../games/illegalMove.js'
import {
  type IllegalAttempt,
  type MoveUsage,
  type Player,
  type PlayerFailure,
  type PlayerMove,
  playerFailure,
  sceneOf,
} from '../players/player.js'
import type { GameRecord, MoveRecord } from './records.js'

/** A game to play. */
export interface GamePlan {
  /** Unique in its tournament. */
  readonly id: string
  readonly game: Game
  /** One player for each seat. */
  readonly seats: readonly Player[]
  /** A name of the players that meet, whatever their seats. */
  readonly matchup: string
  readonly episode: number
  readonly round: number
  /** Chance is drawn from it. Games of a round have equal keys. */
  readonly chanceKey: Key
  /** The players draw from it. */
  readonly playKey: Key
}

export interface PlayOptions {
  readonly illegalMove: IllegalMoveRule
  readonly signal: AbortSignal
  readonly clock: Pick<Clock, 'now'>
  /** The most moves of each player. Default: no limit. */
  readonly maxRounds?: number | null
  /**
   * Moves that were made before an interruption, by the number of the decision. They are not asked
   * for again.
   */
  readonly known?: ReadonlyMap<number, MoveRecord>
  /** Called after each move, before the next one. */
  readonly onMove?: (decision: number, move: MoveRecord) => Promise<void>
}

/** The turn of one player. */
interface Turn {
  readonly plan: GamePlan
  readonly state: GameState<unknown>
  readonly player: number
  /** The number of the decision in the game. */
  readonly decision: number
}

/** The most characters of a reply that a record keeps. */
const LONGEST_REPLY = 20_000

const kept = (text: string): string => (text.length > LONGEST_REPLY ? `${text.slice(0, LONGEST_REPLY)} [cut]` : text)

const addUsage = (sum: MoveUsage | undefined, { usage }: PlayerMove): MoveUsage | undefined =>
  usage === undefined
    ? sum
    : {
        promptTokens: (sum?.promptTokens ?? 0) + usage.promptTokens,
        completionTokens: (sum?.completionTokens ?? 0) + usage.completionTokens,
      }

/** Asks a player for a move, as often as the rule for illegal moves allows. */
const decide = async (
  { plan, state, player, decision }: Turn,
  { illegalMove, signal, clock }: PlayOptions,
): Promise<E.Either<PlayerFailure, MoveRecord>> => {
  const { game, seats, playKey } = plan
  const gameKey = child(playKey, player)
  const started = clock.now()
  const attempts: IllegalAttempt[] = []
  let usage: MoveUsage | undefined
  const record = (action: number | null, by: MoveRecord['by'], move: PlayerMove): MoveRecord => ({
    player,
    action,
    text: action === null ? '' : game.actionText(state, player, action),
    by,
    illegal: attempts,
    ...(move.text !== undefined && { reply: kept(move.text) }),
    ...(move.reasoning !== undefined && { reasoning: kept(move.reasoning) }),
    ...(usage !== undefined && { usage }),
    latencyMs: clock.now() - started,
  })
  for (;;) {
    if (signal.aborted) return E.left(playerFailure('cancelled', 'the game was interrupted'))
    const scene = sceneOf(game, state, { player, attempts })
    const key = child(child(gameKey, decision), attempts.length)
    const moved = await seats[player]!.move(scene, { key, gameKey, signal })()
    if (E.isLeft(moved)) return moved
    const move = moved.right
    usage = addUsage(usage, move)
    const isLegal = move.action !== 'illegal' && scene.legalActions.includes(move.action)
    if (isLegal) return E.right(record(move.action, 'player', move))
    const reason = move.problem ?? `${move.action} is not a legal action`
    const outcome = afterIllegalMove(illegalMove, {
      attempt: attempts.length,
      legalActions: scene.legalActions,
      key: child(child(gameKey, 'fallback'), decision),
    })
    attempts.push({ reply: kept(move.text ?? String(move.action)), reason })
    if (outcome.kind === 'forfeit') return E.right(record(null, 'forfeit', move))
    if (outcome.kind === 'play') return E.right(record(outcome.action, 'fallback', move))
  }
}

/** Returns the moves of all players whose turn it is. */
const decisionsOf = async (turns: readonly Turn[], options: PlayOptions) => {
  const known = turns.map(({ decision }) => options.known?.get(decision))
  const all = await Promise.all(
    turns.map((turn, i) => {
      const move = known[i]
      return move === undefined ? decide(turn, options) : E.right(move)
    }),
  )
  const moves = E.sequenceArray(all)
  if (E.isRight(moves))
    for (const [i, move] of moves.right.entries())
      if (known[i] === undefined) await options.onMove?.(turns[i]!.decision, move)
  return moves
}

/**
 * Plays a game to its end. Equal plans give equal games if the players are deterministic in their
 * keys.
 *
 * Errors   `Left(PlayerFailure)` if a player cannot move or the signal aborts. The game then has no
 *          result, and can be continued with the moves so far in `known`.
 */
export const playGame =
  (plan: GamePlan, options: PlayOptions): TaskEither<PlayerFailure, GameRecord> =>
  async () => {
    const { game, seats, id, matchup, episode, round } = plan
    const moves: MoveRecord[] = []
    const ended = (
      end: GameRecord['end'],
      state: GameState<unknown>,
      returns: readonly number[] | null,
    ): GameRecord => ({
      id,
      game: game.name,
      matchup,
      episode,
      round,
      seats: seats.map(({ name }) => name),
      end,
      returns,
      moves,
      history: state.history,
    })
    const limit = (options.maxRounds ?? Number.POSITIVE_INFINITY) * game.players
    let state = game.initial
    for (let chances = 0; ; ) {
      const turn = game.turn(state)
      if (turn === 'over') return E.right(ended('over', state, game.returns(state)))
      if (turn === 'chance') {
        state = game.apply(state, drawChance(game, state, child(plan.chanceKey, chances++)))
        continue
      }
      if (moves.length >= limit) return E.right(ended('truncated', state, null))
      const actors = turn === 'simultaneous' ? playersOf(game) : [turn]
      const turns = actors.map((player, i): Turn => ({ plan, state, player, decision: moves.length + i }))
      const decided = await decisionsOf(turns, options)
      if (E.isLeft(decided)) return decided
      moves.push(...decided.right)
      const forfeited = decided.right.find(({ action }) => action === null)
      if (forfeited !== undefined) {
        const { player } = forfeited
        return E.right({ ...ended('forfeit', state, forfeitReturns(game, { player })), forfeitedBy: player })
      }
      const actions = decided.right.map(({ action }) => action!)
      state = game.apply(state, turn === 'simultaneous' ? actions : actions[0]!)
    }
  }

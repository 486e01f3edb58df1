/** Rules for illegal moves: forfeit the game, retry with feedback, or play a random legal move. */
import { child, type Key, uniformInteger } from '@tandem-rl/base'

/** The consequence of an illegal move. */
export type IllegalMoveRule =
  /** The game ends, and the player loses it. */
  | { readonly kind: 'forfeit' }
  /**
   * The player reads why the move is illegal and tries again, at most `attempts` times in a turn.
   */
  | { readonly kind: 'retry'; readonly attempts: number; readonly fallback: 'forfeit' | 'random' }
  /** A random legal move is played instead. */
  | { readonly kind: 'random' }

/** The result of an illegal move. */
export type IllegalMoveOutcome =
  | { readonly kind: 'forfeit' }
  | { readonly kind: 'retry' }
  | { readonly kind: 'play'; readonly action: number }

/**
 * Checks a rule that comes from outside.
 *
 * Errors   throws RangeError for an unknown kind, and unless `attempts` is an integer of at least
 *          1.
 */
export const checkIllegalMoveRule = (where: string, rule: IllegalMoveRule): void => {
  const { kind } = rule
  if (kind === 'forfeit' || kind === 'random') return
  if (kind !== 'retry')
    throw new RangeError(`${where}: kind must be 'forfeit', 'retry' or 'random', got ${JSON.stringify(kind)}`)
  if (!Number.isInteger(rule.attempts) || rule.attempts < 1)
    throw new RangeError(`${where}: attempts must be an integer of at least 1, got ${rule.attempts}`)
  if (rule.fallback !== 'forfeit' && rule.fallback !== 'random')
    throw new RangeError(`${where}: fallback must be 'forfeit' or 'random', got ${JSON.stringify(rule.fallback)}`)
}

const fallbackOutcome = (
  kind: 'forfeit' | 'random',
  { legalActions, key }: { readonly legalActions: readonly number[]; readonly key: Key },
): IllegalMoveOutcome => {
  if (kind === 'forfeit') return { kind }
  if (legalActions.length === 0) throw new RangeError('afterIllegalMove: legalActions must not be empty')
  return { kind: 'play', action: legalActions[uniformInteger(child(key, 'fallback'), legalActions.length)]! }
}

/**
 * Returns what follows an illegal move. Equal keys choose equal random moves.
 *
 * `attempt` counts the illegal moves of this turn, from 0: a rule with `attempts: 2` allows two
 * retries, after attempts 0 and 1.
 *
 * Errors   throws RangeError if a random move must be chosen from no legal actions.
 *
 * @example
 * afterIllegalMove({ kind: 'retry', attempts: 1, fallback: 'forfeit' }, { attempt: 0, legalActions: [3], key: keyFromSeed(1) }).kind // 'retry'
 */
export const afterIllegalMove = (
  rule: IllegalMoveRule,
  turn: { readonly attempt: number; readonly legalActions: readonly number[]; readonly key: Key },
): IllegalMoveOutcome => {
  if (rule.kind !== 'retry') return fallbackOutcome(rule.kind, turn)
  return turn.attempt < rule.attempts ? { kind: 'retry' } : fallbackOutcome(rule.fallback, turn)
}

/**
 * Returns the returns of a game that a player forfeits. In a zero-sum game the player loses
 * `stake`, and the others share it. In other games the player gets `-stake` and the others get 0.
 *
 * Errors   throws RangeError for a player that does not exist.
 *
 * @example
 * forfeitReturns({ players: 2, utility: 'zeroSum' }, { player: 0 }) // [-1, 1]
 */
export const forfeitReturns = (
  { players, utility }: { readonly players: number; readonly utility: 'zeroSum' | 'generalSum' },
  { player, stake = 1 }: { readonly player: number; readonly stake?: number },
): readonly number[] => {
  if (!Number.isInteger(player) || player < 0 || player >= players)
    throw new RangeError(`forfeitReturns: player must be a whole number from 0 to ${players - 1}, got ${player}`)
  const share = utility === 'zeroSum' && players > 1 ? stake / (players - 1) : 0
  return Array.from({ length: players }, (_, each) => (each === player ? -stake : share))
}

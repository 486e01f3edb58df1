/** Pig: roll for points, and stop before a one. */
import { checkOptions } from '@tandem-rl/base'
import { PIG_OPTIONS } from '../optionKinds.js'
import { requireWhole } from './boards.js'
import { defineGame, equalOutcomes, type Game, type GameTurn, playersOf } from './game.js'

export interface PigOptions {
  /** At least 2. Default 2. */
  readonly players?: number
  /** The points that win. Default 100. */
  readonly winScore?: number
  /**
   * The limit of decisions, of all players together. At the limit the game is a draw. Default 1000.
   */
  readonly horizon?: number
  /** The faces of the die. Default 6. */
  readonly sides?: number
}

/** The scores, and the turn in progress. */
export interface PigPosition {
  readonly scores: readonly number[]
  readonly player: number
  readonly turnTotal: number
  readonly phase: 'deciding' | 'rolling'
  /** The decisions so far. */
  readonly moves: number
}

const [ROLL, STOP] = [0, 1] as const

/**
 * Pig. Action 0 rolls and adds to the total of the turn, but a one loses the total and the turn.
 * Action 1 adds the total to the score and ends the turn. The winner gets 1, and the others share
 * the loss.
 *
 * Errors   throws RangeError unless the options are whole numbers of at least 1, and 2 for players.
 * Source   OpenSpiel's `pig`: action numbers and texts are the same.
 *
 * @example
 * pig({ winScore: 5 }).returns(replayGame(pig({ winScore: 5 }), [0, 5, 1])) // [1, -1]
 */
export const pig = (options: PigOptions = {}): Game<PigPosition> => {
  checkOptions('pig', options, PIG_OPTIONS)
  const { players = 2, winScore = 100, horizon = 1000, sides = 6 } = options
  requireWhole('pig', { players, winScore, horizon, sides })
  if (players < 2) throw new RangeError(`pig: players must be at least 2, got ${players}`)
  const outcomes = equalOutcomes(Array.from({ length: sides }, (_, face) => face))
  const turn = ({ scores, player, phase, moves }: PigPosition): GameTurn => {
    if (moves >= horizon || scores.some((score) => score >= winScore)) return 'over'
    return phase === 'rolling' ? 'chance' : player
  }
  const passed = (position: PigPosition): PigPosition => ({
    ...position,
    player: (position.player + 1) % players,
    turnTotal: 0,
    phase: 'deciding',
  })
  const rolled = (position: PigPosition, face: number): PigPosition =>
    face === 1 ? passed(position) : { ...position, turnTotal: position.turnTotal + face, phase: 'deciding' }
  return defineGame<PigPosition>({
    name: 'pig',
    players,
    utility: 'zeroSum',
    rules:
      `${players} players race to ${winScore} points. In a turn, a player may roll a die with ${sides} sides as often ` +
      'as it likes. Each roll adds its points to the total of the turn, but a 1 loses this total and ends the turn. ' +
      `With stop, the total is added to the score, and the turn ends. Nobody wins after ${horizon} decisions.`,
    initial: { scores: new Array<number>(players).fill(0), player: 0, turnTotal: 0, phase: 'deciding', moves: 0 },
    turn,
    legalActions: ({ scores, turnTotal }, player) => (scores[player]! + turnTotal >= winScore ? [STOP] : [ROLL, STOP]),
    next: (position, action) => {
      if (position.phase === 'rolling') return rolled(position, action + 1)
      const moved = { ...position, moves: position.moves + 1 }
      if (action === ROLL) return { ...moved, phase: 'rolling' }
      const scores = position.scores.map((score, i) => (i === position.player ? score + position.turnTotal : score))
      return passed({ ...moved, scores })
    },
    chance: () => outcomes,
    returns: ({ scores }) => {
      const winner = scores.findIndex((score) => score >= winScore)
      return playersOf({ players }).map((player) => (winner === -1 ? 0 : player === winner ? 1 : -1 / (players - 1)))
    },
    text: ({ scores, player, turnTotal, phase }) =>
      `Scores: ${scores.join(' ')}, Turn total: ${turnTotal}\n` +
      `Current player: ${player}${phase === 'rolling' ? ' (rolling)' : ''}\n`,
    actionText: (_position, actor, action) =>
      actor === 'chance' ? `Roll ${action + 1}` : action === ROLL ? 'roll' : 'stop',
    views: 'open',
  })
}

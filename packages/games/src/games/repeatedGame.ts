/** A matrix game, played several times by the same players. */
import { checkOptions } from '@tandem-rl/base'
import { REPEATED_GAME_OPTIONS } from '../optionKinds.js'
import { defineGame, type Game, playersOf } from './game.js'
import type { MatrixPosition } from './matrixGames.js'

export interface RepeatedGameOptions {
  /** The game of each round: one move of all players at once. */
  readonly game: Game<MatrixPosition>
  /** The most rounds. */
  readonly rounds: number
  /** The probability that a round is the last one, which no player knows before. Default 0. */
  readonly stop?: number
  /** The rounds that an observation shows, the last one first. Default 1. */
  readonly recall?: number
}

/** The joint actions so far, and the next event: a round, a draw of chance, or the end. */
export interface RepeatedPosition {
  readonly played: readonly (readonly number[])[]
  readonly phase: 'round' | 'chance' | 'over'
}

const [CONTINUE, STOP] = [0, 1] as const

const problemsOf = ({ game, rounds, stop = 0, recall = 1 }: RepeatedGameOptions): readonly string[] => {
  const count = (name: string, value: number): readonly string[] =>
    Number.isInteger(value) && value >= 1 ? [] : [`${name} must be a whole number of at least 1, got ${value}`]
  return [
    ...(game.turn(game.initial) === 'simultaneous' ? [] : [`${game.name} has no simultaneous first move`]),
    ...count('rounds', rounds),
    ...count('recall', recall),
    ...(stop >= 0 && stop < 1 ? [] : [`stop must be at least 0 and below 1, got ${stop}`]),
  ]
}

/**
 * Returns a game in which a matrix game is played several times and the results add up. Players see
 * the actions of all earlier rounds. With `stop`, chance ends the game after a round with that
 * probability, so that no round is known to be the last one.
 *
 * Errors   throws RangeError if the first move of the game is not simultaneous, or for numbers out
 *          of range.
 * Source   OpenSpiel's `repeated_game`, and its iterated prisoner's dilemma for `stop`.
 *
 * @example
 * const dilemma = repeatedGame({ game: prisonersDilemma, rounds: 2 })
 * dilemma.returns(replayGame(dilemma, [0, 0, 0, 1])) // [5, 15]
 */
export const repeatedGame = (options: RepeatedGameOptions): Game<RepeatedPosition> => {
  checkOptions('repeatedGame', options, REPEATED_GAME_OPTIONS)
  const problems = problemsOf(options)
  if (problems.length > 0) throw new RangeError(`repeatedGame: ${problems.join('; ')}`)
  const { game: stage, rounds, stop = 0, recall = 1 } = options
  const everyone = playersOf(stage)
  const earned = (joint: readonly number[]): readonly number[] => stage.returns(stage.apply(stage.initial, joint))
  const total = (played: RepeatedPosition['played']): readonly number[] => {
    const sums = everyone.map(() => 0)
    for (const joint of played) for (const [player, value] of earned(joint).entries()) sums[player]! += value
    return sums
  }
  const names = (joint: readonly number[]): string =>
    joint.map((action, player) => `${stage.actionText(stage.initial, player, action)} `).join('')
  const shown = (played: RepeatedPosition['played']): string => played.map(names).join('')
  return defineGame<RepeatedPosition>({
    name: `repeated_game(${stage.name})`,
    players: stage.players,
    utility: stage.utility,
    rules: [
      stage.rules,
      `This is played ${stop === 0 ? '' : 'up to '}${rounds} times, and what you get adds up. After each round, all ` +
        `players see the actions of all.${stop === 0 ? '' : ` Each round is the last one with a probability of ${stop}.`}`,
    ].join('\n'),
    initial: { played: [], phase: 'round' },
    turn: ({ phase }) => (phase === 'round' ? 'simultaneous' : phase),
    legalActions: (_position, player) => stage.legalActions(stage.initial, player),
    next: ({ played, phase }, ...actions) => {
      if (phase === 'chance') return { played, phase: actions[0] === STOP ? 'over' : 'round' }
      const after = [...played, actions]
      if (after.length === rounds) return { played: after, phase: 'over' }
      return { played: after, phase: stop === 0 ? 'round' : 'chance' }
    },
    chance: () => [
      { action: CONTINUE, probability: 1 - stop },
      { action: STOP, probability: stop },
    ],
    returns: ({ played }) => total(played),
    text: ({ played }) =>
      [
        ...played.flatMap((joint, round) => [
          `Round ${round}:`,
          `Actions: ${names(joint).trimEnd()}`,
          `Rewards: ${earned(joint).join(' ')}`,
        ]),
        `Total Returns: ${total(played).join(' ')}`,
      ].join('\n'),
    actionText: (_position, actor, action) =>
      actor === 'chance' ? ['Continue', 'Stop'][action]! : stage.actionText(stage.initial, actor, action),
    views: {
      observation: ({ played }) => shown(played.slice(-recall).toReversed()),
      informationState: ({ played, phase }) => `${shown(played)}${phase === 'over' ? '(over)' : ''}`,
    },
  })
}

/** Matrix games: all players choose once, at the same time. */
import { checkOptions } from '@tandem-rl/base'
import { MATRIX_GAME_OPTIONS } from '../optionKinds.js'
import { defineGame, type Game } from './game.js'

export interface MatrixGameOptions {
  /** A short name in `snake_case`. */
  readonly name: string
  /** The names of the actions of each player. */
  readonly actions: readonly (readonly string[])[]
  /**
   * The returns of all players for each joint action. The action of the last player changes
   * fastest, as in the rows of a matrix.
   */
  readonly payoffs: readonly (readonly number[])[]
}

/** The joint action, once it is chosen. */
export interface MatrixPosition {
  readonly chosen: readonly number[]
}

const indexOf = (chosen: readonly number[], actions: readonly (readonly string[])[]): number =>
  chosen.reduce((index, action, player) => index * actions[player]!.length + action, 0)

const jointActions = (actions: readonly (readonly string[])[]): readonly (readonly number[])[] =>
  actions.reduce<readonly (readonly number[])[]>(
    (joint, own) => joint.flatMap((before) => own.map((_, action) => [...before, action])),
    [[]],
  )

const problemsOf = ({ name, actions, payoffs }: MatrixGameOptions): readonly string[] => {
  const cells = actions.reduce((product, own) => product * own.length, 1)
  return [
    ...(actions.length === 0 || actions.some((own) => own.length === 0) ? ['actions must not be empty'] : []),
    ...(payoffs.length === cells ? [] : [`payoffs must have ${cells} rows, one for each joint action`]),
    ...(payoffs.every((row) => row.length === actions.length && row.every(Number.isFinite))
      ? []
      : [`a row of payoffs must have ${actions.length} numbers`]),
  ].map((problem) => `matrixGame '${name}': ${problem}`)
}

/** Prints a game of two players as OpenSpiel's matrix games do. */
const matrixText = ({ actions, payoffs }: MatrixGameOptions, { chosen }: MatrixPosition): string => {
  const isOver = chosen.length > 0
  const columns = actions[1]!.length
  const rows = actions[0]!.map((_, row) =>
    payoffs
      .slice(row * columns, (row + 1) * columns)
      .map((cell) => `${cell.join(',')} `)
      .join(''),
  )
  return [
    `Terminal? ${isOver}`,
    ...(isOver ? [`History: ${chosen.join(', ')}`, `Returns: ${payoffs[indexOf(chosen, actions)]!.join(',')}`] : []),
    `Row actions: ${isOver ? '' : `${actions[0]!.join(' ')} `}`,
    `Col actions: ${isOver ? '' : `${actions[1]!.join(' ')} `}`,
    'Utility matrix:',
    ...rows,
    '',
  ].join('\n')
}

/** Prints a game of any number of players as OpenSpiel's normal-form games do. */
const normalFormText = ({ actions, payoffs }: MatrixGameOptions, { chosen }: MatrixPosition): string =>
  `Normal form game default NFGState::ToString. ${
    chosen.length === 0
      ? 'Non-terminal'
      : `Terminal, history: ${chosen.join(', ')}, returns: ${payoffs[indexOf(chosen, actions)]!.join(',')}`
  }`

const shownState = ({ chosen }: MatrixPosition): string =>
  chosen.length === 0 ? 'Non-terminal' : `Terminal. History string: ${chosen.join(', ')}`

/**
 * Makes a game in which all players choose once, at the same time.
 *
 * Errors   throws RangeError if a player has no action, or if the payoffs are not one finite number
 *          for each player and joint action.
 *
 * @example
 * const game = matrixGame({ name: 'agree', actions: [['A', 'B'], ['A', 'B']], payoffs: [[1, 1], [0, 0], [0, 0], [1, 1]] })
 * game.returns(game.apply(game.initial, [1, 1])) // [1, 1]
 */
export const matrixGame = (options: MatrixGameOptions): Game<MatrixPosition> => {
  checkOptions('matrixGame', options, MATRIX_GAME_OPTIONS)
  const problems = problemsOf(options)
  if (problems.length > 0) throw new RangeError(problems.join('; '))
  const { name, actions, payoffs } = options
  const cells = jointActions(actions).map(
    (joint, at) => `${joint.map((action, player) => actions[player]![action]).join(', ')}: ${payoffs[at]!.join(', ')}`,
  )
  return defineGame<MatrixPosition>({
    name,
    players: actions.length,
    utility: payoffs.every((row) => row.reduce((sum, each) => sum + each, 0) === 0) ? 'zeroSum' : 'generalSum',
    rules: [
      `${actions.length} players choose one action each, at the same time. What they get, for each choice of players ` +
        `${actions.map((_, player) => player).join(', ')}:`,
      ...cells,
    ].join('\n'),
    initial: { chosen: [] },
    turn: ({ chosen }) => (chosen.length === 0 ? 'simultaneous' : 'over'),
    legalActions: (_position, player) => actions[player]!.map((_, action) => action),
    next: (_position, ...chosen) => ({ chosen }),
    returns: ({ chosen }) => payoffs[indexOf(chosen, actions)]!,
    text: (position) => (actions.length === 2 ? matrixText(options, position) : normalFormText(options, position)),
    actionText: (_position, actor, action) => actions[Number(actor)]![action]!,
    views: {
      observation: shownState,
      informationState: (position, player) => `Observing player: ${player}. ${shownState(position)}`,
    },
  })
}

/**
 * Makes a game of two players with the same actions, from what the row player and the column player
 * get.
 */
const square = (name: string, actions: readonly string[], row: readonly number[], column: readonly number[]) =>
  matrixGame({ name, actions: [actions, actions], payoffs: row.map((payoff, at) => [payoff, column[at]!]) })

/**
 * The prisoner's dilemma: action 0 cooperates, 1 defects. Defecting is better whatever the other
 * does.
 */
export const prisonersDilemma = square('matrix_pd', ['Cooperate', 'Defect'], [5, 0, 10, 1], [5, 10, 0, 1])

/** Matching pennies: player 0 wins 1 if both choose the same side, player 1 if not. */
export const matchingPennies = square('matrix_mp', ['Heads', 'Tails'], [1, -1, -1, 1], [-1, 1, 1, -1])

/** Rock-paper-scissors: the winner gets 1 from the loser. */
export const rockPaperScissors = square(
  'matrix_rps',
  ['Rock', 'Paper', 'Scissors'],
  [0, -1, 1, 1, 0, -1, -1, 1, 0],
  [0, 1, -1, -1, 0, 1, 1, -1, 0],
)

/** The stag hunt: a stag needs both hunters, a hare only one. */
export const stagHunt = square('matrix_sh', ['Stag', 'Hare'], [2, 0, 1, 1], [2, 1, 0, 1])

/** The battle of the sexes: two players want to meet, each at another concert. */
export const battleOfTheSexes = square('matrix_bos', ['Bach', 'Stravinsky'], [3, 0, 0, 2], [2, 0, 0, 3])

/** Chicken: who dares wins, unless both do. */
export const chicken = square('matrix_cd', ['Dare', 'Chicken'], [0, 4, 1, 3], [0, 1, 4, 3])

/** Coordination: both players want the same side, whichever it is. */
export const coordination = square('matrix_coordination', ['Left', 'Right'], [1, 0, 0, 1], [1, 0, 0, 1])

/** Rock-paper-scissors with other stakes for each victory. Its equilibrium is not uniform. */
export const biasedRockPaperScissors = square(
  'matrix_brps',
  ['Rock', 'Paper', 'Scissors'],
  [0, -25, 50, 25, 0, -5, -50, 5, 0],
  [0, 25, -50, -25, 0, 5, 50, -5, 0],
)

/** Rock-paper-scissors with a fourth action that neither wins nor loses. */
export const rockPaperScissorsWater = square(
  'matrix_rpsw',
  ['Rock', 'Paper', 'Scissors', 'Water'],
  [0, -1, 1, 0, 1, 0, -1, 0, -1, 1, 0, 0, 0, 0, 0, 0],
  [0, 1, -1, 0, -1, 0, 1, 0, 1, -1, 0, 0, 0, 0, 0, 0],
)

/** Shapley's game, in which fictitious play does not converge. */
export const shapleysGame = square(
  'matrix_shapleys_game',
  ['Rock', 'Paper', 'Scissors'],
  [0, 0, 1, 1, 0, 0, 0, 1, 0],
  [0, 1, 0, 0, 0, 1, 1, 0, 0],
)

const SIDES = ['Heads', 'Tails'] as const

/**
 * Matching pennies for three players: player 0 wants to match player 1, player 1 to match player 2,
 * and player 2 not to match player 0.
 */
export const matchingPennies3 = matrixGame({
  name: 'matching_pennies_3p',
  actions: [SIDES, SIDES, SIDES],
  payoffs: jointActions([SIDES, SIDES, SIDES]).map(([first, second, third]) => [
    first === second ? 1 : -1,
    second === third ? 1 : -1,
    third === first ? -1 : 1,
  ]),
})

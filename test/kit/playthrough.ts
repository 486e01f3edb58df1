/**
 * OpenSpiel's playthrough files: a game's states, as that library prints them, line by line.
 *
 * `playthroughProblems` replays a file and compares every line with a game of ours. It leaves out
 * tensors, the public and private parts of observations, OpenSpiel's serialization of states, and
 * the lines of the header that describe its own types. A line that it does not know is a problem.
 */
import { readFileSync } from 'node:fs'
import { type Game, type GameMove, type GameState, playersOf, replayGame } from '@tandem-rl/games/rules'

const FOLDER = 'test/golden/openspiel'

/** Differences between a file and the plain game. */
export interface PlaythroughOptions<P> {
  /** The actions before the first state of the file. */
  readonly start?: readonly number[]
  /** The numbers in files of games that pay before the end. Default: 0 until the end. */
  readonly scores?: (state: GameState<P>) => Scores
}

/** The rewards of the last move and the returns so far, for each player. */
interface Scores {
  readonly rewards: readonly number[]
  readonly returns: readonly number[]
}

export interface PlaythroughResult {
  readonly problems: readonly string[]
  /** The lines that were compared. */
  readonly compared: number
  /** The moves of the file. */
  readonly moves: number
}

const LEFT_OUT =
  /^(?:game: |GameType\.|NumDistinctActions|PolicyTensorShape|MaxChanceOutcomes|GetParameters|MinUtility|MaxUtility|MaxGameLength|ToString\(|\w*Tensor|PublicObservationString|PrivateObservationString|SerializeState| *[◉◯])/

const NUMBER_OF: Readonly<Record<string, number>> = { chance: -1, simultaneous: -2, over: -4 }

const listed = (values: readonly (number | string)[]): string => `[${values.join(', ')}]`

const number = (value: number): string => String(Number(value.toPrecision(6)) + 0)

const quoted = (text: string): string =>
  `"${text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"')}"`

const bool = (value: boolean): string => (value ? 'True' : 'False')

/** Prints a state as the files do, without the lines that are left out. */
const linesOf = <P>(
  game: Game<P>,
  state: GameState<P>,
  { start = [], scores }: PlaythroughOptions<P>,
): ReadonlyMap<string, string> => {
  const turn = game.turn(state)
  const everyone = playersOf(game)
  const history = state.history.slice(start.length)
  const last = turn === 'over' ? game.returns(state) : everyone.map(() => 0)
  const { rewards, returns } = scores?.(state) ?? { rewards: last, returns: last }
  const legal = (player: number): readonly (readonly [string, string])[] => {
    const suffix = turn === 'simultaneous' ? String(player) : ''
    const actions = game.legalActions(state, player)
    return [
      [`LegalActions(${suffix})`, listed(actions)],
      [`StringLegalActions(${suffix})`, listed(actions.map((each) => quoted(game.actionText(state, player, each))))],
    ]
  }
  const outcomes = game.chance(state)
  return new Map<string, string>([
    ['NumPlayers()', String(game.players)],
    ['UtilitySum()', game.utility === 'zeroSum' ? '0.0' : 'None'],
    ['IsTerminal()', bool(turn === 'over')],
    ['History()', listed(history)],
    ['HistoryString()', quoted(history.join(', '))],
    ['IsChanceNode()', bool(turn === 'chance')],
    ['IsSimultaneousNode()', bool(turn === 'simultaneous')],
    ['CurrentPlayer()', String(typeof turn === 'number' ? turn : NUMBER_OF[turn])],
    ...everyone.flatMap((player): readonly (readonly [string, string])[] => [
      [`InformationStateString(${player})`, quoted(game.informationState(state, player))],
      [`ObservationString(${player})`, quoted(game.observation(state, player))],
    ]),
    ['Rewards()', listed(rewards.map(number))],
    ['Returns()', listed(returns.map(number))],
    ...(turn === 'chance'
      ? ([
          ['ChanceOutcomes()', listed(outcomes.map((each) => `(${each.action},${number(each.probability)})`))],
          ['LegalActions()', listed(outcomes.map(({ action }) => action))],
          [
            'StringLegalActions()',
            listed(outcomes.map(({ action }) => quoted(game.actionText(state, 'chance', action)))),
          ],
        ] as const)
      : turn === 'over'
        ? []
        : everyone.filter((player) => turn === 'simultaneous' || turn === player).flatMap(legal)),
  ])
}

/** The lines of a state that are comments: the board. */
const boardOf = (text: string): readonly string[] => {
  const lines = text.split('\n').map((line) => `# ${line}`.trimEnd())
  return lines.at(-1) === '#' ? lines.slice(0, -1) : lines
}

/** The text of a move as the files print it. */
const moveText = <P>(game: Game<P>, state: GameState<P>, move: GameMove): string => {
  const turn = game.turn(state)
  return typeof move === 'number'
    ? quoted(game.actionText(state, turn === 'chance' ? turn : Number(turn), move))
    : listed(move.map((action, player) => quoted(game.actionText(state, player, action))))
}

/** Replays a file of `test/golden/openspiel` and compares each of its lines with the game. */
export const playthroughProblems = <P>(
  file: string,
  game: Game<P>,
  options: PlaythroughOptions<P> = {},
): PlaythroughResult => {
  const { start = [] } = options
  const problems: string[] = []
  let [compared, moves, applied] = [0, 0, '']
  let state = replayGame(game, start)
  let board: readonly string[] = []
  const lines = readFileSync(`${FOLDER}/${file}`, 'utf8').split('\n')
  const compare = (at: number, actual: string | undefined, expected: string | undefined): void => {
    compared++
    if (actual !== expected) problems.push(`${file}:${at + 1}: expected ${expected}, got ${actual}`)
  }
  for (const [at, line] of lines.entries()) {
    const [, move] = /^actions?: (.*)$/.exec(line) ?? []
    const [, label] = /^# Apply (?:joint )?action (.*)$/.exec(line) ?? []
    const [, name, value = ''] = /^(\w+\(\d*\)) = (.*)$/.exec(line) ?? []
    if (line === '' || LEFT_OUT.test(line)) continue
    if (label !== undefined) applied = label
    else if (move !== undefined) {
      const parsed = JSON.parse(move) as GameMove // a number or a list of numbers
      compare(at, moveText(game, state, parsed), applied)
      state = game.apply(state, parsed)
      moves++
    } else if (/^# State \d+$/.test(line)) board = boardOf(game.text(state))
    else if (line.startsWith('#')) {
      compare(at, board[0], line)
      board = board.slice(1)
    } else if (name === undefined) compare(at, undefined, line)
    else {
      if (name === 'IsTerminal()') compare(at, board[0], undefined)
      compare(at, linesOf(game, state, options).get(name), value.replace(/-0(?=[,\]]|\.0$)/g, '0'))
    }
  }
  return { problems, compared, moves }
}

/** Games as sequences of positions, and counts of openings, for the report. */
import type { Game } from '../../games/game.js'
import type { GameRecord, MoveRecord } from '../matches/records.js'

/** A position of a game and how it was reached. */
export interface Frame {
  readonly text: string
  readonly caption: string
  readonly reasoning?: string
  readonly reply?: string
  readonly illegal?: MoveRecord['illegal']
}

const SUFFIX: Readonly<Record<MoveRecord['by'], string>> = {
  player: '',
  fallback: ', a random move in place of an illegal one',
  forfeit: '',
}

const wordsOf = ({ reasoning, reply, illegal }: MoveRecord): Partial<Frame> => ({
  ...(reasoning !== undefined && { reasoning }),
  ...(reply !== undefined && { reply }),
  ...(illegal.length > 0 && { illegal }),
})

const actorOf = ({ seats }: GameRecord, player: number): string => `Player ${player} (${seats[player]})`

const captionOf = (record: GameRecord, move: MoveRecord): string =>
  move.by === 'forfeit'
    ? `${actorOf(record, move.player)} forfeits the game by an illegal move`
    : `${actorOf(record, move.player)}: ${move.text}${SUFFIX[move.by]}`

/** The result in words. */
const resultOf = ({ end, returns, seats }: GameRecord): string => {
  if (returns === null) return 'The game was truncated'
  const results = seats.map((name, seat) => `${name} ${returns[seat]}`)
  return `${end === 'forfeit' ? 'Forfeited' : 'Over'}: ${results.join(', ')}`
}

/** Returns every position of a game, chance included. */
export const framesOf = (game: Game, record: GameRecord): readonly Frame[] => {
  const { history, moves } = record
  let state = game.initial
  let made = 0
  const frames: Frame[] = [{ text: game.text(state), caption: 'The game begins' }]
  for (let at = 0; at < history.length; ) {
    const turn = game.turn(state)
    const size = turn === 'simultaneous' ? game.players : 1
    const some = turn === 'chance' ? [] : moves.slice(made, made + size)
    const caption =
      turn === 'chance'
        ? `Chance: ${game.actionText(state, 'chance', history[at]!)}`
        : some.map((move) => captionOf(record, move)).join('; ')
    state = game.apply(state, turn === 'simultaneous' ? history.slice(at, at + size) : history[at]!)
    const words = some.map(wordsOf)
    frames.push({ text: game.text(state), caption, ...Object.assign({}, ...words) })
    made += some.length
    at += size
  }
  for (const move of moves.slice(made))
    frames.push({ text: game.text(state), caption: captionOf(record, move), ...wordsOf(move) })
  frames.push({ text: game.text(state), caption: resultOf(record) })
  return frames
}

/** A cell of a map of openings. `row` and `column` begin at 0. */
interface OpeningCell {
  readonly row: number
  readonly column: number
  readonly text: string
  readonly count: number
}

/** The first moves of a player on one seat, on the board of the game or in one row. */
export interface OpeningMap {
  readonly player: string
  readonly seat: number
  readonly games: number
  readonly rows: number
  readonly columns: number
  /** The moves that were made. */
  readonly cells: readonly OpeningCell[]
}

/** The place of an action on a board. */
type Place = readonly [row: number, column: number]

/** Reads the place of an action in its text: `x(0,1)` or `a2`. */
const placeIn = (text: string): Place | undefined => {
  const [, row, column] = /\((\d{1,3}),(\d{1,3})\)$/.exec(text) ?? []
  if (row !== undefined && column !== undefined) return [Number(row), Number(column)]
  const [, letter, number] = /^([a-z])([1-9]\d{0,2})$/.exec(text) ?? []
  return letter === undefined ? undefined : [Number(number) - 1, letter.charCodeAt(0) - 97]
}

/** The size of a map, and the place of an action. */
interface Board {
  readonly rows: number
  readonly columns: number
  readonly placeOf: (text: string, action: number) => Place
}

/** The most first moves that have a place each, also if they were never chosen. */
const FEW_ACTIONS = 12

/**
 * Returns the board of a game if the texts of its first moves are places, as in `a2`. In `x2`, a
 * disc of Connect Four, the letter is that of the player. Then all moves are in one row.
 */
const boardOf = (game: Game, made: readonly number[]): Board => {
  const actions = game.legalActions(game.initial, 0)
  const places = actions.map((action) => placeIn(game.actionText(game.initial, 0, action)))
  const sizes = [0, 1].map((axis) => Math.max(0, ...places.map((place) => place?.[axis] ?? 0)) + 1)
  const [rows, columns] = [sizes[0]!, sizes[1]!]
  if (places.every((place) => place !== undefined) && rows * columns === actions.length)
    return { rows, columns, placeOf: (text) => placeIn(text) ?? [rows, 0] } // such as a swap
  const shown = new Set([...made, ...(actions.length > FEW_ACTIONS ? [] : actions)])
  const inRow = [...shown].sort((a, b) => a - b)
  return { rows: 1, columns: inRow.length, placeOf: (_text, action) => [0, inRow.indexOf(action)] }
}

/** The first move of each player, if it has one. */
const firstMoves = ({ seats, moves }: GameRecord) =>
  seats.flatMap((player, seat) => {
    const { action, text } = moves.find((move) => move.player === seat) ?? { action: null, text: '' }
    return action === null ? [] : [{ player, seat, action, text }]
  })

/** Counts the first moves of each player by seat. */
export const openingsOf = (game: Game, records: readonly GameRecord[]): readonly OpeningMap[] => {
  const firsts = records.flatMap(firstMoves)
  const board = boardOf(
    game,
    firsts.map(({ action }) => action),
  )
  const maps = new Map<
    string,
    { readonly player: string; readonly seat: number; readonly counts: Map<number, OpeningCell> }
  >()
  for (const { player, seat, action, text } of firsts) {
    const id = JSON.stringify([player, seat])
    const map = maps.get(id) ?? { player, seat, counts: new Map<number, OpeningCell>() }
    maps.set(id, map)
    const [row, column] = board.placeOf(text, action)
    const { count } = map.counts.get(action) ?? { count: 0 }
    map.counts.set(action, { row, column, text, count: count + 1 })
  }
  return [...maps.values()].map(({ player, seat, counts }) => {
    const cells = [...counts.values()]
    return {
      player,
      seat,
      cells,
      games: cells.reduce((sum, { count }) => sum + count, 0),
      rows: Math.max(board.rows, ...cells.map(({ row }) => row + 1)),
      columns: board.columns,
    }
  })
}

/** Games as sequences of positions, and counts of openings, for the report. */
import type { Game } from '../../envs/games/game.js'
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

/** The first moves of a player on one seat. */
export interface OpeningMap {
  readonly player: string
  readonly seat: number
  readonly games: number
  readonly cells: readonly OpeningCell[]
}

/** The place of an action by its text: `x(0,1)`, `a2`, or else in one row by its number. */
const placeOf = (text: string, action: number): readonly [row: number, column: number] => {
  const [, row, column] = /\((\d{1,3}),(\d{1,3})\)$/.exec(text) ?? []
  if (row !== undefined && column !== undefined) return [Number(row), Number(column)]
  const [, letter, number] = /^([a-z])(\d{1,3})$/.exec(text) ?? []
  if (letter !== undefined && number !== undefined) return [Number(number) - 1, letter.charCodeAt(0) - 97]
  return [0, action]
}

/** Counts the first moves of each player by seat. */
export const openingsOf = (records: readonly GameRecord[]): readonly OpeningMap[] => {
  const maps = new Map<
    string,
    { readonly player: string; readonly seat: number; readonly counts: Map<number, OpeningCell> }
  >()
  for (const { seats, moves } of records)
    for (const [seat, player] of seats.entries()) {
      const first = moves.find((move) => move.player === seat)
      if (first === undefined || first.action === null) continue
      const id = JSON.stringify([player, seat])
      const map = maps.get(id) ?? { player, seat, counts: new Map<number, OpeningCell>() }
      maps.set(id, map)
      const [row, column] = placeOf(first.text, first.action)
      const { count } = map.counts.get(first.action) ?? { count: 0 }
      map.counts.set(first.action, { row, column, text: first.text, count: count + 1 })
    }
  return [...maps.values()].map(({ player, seat, counts }) => {
    const cells = [...counts.values()]
    return { player, seat, cells, games: cells.reduce((sum, { count }) => sum + count, 0) }
  })
}

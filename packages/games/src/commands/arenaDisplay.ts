/**
 * Progress and results of `tandem arena`: a bar on a terminal, lines otherwise, JSON with `--json`.
 */
import { countOf, describe } from '@tandem-rl/base'
import { print, printError } from '@tandem-rl/base/host'
import cliProgress from 'cli-progress'
import type { ArenaConfig } from '../arena/config/schema.js'
import type { GameRecord } from '../arena/matches/records.js'
import type { TournamentEvent, TournamentResult } from '../arena/matches/tournament.js'
import type { FinishedArena } from '../arena/session/arenaSession.js'
import type { GameResult } from '../arena/statistics/results.js'

/** Shows a tournament. `close` restores the terminal. */
export interface ArenaDisplay {
  readonly show: (event: TournamentEvent) => void
  readonly close: () => void
  readonly finish: (finished: FinishedArena, result: TournamentResult) => void
}

const fixed = (value: number, digits = 2): string => (Number.isFinite(value) ? value.toFixed(digits) : '-')

/** Describes a game in one line. */
const gameLine = ({ id, end, returns, seats, moves }: GameRecord): string => {
  const results = seats.map((name, seat) => `${name} ${returns === null ? '-' : returns[seat]}`).join(', ')
  const illegal = moves.reduce((sum, move) => sum + move.illegal.length, 0)
  return `${id}: ${results}${end === 'over' ? '' : ` (${end})`}${illegal > 0 ? `, ${illegal} illegal` : ''}`
}

const moveLines = ({ seats, moves }: GameRecord): readonly string[] =>
  moves.map(
    ({ player, text, by, illegal }) =>
      `  ${seats[player]}: ${text === '' ? by : text}${by === 'fallback' ? ' (random)' : ''}${illegal.map(({ reason }) => ` [illegal: ${reason}]`).join('')}`,
  )

const resultOfGame = ({ game, games, players, pairs, seats }: GameResult): readonly string[] => [
  `${game}, ${countOf(games, 'game')}`,
  ...players.map(({ name, wins, draws, losses, winShare, illegal, forfeits, againstRandom }) => {
    const test =
      againstRandom === null
        ? ''
        : `, ${fixed(againstRandom.expected, 1)} wins expected of random play (p ${fixed(againstRandom.p, 3)})`
    return `  ${name}: ${wins} won, ${draws} drawn, ${losses} lost, wins ${fixed(winShare.estimate)} [${fixed(winShare.low)}, ${fixed(winShare.high)}], ${illegal} illegal, ${forfeits} forfeits${test}`
  }),
  ...pairs.map(
    ({ a, b, difference: { estimate, low, high } }) =>
      `  ${a} minus ${b}: ${fixed(estimate)} [${fixed(low)}, ${fixed(high)}]`,
  ),
  `  first seat: wins ${fixed(seats[0]!.winShare.estimate)} [${fixed(seats[0]!.winShare.low)}, ${fixed(seats[0]!.winShare.high)}]`,
]

/** Describes the results in lines of text. */
const resultLines = ({ results, exploitability, report }: FinishedArena): readonly string[] => [
  ...results.games.flatMap(resultOfGame),
  ...(results.ratings.length > 0 ? ['ratings'] : []),
  ...results.ratings.map(
    ({ name, estimate, low, high }) => `  ${name}: ${fixed(estimate, 0)} [${fixed(low, 0)}, ${fixed(high, 0)}]`,
  ),
  ...exploitability.map(
    ({ game, player, nashConv, from }) => `NashConv of ${player} in ${game}: ${fixed(nashConv, 4)} (from ${from})`,
  ),
  `report: ${report}`,
]

const jsonDisplay: ArenaDisplay = {
  show: (event) => print(`${JSON.stringify(event)}\n`),
  close: () => undefined,
  finish: ({ results, exploitability, report }, { status }) =>
    print(`${JSON.stringify({ type: 'results', status, report, exploitability, ...results })}\n`),
}

/** The most lines of games without a terminal. More games are shown as every n-th. */
const LINES = 200

const LEVELS: readonly ArenaConfig['log_level'][] = ['DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL']

/** Makes a display for the level of the configuration. */
export const arenaDisplay = ({ log_level }: Pick<ArenaConfig, 'log_level'>, form: 'json' | 'text'): ArenaDisplay => {
  if (form === 'json') return jsonDisplay
  const level = LEVELS.indexOf(log_level)
  const isBar = process.stderr.isTTY === true && level > 0
  const bar = new cliProgress.SingleBar({
    stream: process.stderr,
    hideCursor: true,
    format: '{bar} {value}/{total} games | {note}{eta_formatted} left',
  })
  let failed = 0
  const say = (line: string): void => void printError(`${line}\n`)
  return {
    show: (event) => {
      if (event.type === 'failed') {
        failed++
        if (level <= 3) say(`${event.game.id}: ${describe(event.game.failure)}`)
        return
      }
      if (isBar) {
        if (event.type === 'start') bar.start(event.total, event.done, { note: '' })
        else bar.update(event.done, { note: failed > 0 ? `${failed} failed | ` : '' })
        return
      }
      if (event.type === 'start') {
        if (level <= 1 && event.done > 0) say(`continuing after ${event.done} of ${countOf(event.total, 'game')}`)
        return
      }
      const every = Math.ceil(event.total / LINES)
      if (level === 0) for (const line of [gameLine(event.record), ...moveLines(event.record)]) say(line)
      else if (level === 1 && event.done % every === 0) say(`${event.done}/${event.total} ${gameLine(event.record)}`)
    },
    close: () => {
      if (isBar) bar.stop()
    },
    finish: (finished) => print(`${resultLines(finished).join('\n')}\n`),
  }
}

/** The report of a tournament: one self-contained HTML page. */
import { fileURLToPath } from 'node:url'
import { countOf, evenly, type FileFailure, type Files, htmlText, type Interval, scriptJson } from '@tandem-rl/base'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { readReportStyle } from 'tandem-rl/run'
import type { Game } from '../../games/game.js'
import type { GameRecord } from '../matches/records.js'
import type { Exploitability } from '../statistics/exploitability.js'
import type { Rating } from '../statistics/ratings.js'
import { reasoningProfiles } from '../statistics/reasoning.js'
import type { ArenaResults, GameResult, PairResult, PlayerResult, Tally } from '../statistics/results.js'
import { framesOf, type OpeningMap, openingsOf } from './frames.js'

/** The exploitability of a player in a game. */
export interface MeasuredExploitability extends Exploitability {
  readonly game: string
  readonly player: string
}

/** The contents of a report. */
export interface ArenaReport {
  readonly games: readonly Game[]
  readonly records: readonly GameRecord[]
  readonly results: ArenaResults
  readonly exploitability: readonly MeasuredExploitability[]
  readonly config: unknown
}

/** The most games that can be stepped through, to keep the page small. */
const SHOWN_GAMES = 60

/** The most examples of illegal moves for each player. */
const SHOWN_ILLEGAL = 5

/** The most characters of an illegal reply. */
const SHOWN_CHARACTERS = 300

const fixed = (value: number, digits = 2): string => (Number.isFinite(value) ? value.toFixed(digits) : '-')

const percent = (value: number): string => `${fixed(100 * value, 1)} %`

/** Prints an interval as text. */
const shown = ({ estimate, low, high }: Interval, format: (value: number) => string = fixed): string =>
  `${format(estimate)} [${format(low)}, ${format(high)}]`

/** Draws an interval within a range. */
const bar = ({ estimate, low, high }: Interval, [from, to]: readonly [number, number]): string => {
  const at = (value: number): string => (100 * Math.max(0, Math.min(1, (value - from) / (to - from)))).toFixed(1)
  const width = (Number(at(high)) - Number(at(low))).toFixed(1)
  return `<span class="interval" aria-hidden="true"><i style="left:${at(low)}%;width:${width}%"></i><b style="left:${at(estimate)}%"></b></span>`
}

/** A cell of a table: text, or markup that is safe already. */
type Cell = string | { readonly html: string }

const cell = (value: Cell): string => (typeof value === 'string' ? htmlText(value) : value.html)

const table = (head: readonly string[], rows: readonly (readonly Cell[])[]): string =>
  `<div class="scroll"><table class="results"><thead><tr>${head.map((name) => `<th scope="col">${htmlText(name)}</th>`).join('')}</tr></thead><tbody>${rows
    .map((row) => `<tr>${row.map((value) => `<td>${cell(value)}</td>`).join('')}</tr>`)
    .join('')}</tbody></table></div>`

const record = ({ wins, draws, losses }: Tally): string => `${wins} / ${draws} / ${losses}`

const ratingsPart = (ratings: readonly Rating[]): string => {
  if (ratings.length === 0) return ''
  const range = [Math.min(...ratings.map(({ low }) => low)), Math.max(...ratings.map(({ high }) => high))] as const
  const rows = ratings.map((rating): readonly Cell[] => [
    rating.name,
    { html: `${htmlText(shown(rating, (value) => fixed(value, 0)))}${bar(rating, range)}` },
  ])
  return `<section>\n<h2>Ratings</h2>\n${table(['Player', 'Elo, 95 % interval'], rows)}<p class="note">The mean is 1500.</p>\n</section>\n`
}

const testText = ({ againstRandom }: PlayerResult): string => {
  if (againstRandom === null) return ''
  const { wins, games, expected, p } = againstRandom
  return `${wins} of ${games} wins, random play has ${fixed(expected, 1)}, p = ${p < 0.001 ? p.toExponential(1) : fixed(p, 3)}`
}

const playerRow = (player: PlayerResult): readonly Cell[] => [
  player.name,
  String(player.games),
  record(player),
  { html: `${htmlText(shown(player.winShare, percent))}${bar(player.winShare, [0, 1])}` },
  ...player.seats.map((seat) => record(seat)),
  fixed(player.meanReturn),
  testText(player),
]

const movesRow = (player: PlayerResult): readonly Cell[] => [
  player.name,
  String(player.moves),
  `${player.illegal} (${percent(player.illegal / Math.max(1, player.moves + player.illegal))})`,
  String(player.fallbacks),
  String(player.forfeits),
  `${player.promptTokens} / ${player.completionTokens}`,
  player.cost === null ? '-' : `$ ${player.cost.toFixed(4)}`,
  `${fixed(player.latency.median, 1)} ms / ${fixed(player.latency.p95, 1)} ms`,
]

const conclusion = ({ a, b, difference: { low, high } }: PairResult): string => {
  if (low > 0) return `${a} is better`
  return high < 0 ? `${b} is better` : 'no difference shown'
}

/** The most cells of a map that shows all of them. Larger maps show only the chosen ones. */
const SHOWN_CELLS = 200

const heatMap = ({ player, seat, games, rows, columns, cells }: OpeningMap): string => {
  const most = Math.max(...cells.map(({ count }) => count))
  const isChosen = new Set(cells.map(({ row, column }) => row * columns + column))
  const others = rows * columns > SHOWN_CELLS ? [] : Array.from({ length: rows * columns }, (_, at) => at)
  const area = (row: number, column: number): string => `grid-area:${row + 1}/${column + 1}`
  const spans = [
    ...others
      .filter((at) => !isChosen.has(at))
      .map((at) => `<span class="unchosen" style="${area(Math.floor(at / columns), at % columns)}"></span>`),
    ...cells.map(
      ({ row, column, text, count }) =>
        `<span style="${area(row, column)};--share:${(count / most).toFixed(3)}">${count}<small>${htmlText(text)}</small></span>`,
    ),
  ].join('')
  return `<div><h3>${htmlText(player)}, seat ${seat}, ${countOf(games, 'game')}</h3><div class="heat" style="grid-template:repeat(${rows},auto)/repeat(${columns},auto)">${spans}</div></div>`
}

const illegalPart = (records: readonly GameRecord[]): string => {
  const found = records.flatMap(({ id, seats, moves }) =>
    moves.flatMap(({ player, illegal }) => illegal.map((each) => ({ id, name: seats[player]!, ...each }))),
  )
  if (found.length === 0) return ''
  const names = [...new Set(found.map(({ name }) => name))]
  const rows = names.flatMap((name) =>
    evenly(
      found.filter((each) => each.name === name),
      SHOWN_ILLEGAL,
    ).map(({ id, reason, reply }) => [name, id, reason, reply.slice(0, SHOWN_CHARACTERS)]),
  )
  return `<h3>Illegal moves</h3>${table(['Player', 'Game', 'Reason', 'Reply'], rows)}`
}

const exploitabilityPart = (measured: readonly MeasuredExploitability[]): string =>
  measured.length === 0
    ? ''
    : `<h3>Exploitability</h3>${table(
        ['Player', 'NashConv', 'From', 'Information states', 'Illegal'],
        measured.map((each) => [
          each.player,
          fixed(each.nashConv, 4),
          each.from === 'probabilities' ? 'its probabilities' : 'sampled moves',
          String(each.informationStates),
          percent(each.illegalShare),
        ]),
      )}`

const gamePart = (result: GameResult, { games, records, exploitability }: ArenaReport): string => {
  const game = games.find(({ name }) => name === result.game)!
  const own = records.filter(({ game }) => game === result.game)
  const seatNames = result.seats.map((_, seat) => `Seat ${seat}`)
  const seats = result.seats.map((tally, seat): readonly Cell[] => [
    `Seat ${seat}`,
    String(tally.games),
    record(tally),
    { html: `${htmlText(shown(tally.winShare, percent))}${bar(tally.winShare, [0, 1])}` },
    percent(result.random.seats[seat]?.win ?? Number.NaN),
  ])
  const pairs = result.pairs.map((pair): readonly Cell[] => [
    `${pair.a} against ${pair.b}`,
    `${pair.games} / ${pair.rounds}`,
    { html: `${htmlText(shown(pair.difference))}${bar(pair.difference, [-1, 1])}` },
    conclusion(pair),
  ])
  return `<section>
<h2>${htmlText(result.game)}: ${countOf(result.games, 'game')}${result.truncated > 0 ? `, ${result.truncated} truncated` : ''}</h2>
${table(['Player', 'Games', 'Won / drawn / lost', 'Share of wins, 95 % interval', ...seatNames, 'Mean return', 'Against random play'], result.players.map(playerRow))}
<h3>Pairs</h3>
${table(['Pair', 'Games / rounds', 'Difference of scores, 95 % interval', 'Conclusion'], pairs)}
<h3>Effect of the seat</h3>
${table(['Seat', 'Games', 'Won / drawn / lost', 'Share of wins, 95 % interval', `Random play (${result.random.kind})`], seats)}
<h3>Moves</h3>
${table(['Player', 'Moves', 'Illegal', 'Random instead', 'Forfeits', 'Tokens in / out', 'Cost', 'Latency, median / 95 %'], result.players.map(movesRow))}
${exploitabilityPart(exploitability.filter(({ game }) => game === result.game))}
<h3>First moves</h3>
<div class="maps">${openingsOf(game, own).map(heatMap).join('')}</div>
${illegalPart(own)}
</section>
`
}

/** The most turns whose entropy is listed. */
const SHOWN_TURNS = 12

const reasoningPart = (records: readonly GameRecord[]): string => {
  const profiles = reasoningProfiles(records)
  if (profiles.length === 0) return ''
  const rows = profiles.map((profile): readonly Cell[] => [
    profile.player,
    String(profile.moves),
    profile.kinds.map(([kind, count]) => `${kind} ${percent(count / profile.moves)}`).join(', '),
    fixed(profile.entropy),
    profile.entropyByTurn
      .slice(0, SHOWN_TURNS)
      .map(({ entropy }) => fixed(entropy, 1))
      .join(' '),
    fixed(profile.meanLength, 0),
    percent(profile.opponentShare),
  ])
  const head = [
    'Player',
    'Moves with a reason',
    'Kinds',
    'Entropy, bits',
    'By turn',
    'Mean characters',
    'Name the opponent',
  ]
  return `<section>\n<h2>Reasons</h2>\n${table(head, rows)}<p class="note">Kinds are found by keywords: they describe words, not what led to a move.</p>\n</section>\n`
}

/** The sentence at the top. */
const verdict = ({ results, records }: ArenaReport): string => {
  const pairs = results.games.flatMap((result) => result.pairs.map((pair) => ({ game: result.game, ...pair })))
  const [only] = pairs
  if (only === undefined) return 'No game was finished.'
  if (pairs.length === 1)
    return `In ${countOf(only.games, 'game')} of ${only.game}, ${conclusion(only)}: the mean score of ${only.a} minus that of ${only.b} is ${shown(only.difference)}.`
  const [best] = results.ratings
  return `${countOf(records.length, 'game')} of ${countOf(results.games.length, 'kind')} between ${countOf(results.ratings.length, 'player')}. The highest rating is ${best?.name}'s: ${shown(best ?? { estimate: Number.NaN, low: Number.NaN, high: Number.NaN }, (value) => fixed(value, 0))}.`
}

interface Assets {
  readonly styles: readonly string[]
  readonly script: string
}

const readAssets = (files: Files): TE.TaskEither<FileFailure, Assets> => {
  const read = (name: string) => files.readText(fileURLToPath(new URL(`../../../assets/${name}`, import.meta.url)))
  return pipe(
    TE.sequenceArray([readReportStyle(files), read('page.css'), read('page.js')]),
    TE.map(([base, own, script]) => ({ styles: [base!, own!], script: script! })),
  )
}

const page = (report: ArenaReport, { styles, script }: Assets): string => {
  const { games, records, results, config } = report
  const shownRecords = evenly(records, SHOWN_GAMES)
  const data = {
    games: shownRecords.map((each) => ({
      label: each.id,
      frames: framesOf(games.find(({ name }) => name === each.game)!, each),
    })),
  }
  const left = records.length - shownRecords.length
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tandem arena</title>
${styles.map((style) => `<style>${style}</style>`).join('\n')}
</head>
<body>
<main>
<header>
<h1>Arena</h1>
<p class="verdict">${htmlText(verdict(report))}</p>
</header>
${ratingsPart(results.ratings)}${results.games.map((result) => gamePart(result, report)).join('')}${reasoningPart(records)}<section>
<h2>Games</h2>
<div id="games"><p>This part needs JavaScript.</p></div>
${left > 0 ? `<p class="note">${left} more games are in games.jsonl.</p>` : ''}
</section>
<section>
<details><summary>Configuration</summary><pre class="scroll">${htmlText(JSON.stringify(config, undefined, 2))}</pre></details>
</section>
</main>
<script type="application/json" id="arena-data">${scriptJson(data)}</script>
<script>${script}</script>
</body>
</html>
`
}

/**
 * Renders a report as one HTML page: ratings, results by player, pair and seat, tests against
 * random play, illegal moves, maps of first moves, kinds of reasons, and games that can be stepped
 * through. It loads
 * nothing from elsewhere, and texts of players are escaped.
 *
 * Errors   `Left(FileFailure)` if an asset of the page is missing: the installation is incomplete.
 */
export const renderArenaReport = (report: ArenaReport, files: Files): TE.TaskEither<FileFailure, string> =>
  pipe(
    readAssets(files),
    TE.map((assets) => page(report, assets)),
  )

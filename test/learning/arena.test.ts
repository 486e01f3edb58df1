/**
 * The arena at full size: Leduc poker solved, intervals of equal players in 1,000 tournaments, and
 * the report in a browser.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { child, keyFromSeed } from '@tandem-rl/base'
import {
  arenaResults,
  gameNamed,
  languageModelPlayer,
  minimaxPlayer,
  planTournament,
  randomPlayer,
  runTournament,
  solveGame,
} from '@tandem-rl/games'
import { nashConv } from '@tandem-rl/games/rules'
import { liveFiles } from '@tandem-rl/host'
import { scriptedHistoryPolicy } from '@tandem-rl/testing'
import { chromium } from 'playwright-core'
import { afterAll, describe, expect, it } from 'vitest'
import { renderArenaReport } from '../../packages/games/src/arena/report/page.js'
import { scoredGames } from '../../packages/games/src/arena/statistics/outcomes.js'
import { chromiumPath, noChromium } from '../kit/chromium.js'
import { rightOf } from '../kit/results.js'

const IS_SHORT = process.env.LEARNING === 'short'
const key = keyFromSeed(22)

describe('CFR', () => {
  it('reaches a NashConv below 0.05 in Leduc poker', () => {
    const game = gameNamed('leduc_poker')
    const policy = solveGame(game, { iterations: 120 })
    const gap = nashConv(game, [policy, policy])
    console.log(`Leduc poker, 120 iterations of CFR+: NashConv ${gap.toFixed(4)}`)
    expect(gap).toBeLessThan(0.05)
  })
})

describe('tournaments of equal players', () => {
  // In matching pennies, games of a round are independent; in Kuhn poker they share their cards.
  it.each([
    ['matching_pennies', 60],
    ['kuhn_poker', 60],
  ])('in %s have intervals that cover no difference in 95 +- 2 % of them', async (name, episodes) => {
    const game = gameNamed(name)
    const tournaments = IS_SHORT ? 150 : 1_000
    let [difference, rating, seats] = [0, 0, 0]
    for (let i = 0; i < tournaments; i++) {
      const players = [randomPlayer('a'), randomPlayer('b')]
      const plans = planTournament({ games: [game], players, pairing: 'match', episodes, key: child(key, i) })
      const { games } = await rightOf(runTournament({ plans, illegalMove: { kind: 'forfeit' } }))
      const { games: results, ratings } = arenaResults(games, { games: [game], randomPlayers: ['a', 'b'] })
      const [pair] = results[0]!.pairs
      if (pair!.difference.low <= 0 && pair!.difference.high >= 0) difference++
      if (ratings[0]!.low <= 1500 && ratings[0]!.high >= 1500) rating++
      const { winShare } = results[0]!.seats[0]!
      const expected = results[0]!.random.seats[0]!.win
      if (winShare.low <= expected && winShare.high >= expected) seats++
      expect(scoredGames(games)).toHaveLength(episodes)
    }
    const shares = [difference, rating, seats].map((count) => count / tournaments)
    console.log(
      `${name}, ${tournaments} tournaments of ${episodes} games: coverage of differences, ratings and seats ${shares.map((share) => share.toFixed(3)).join(', ')}`,
    )
    const slack = IS_SHORT ? 0.06 : 0.02
    expect(shares[0]).toBeGreaterThanOrEqual(0.95 - slack)
    expect(shares[0]).toBeLessThanOrEqual(0.95 + slack)
    expect(shares[1]).toBeGreaterThanOrEqual(0.95 - slack)
    expect(shares[2]).toBeGreaterThanOrEqual(0.95 - slack)
  })
})

const why = noChromium === undefined ? '' : ` (skipped: ${noChromium})`

/** A model that first answers in prose, then with an illegal move, and then moves to a cell. */
const talker = languageModelPlayer({
  name: 'talker',
  policy: scriptedHistoryPolicy({
    answers: Array.from(
      { length: 400 },
      (_, i) => ['Let me think.', 'No. [99]', `It is free. [${Math.floor(i / 3) % 9}]`][i % 3]!,
    ),
  }),
})

describe.skipIf(noChromium !== undefined)(`the report in a browser${why}`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'arena-report-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('steps through games without a request, an error or a script of a player', async () => {
    const game = gameNamed('tic_tac_toe')
    const players = [minimaxPlayer({ name: '<img src=x onerror="document.title=1">' }), randomPlayer()]
    const plans = planTournament({ games: [game], players, pairing: 'match', episodes: 4, key })
    const { games: records } = await rightOf(runTournament({ plans, illegalMove: { kind: 'forfeit' } }))
    const results = arenaResults(records, { games: [game] })
    const html = await rightOf(
      renderArenaReport({ games: [game], records, results, exploitability: [], config: {} }, liveFiles),
    )
    await rightOf(liveFiles.write(join(folder, 'report.html'), html))

    const browser = await chromium.launch({ executablePath: chromiumPath, args: ['--no-sandbox'] })
    try {
      for (const colorScheme of ['light', 'dark'] as const) {
        const page = await browser.newPage({ colorScheme })
        const [errors, requests]: [string[], string[]] = [[], []]
        page.on('pageerror', (error) => errors.push(error.message))
        page.on('request', (request) => requests.push(request.url()))
        await page.goto(`file://${join(folder, 'report.html')}`)
        expect(await page.textContent('.stepper pre')).toBe('...\n...\n...')
        await page.click('button[aria-label="Next position"]')
        expect(await page.textContent('.stepper pre')).toContain('x')
        expect(await page.textContent('.stepper .words')).toMatch(/^Player 0 /)
        await page.click('button[aria-label="Last position"]')
        expect(await page.textContent('.stepper .words')).toMatch(/^Over: /)
        await page.selectOption('.stepper select', '1')
        expect(await page.textContent('.stepper pre')).toBe('...\n...\n...')
        expect(await page.textContent('.verdict')).toContain('In 4 games of tic_tac_toe, no difference shown')
        expect(await page.title()).toBe('Tandem arena')
        expect([errors, requests.length]).toEqual([[], 1])
        await page.close()
      }
    } finally {
      await browser.close()
    }
  })

  it('has maps of first moves as boards, illegal moves with their replies, and the reasoning of moves', async () => {
    const games = [gameNamed('tic_tac_toe'), gameNamed('connect_four')]
    const plans = planTournament({ games, players: [talker, randomPlayer()], pairing: 'match', episodes: 4, key })
    const illegalMove = { kind: 'retry', attempts: 2, fallback: 'random' } as const
    const { games: records } = await rightOf(runTournament({ plans, illegalMove }))
    const results = arenaResults(records, { games })
    const html = await rightOf(
      renderArenaReport({ games, records, results, exploitability: [], config: {} }, liveFiles),
    )
    await rightOf(liveFiles.write(join(folder, 'talker.html'), html))
    const browser = await chromium.launch({ executablePath: chromiumPath, args: ['--no-sandbox'] })
    try {
      const page = await browser.newPage({ viewport: { width: 1000, height: 900 } })
      await page.goto(`file://${join(folder, 'talker.html')}`)
      const boxes = async (section: string, map: number) =>
        (await page.locator(`section:has(h2:text("${section}")) .heat`).nth(map).locator('span').all()).map((cell) =>
          cell.boundingBox(),
        )
      const [board, row] = [
        await Promise.all(await boxes('tic_tac_toe', 0)),
        await Promise.all(await boxes('connect_four', 0)),
      ]
      expect([board.length, row.length]).toEqual([9, 7])
      expect(new Set(board.map((box) => Math.round(box!.y))).size).toBe(3) // three rows of three
      expect(new Set(board.map((box) => Math.round(box!.x))).size).toBe(3)
      expect(new Set(row.map((box) => Math.round(box!.y))).size).toBe(1)
      const table = page.locator('h3:text("Illegal moves") + .scroll').first()
      expect(await table.textContent()).toContain('[99] is not a legal action')
      expect(await table.textContent()).toContain('Let me think.')
      const own = records.findIndex(({ seats }) => seats[0] === 'talker')
      await page.selectOption('.stepper select', String(own))
      await page.click('button[aria-label="Next position"]')
      const words = await page.textContent('.stepper .words')
      expect(words).toContain('Illegal: there is no action in square brackets. The reply was: Let me think.')
      expect(words).toContain('It is free.')
    } finally {
      await browser.close()
    }
  })
})

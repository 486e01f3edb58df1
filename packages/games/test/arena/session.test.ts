/** Folders of tournaments, their files, and the report page. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileBytes, liveFiles, liveLocks } from '@tandem-rl/host'
import { readParquet } from '@tandem-rl/parquet'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { inTurn } from '../../../../test/kit/arena.js'
import { leftOf, rightOf } from '../../../../test/kit/results.js'
import { gameNamed } from '../../src/arena/config/games.js'
import { arenaConfig } from '../../src/arena/config/schema.js'
import { setUpArena } from '../../src/arena/config/setup.js'
import type { GameRecord } from '../../src/arena/matches/records.js'
import { runTournament } from '../../src/arena/matches/tournament.js'
import { framesOf, type OpeningMap, openingsOf } from '../../src/arena/report/frames.js'
import { renderArenaReport } from '../../src/arena/report/page.js'
import { finishArena, openArena, storedConfig } from '../../src/arena/session/arenaSession.js'
import { gameScalars } from '../../src/arena/session/board.js'

let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'arena-session-'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

const world = { files: liveFiles, locks: liveLocks }
const HOSTILE = '</script><img src=x onerror=alert(1)> & "quotes" \ud800'

const config = (given: object) => {
  const checked = arenaConfig(given)
  if (E.isLeft(checked)) throw new Error(checked.left.reason)
  return checked.right
}

const base = { env_name: 'kuhn_poker', num_episodes: 6, agents: { player_0: { type: 'cfr', iterations: 100 } } }

/** Plays a configuration in a folder. Models answer with hostile text and with a bet in turn. */
const session = async (folder: string, given: object) => {
  const checked = config(given)
  const answers = [HOSTILE, 'I have a hand. [Bet]', '[Pass]']
  const setup = await rightOf(
    setUpArena(checked, {
      ask: async () => null,
      resolvePolicy: (name) => TE.right({ ...inTurn(name, answers), close: async () => {} }),
    }),
  )
  const arena = await rightOf(openArena(folder, checked, world))
  const { games } = await rightOf(
    runTournament({ plans: setup.plans, illegalMove: checked.illegal_move, log: arena.log }),
  )
  const { signal } = new AbortController()
  const finished = await rightOf(finishArena(folder, { setup, records: games, signal }, liveFiles))
  await arena.release()
  return { ...finished, setup }
}

describe('a folder', () => {
  it('has the configuration, the log, the results, the report and the tables', async () => {
    const folder = join(root, 'whole')
    const { results, exploitability, records } = await session(folder, base)
    expect(JSON.parse(await readFile(join(folder, 'results.json'), 'utf8'))).toMatchObject({
      games: [{ game: 'kuhn_poker', games: 6 }],
    })
    expect(results.games[0]!.players.map(({ name }) => name).sort()).toEqual(['cfr', 'random'])
    expect(exploitability.map(({ player, from }) => [player, from])).toEqual([
      ['cfr', 'probabilities'],
      ['random', 'probabilities'],
    ])
    expect(exploitability[0]!.nashConv).toBeLessThan(0.1)
    expect(await rightOf(storedConfig(folder, liveFiles))).toEqual(config(base))
    const games = await rightOf(
      readParquet(await rightOf(fileBytes(join(folder, 'games.parquet'))), { schema: z.object({ id: z.string() }) }),
    )
    const moves = await rightOf(
      readParquet(await rightOf(fileBytes(join(folder, 'moves.parquet'))), { schema: z.object({ id: z.string() }) }),
    )
    expect(games).toHaveLength(6)
    expect(moves).toHaveLength(records.reduce((sum, record) => sum + record.moves.length, 0))
  })

  it('is continued with more games, and refused for other ones and while another process plays', async () => {
    const folder = join(root, 'again')
    await session(folder, { ...base, num_episodes: 2 })
    const { records } = await session(folder, { ...base, num_episodes: 4, parallel_episodes: 2 })
    expect(records).toHaveLength(4)
    const other = await leftOf(openArena(folder, config({ ...base, seed: 43 }), world))
    expect(other.reason).toContain('seed was 42, and is 43. Choose another folder with --out')
    const held = await rightOf(openArena(folder, config(base), world))
    expect((await leftOf(openArena(folder, config(base), world)))._tag).toBe('LockFailure')
    await held.release()
    await writeFile(join(folder, 'config.json'), '{')
    expect((await leftOf(storedConfig(folder, liveFiles))).reason).toContain('config.json')
    expect(await rightOf(storedConfig(join(root, 'nothing'), liveFiles))).toBeNull()
  })
})

describe('the report', () => {
  const hostile = { ...base, agents: { player_0: { model: 'hf_x', name: '<b>model</b>' } }, illegal_move: 'random' }

  it('is one page that refers to nothing outside, with all texts escaped', async () => {
    const folder = join(root, 'hostile')
    const { setup, ...report } = await session(folder, hostile)
    const html = await rightOf(renderArenaReport(report, liveFiles))
    expect(html.replaceAll('\ud800', '\ufffd')).toBe(await readFile(join(folder, 'report.html'), 'utf8'))
    expect(html).not.toMatch(/\b(src|href)=["'h]|@import|url\(/)
    expect(html).not.toContain('<img')
    expect(html).not.toContain('<b>model')
    expect(html).toContain('&lt;b&gt;model&lt;/b&gt;')
    expect(html.match(/<script/g)).toHaveLength(2)
    for (const part of [
      'Ratings',
      'Pairs',
      'Effect of the seat',
      'First moves',
      'Illegal moves',
      'Exploitability',
      'Against random play',
    ])
      expect(html, part).toContain(part)
    expect(html).toContain('prefers-color-scheme: dark')
  })

  it('has every position of a game with the words of its players', async () => {
    const { setup, records } = await session(join(root, 'frames'), hostile)
    const record = records.find(({ moves }) => moves.some(({ by }) => by === 'fallback'))!
    const frames = framesOf(setup.games[0]!, record)
    expect(frames).toHaveLength(record.history.length + 2)
    expect(frames[1]!.caption).toMatch(/^Chance: Deal/)
    const wrong = frames.find(({ illegal }) => illegal !== undefined)!
    expect(wrong.caption).toContain('a random move in place of an illegal one')
    expect(wrong.illegal![0]!.reply).toContain('onerror')
    expect(frames.at(-1)!.caption).toMatch(/^Over: /)
  })

  it('maps first moves by player and seat to their places on the board', async () => {
    const { setup, records } = await session(join(root, 'openings'), {
      ...base,
      env_name: 'tic_tac_toe',
      agents: { player_0: { type: 'random', name: 'a' } },
    })
    const maps = openingsOf(setup.games[0]!, records)
    expect(maps.map(({ player, seat, games }) => [player, seat, games])).toEqual([
      ['a', 0, 3],
      ['random', 1, 3],
      ['random', 0, 3],
      ['a', 1, 3],
    ])
    for (const { row, column, text } of maps.flatMap(({ cells }) => cells))
      expect(text.slice(1)).toBe(`(${row},${column})`)
    expect(maps.map(({ rows, columns }) => [rows, columns])).toEqual(Array(4).fill([3, 3]))
  })

  it.each([
    ['hex', { rows: 2, columns: 3, pie: 'none' }, 'c2', 5, [1, 2, 2, 3]],
    ['connect_four', { columns: 5 }, 'x3', 3, [0, 3, 1, 5]],
    ['breakthrough', {}, 'c7c6', 218, [0, 0, 1, 1]],
    ['kuhn_poker', {}, 'Bet', 1, [0, 0, 1, 1]],
  ] as const)(
    'maps a first move of %s %j to a place on its board, or in one row',
    (name, options, text, action, place) => {
      const move = { player: 0, action, text, by: 'player', illegal: [], latency: 1 }
      const record = { id: '1', game: name, seats: ['a', 'b'], moves: [move] } as unknown as GameRecord // only these are read
      const [{ rows, columns, cells }] = openingsOf(gameNamed(name, options), [record]) as readonly [OpeningMap]
      expect([cells[0]!.row, cells[0]!.column, rows, columns]).toEqual(place)
    },
  )

  it('shows a forfeit as the end of its game', async () => {
    const { setup, records } = await session(join(root, 'forfeit'), { ...hostile, illegal_move: 'forfeit' })
    const record = records.find(({ end }) => end === 'forfeit')!
    const frames = framesOf(setup.games[0]!, record)
    expect(frames.at(-2)!.caption).toContain('forfeits the game by an illegal move')
    expect(frames.at(-1)!.caption).toMatch(/^Forfeited: /)
  })
})

describe('events for trackers', () => {
  it('have the rewards, illegal moves and latency of each player', async () => {
    const { records } = await session(join(root, 'board'), base)
    const event = gameScalars(records[0]!, 1, 5)
    expect(event).toMatchObject({
      type: 'scalars',
      step: 1,
      values: { 'Rewards/cfr': expect.any(Number), 'illegal/random': 0 },
    })
  })
})

/** Intervals, ratings, baselines and exploitability, against published and simulated values. */
import { child, keyFromSeed, meanInterval, uniform } from '@tandem-rl/base'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { leftOf, rightOf } from '../../../../test/kit/results.js'
import { planTournament } from '../../src/arena/matches/plan.js'
import type { GameRecord } from '../../src/arena/matches/records.js'
import { runTournament } from '../../src/arena/matches/tournament.js'
import { solveGame } from '../../src/arena/players/cfr.js'
import { minimaxPlayer } from '../../src/arena/players/minimax.js'
import { anyGame, type Player } from '../../src/arena/players/player.js'
import { randomPlayer, tabularPlayer } from '../../src/arena/players/simple.js'
import { measureExploitability } from '../../src/arena/statistics/exploitability.js'
import { binomialTest, groupedShare, wilsonInterval } from '../../src/arena/statistics/intervals.js'
import { outcomeOf, type PairScore, scoreOf } from '../../src/arena/statistics/outcomes.js'
import { randomBaseline } from '../../src/arena/statistics/randomPlay.js'
import { ratingsOf } from '../../src/arena/statistics/ratings.js'
import { arenaResults } from '../../src/arena/statistics/results.js'
import { connectFour } from '../../src/games/connectFour.js'
import type { Game } from '../../src/games/game.js'
import { kuhnPoker } from '../../src/games/kuhnPoker.js'
import { matchingPennies3, prisonersDilemma, rockPaperScissors } from '../../src/games/matrixGames.js'
import { nim } from '../../src/games/nim.js'
import { ticTacToe } from '../../src/games/ticTacToe.js'

const key = keyFromSeed(17)
const board = anyGame(ticTacToe)
const kuhn = anyGame(kuhnPoker())

const played = async (game: Game, players: readonly Player[], episodes: number) => {
  const plans = planTournament({ games: [game], players, pairing: 'match', episodes, key })
  return (await rightOf(runTournament({ plans, illegalMove: { kind: 'forfeit' } }))).games
}

describe('intervals', () => {
  it("are Wilson's for shares", () => {
    const { estimate, low, high } = wilsonInterval(28, 50)
    expect([estimate, low, high].map((each) => each.toFixed(4))).toEqual(['0.5600', '0.4231', '0.6884'])
    expect(wilsonInterval(0, 10)).toMatchObject({ low: 0, high: expect.closeTo(0.2775, 4) })
    expect(wilsonInterval(10, 10).high).toBe(1)
    expect(wilsonInterval(0, 0)).toMatchObject({ low: 0, high: 1 })
    expect(() => wilsonInterval(3, 2)).toThrow(RangeError)
  })

  it('of shares are wider where values come in groups that are alike', () => {
    const alike = Array.from({ length: 20 }, (_, i) => [i % 2, i % 2])
    expect(groupedShare(alike)).toEqual({
      ...wilsonInterval(10 / 1.0526315789473684, 20 / 1.0526315789473684),
      estimate: 0.5,
    })
    const apart = Array.from({ length: 20 }, () => [0, 1])
    expect(groupedShare(apart)).toEqual(wilsonInterval(20, 40)) // never narrower
    expect(groupedShare([[1, 1]])).toEqual(wilsonInterval(2, 2))
    expect(groupedShare([])).toEqual(wilsonInterval(0, 0))
  })

  it('p-values of a number of wins are exact', () => {
    expect(binomialTest(9, [{ trials: 10, probability: 0.5 }])).toBeCloseTo(22 / 1024, 12)
    expect(binomialTest(5, [{ trials: 10, probability: 0.5 }])).toBeCloseTo(1, 9)
    expect(
      binomialTest(2, [
        { trials: 1, probability: 1 },
        { trials: 1, probability: 0.25 },
      ]),
    ).toBeCloseTo(0.25, 12)
    expect(binomialTest(0, [])).toBe(1)
    expect(() => binomialTest(3, [{ trials: 2, probability: 0.5 }])).toThrow(RangeError)
  })
})

describe('random play', () => {
  it('has the published values', () => {
    const [first, second] = randomBaseline(board).seats
    expect([first!.win, first!.loss, second!.win].map((each) => each.toFixed(6))).toEqual([
      '0.584921',
      '0.288095',
      '0.288095',
    ])
    expect(randomBaseline(kuhn).seats[0]!.win).toBeCloseTo(0.5625, 12)
    expect(randomBaseline(anyGame(rockPaperScissors)).seats[1]).toEqual({
      win: expect.closeTo(1 / 3, 12),
      draw: expect.closeTo(1 / 3, 12),
      loss: expect.closeTo(1 / 3, 12),
    })
  })

  it('is simulated in large games', () => {
    const { kind, seats } = randomBaseline(anyGame(nim({ piles: [1, 2, 3] })), { maxPositions: 5 })
    expect(kind).toBe('simulated')
    expect(seats[0]!.win).toBeCloseTo(randomBaseline(anyGame(nim({ piles: [1, 2, 3] }))).seats[0]!.win, 1)
  })
})

describe('ratings', () => {
  const scores = (results: readonly (readonly [string, string, number])[]): readonly PairScore[] =>
    results.map(([a, b, score], i) => ({ a, b, score, round: String(i) }))

  it('order players by strength around 1500, and stay finite for perfect records', () => {
    const won = ratingsOf(
      scores([
        ['a', 'b', 1],
        ['a', 'b', 1],
        ['b', 'c', 1],
        ['b', 'c', 1],
        ['a', 'c', 1],
      ]),
    )
    expect(won.map(({ name }) => name)).toEqual(['a', 'b', 'c'])
    expect(won.reduce((sum, { estimate }) => sum + estimate, 0) / 3).toBeCloseTo(1500, 6)
    for (const { low, high, estimate } of won) {
      expect(Number.isFinite(estimate)).toBe(true)
      expect(high - low).toBeGreaterThan(200)
    }
  })

  it('find strengths again: a player with three times the odds is 191 points ahead', () => {
    const many = Array.from({ length: 4000 }, (_, i) => ['a', 'b', uniform(key, i) < 0.75 ? 1 : 0] as const)
    const [a, b] = ratingsOf(scores(many))
    expect(a!.estimate - b!.estimate).toBeCloseTo(400 * Math.log10(3), -1.5)
    expect(a!.low).toBeGreaterThan(b!.high)
  })
})

describe('results', () => {
  it('count by player and seat, and show what a seat is worth', async () => {
    const games = await played(anyGame(nim({ piles: [1, 2] })), [minimaxPlayer(), minimaxPlayer({ name: 'other' })], 20)
    const [nimmed] = arenaResults(games, { games: [anyGame(nim({ piles: [1, 2] }))] }).games
    expect(nimmed!.seats.map(({ wins, score }) => [wins, score])).toEqual([
      [20, 1],
      [0, 0],
    ])
    expect(nimmed!.seats[0]!.winShare.low).toBeGreaterThan(0.8)
    expect(nimmed!.players.map(({ wins, losses, score }) => [wins, losses, score])).toEqual([
      [10, 10, 0.5],
      [10, 10, 0.5],
    ])
    expect(nimmed!.pairs).toMatchObject([
      { a: 'minimax', b: 'other', games: 20, rounds: 10, difference: { estimate: 0 } },
    ])
  })

  it('tell a strong player from a random one, and find nothing in random play', async () => {
    const strong = arenaResults(await played(board, [minimaxPlayer(), randomPlayer()], 40), { games: [board] })
    const [minimax, random] = strong.games[0]!.players
    expect(minimax!.againstRandom).toMatchObject({ games: 40, expected: expect.closeTo(20 * (0.584921 + 0.288095), 3) })
    expect(minimax!.againstRandom!.p).toBeLessThan(1e-4)
    expect(random!.againstRandom).toBeNull()
    expect(strong.games[0]!.pairs[0]!.difference.low).toBeGreaterThan(0)
    expect(strong.ratings[0]!.name).toBe('minimax')
    const weak = arenaResults(await played(board, [randomPlayer('novice'), randomPlayer()], 40), { games: [board] })
    expect(weak.games[0]!.players[0]!.againstRandom!.p).toBeGreaterThan(0.01)
  })

  it('count illegal moves, tokens, cost and time by player', async () => {
    const talker: Player = {
      name: 'talker',
      move: ({ legalActions, attempts }) =>
        attempts.length === 0
          ? TE.right({ action: 'illegal', text: '?', usage: { promptTokens: 100, completionTokens: 10 } })
          : TE.right({ action: legalActions[0]!, text: '!', usage: { promptTokens: 150, completionTokens: 10 } }),
    }
    const plans = planTournament({
      games: [kuhn],
      players: [talker, randomPlayer()],
      pairing: 'match',
      episodes: 4,
      key,
    })
    const clock = {
      now: (() => {
        let time = 0
        return () => (time += 5)
      })(),
      breathe: async () => {},
    }
    const { games } = await rightOf(
      runTournament({ plans, illegalMove: { kind: 'retry', attempts: 1, fallback: 'forfeit' }, clock }),
    )
    const { players } = arenaResults(games, { games: [kuhn], prices: { talker: { input: 2, output: 20 } } }).games[0]!
    const { moves } = players[0]!
    expect(moves).toBeGreaterThan(3)
    expect(players[0]).toMatchObject({
      illegal: moves,
      ...{ fallbacks: 0, forfeits: 0, promptTokens: 250 * moves, completionTokens: 20 * moves },
      cost: expect.closeTo((moves * (250 * 2 + 20 * 20)) / 1e6, 12),
      latency: { median: 5, p95: 5 },
    })
    expect(players[1]).toMatchObject({ illegal: 0, cost: null })
  })

  it('compare returns where a game is not zero-sum or has three players, and count truncated games apart', async () => {
    expect([10, 0, 0].map((_, seat) => scoreOf([10, 0, 0], seat))).toEqual([1, 0.25, 0.25])
    expect([[1], [0]].map((returns) => [outcomeOf(returns, 0), scoreOf(returns, 0)])).toEqual([
      ['win', 1],
      ['loss', 0],
    ])
    const three = anyGame(matchingPennies3)
    const games = await played(three, [randomPlayer('a'), randomPlayer('b'), randomPlayer('c')], 9)
    const { players, seats } = arenaResults(games, { games: [three] }).games[0]!
    expect(seats).toHaveLength(3)
    expect(players.reduce((sum, { score }) => sum + score, 0) / 3).toBeCloseTo(0.5, 9)
    const dilemma = anyGame(prisonersDilemma)
    const cut: readonly GameRecord[] = (await played(dilemma, [randomPlayer('a'), randomPlayer('b')], 2)).map(
      (game, i) => (i === 0 ? { ...game, end: 'truncated', returns: null } : game),
    )
    expect(arenaResults(cut, { games: [dilemma] }).games[0]).toMatchObject({
      games: 2,
      truncated: 1,
      seats: [{ games: 1 }, { games: 1 }],
    })
  })
})

describe('exploitability', () => {
  it('is exact for players with probabilities', async () => {
    const uniformly = await rightOf(measureExploitability(kuhn, randomPlayer(), { key }))
    expect(uniformly).toMatchObject({ from: 'probabilities', informationStates: 12, illegalShare: 0 })
    expect(uniformly.nashConv).toBeCloseTo(11 / 12, 12)
    const solved = tabularPlayer({ name: 'solved', policy: solveGame(kuhn, { iterations: 1_000 }) })
    expect((await rightOf(measureExploitability(kuhn, solved, { key }))).nashConv).toBeLessThan(1e-3)
    const rps = anyGame(rockPaperScissors)
    expect((await rightOf(measureExploitability(rps, randomPlayer(), { key }))).nashConv).toBeCloseTo(0, 12)
  })

  it('is estimated from moves for others, whose illegal moves count as random', async () => {
    const hidden: Player = {
      name: 'hidden',
      move: (scene, context) =>
        uniform(child(context.key, 'slip')) < 0.1
          ? TE.right({ action: 'illegal' })
          : randomPlayer().move(scene, context),
    }
    const estimate = await rightOf(measureExploitability(kuhn, hidden, { key, samples: 400 }))
    expect(estimate).toMatchObject({ from: 'samples', illegalShare: expect.closeTo(0.1, 1) })
    expect(Math.abs(estimate.nashConv - 11 / 12)).toBeLessThan(0.1)
  })

  it('is refused for games that are too large', async () => {
    const failure = await leftOf(measureExploitability(anyGame(connectFour()), randomPlayer(), { key }))
    expect(failure).toMatchObject({
      kind: 'unsupported',
      reason: expect.stringContaining('more than 2000 information states'),
    })
  })
})

describe('tournaments of equal players', () => {
  it('have intervals that cover no difference in about 95 % of them', () => {
    const tournaments = 1_000
    const covered = Array.from({ length: tournaments }, (_, t) => {
      const rounds = Array.from({ length: 25 }, (_each, round) => {
        const at = child(child(key, t), round)
        const result = (game: number) => {
          const draw = uniform(at, game)
          return draw < 0.4 ? 1 : draw < 0.8 ? -1 : 0
        }
        return (result(0) + result(1)) / 2
      })
      const { low, high } = meanInterval(rounds, [-1, 1])
      return low <= 0 && high >= 0
    }).filter((each) => each).length
    expect(covered / tournaments).toBeGreaterThan(0.93)
    expect(covered / tournaments).toBeLessThan(0.97)
  })
})

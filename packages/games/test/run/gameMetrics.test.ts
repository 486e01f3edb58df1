/**
 * Metrics of games in a batch: equal games among equal deals, illegal moves, results against old
 * weights.
 */
import { describe, expect, it } from 'vitest'
import { data } from '../../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import type { PlayedGame } from '../../src/games/gameEnv.js'
import { kuhnPoker } from '../../src/games/kuhnPoker.js'
import { rockPaperScissors } from '../../src/games/matrixGames.js'
import { gameMetrics } from '../../src/run/gameMetrics.js'

const game = kuhnPoker()

const played = (history: readonly number[], changes: Partial<PlayedGame> = {}): PlayedGame => ({
  ...{ game: 'kuhn_poker', cast: ['player', 'player'], history, replies: [1, 1], illegal: [0, 0] },
  ...{ returns: [1, -1], forfeit: null, ...changes },
})

/** A batch with one turn of each game. */
const batchOf = (games: readonly PlayedGame[]): TensorDict =>
  TensorDict(
    { next: TensorDict({ game: data(games) }, [games.length]), trajectoryId: data(games.map((_, i) => `${i}`)) },
    [games.length],
  )

const sameGame = (histories: readonly (readonly number[])[]): number =>
  gameMetrics(batchOf(histories.map((history) => played(history))), game).sameGame!

describe('sameGame', () => {
  it('is 1 if each deal has one game, whatever the number of deals', () => {
    const deals = [0, 1, 2].flatMap((own) => [0, 1, 2].flatMap((other) => (own === other ? [] : [[own, other]])))
    const bets = deals.map((deal) => [...deal, 1, 1])
    expect(sameGame([...bets, ...bets, ...bets])).toBe(1)
    expect(gameMetrics(batchOf([...bets, ...bets].map((each) => played(each)))).sameGame).toBeCloseTo(1 / 11, 12) // without the game: all pairs
  })

  it('is the probability that two games of a deal are equal', () => {
    // Of the deal 0 1, one of three pairs; of the deal 2 1, one of one; of the deal 1 0, no pair.
    expect(
      sameGame([
        [0, 1, 0, 0],
        [0, 1, 0, 0],
        [0, 1, 1, 0],
        [2, 1, 1, 1],
        [2, 1, 1, 1],
        [1, 0, 0, 0],
      ]),
    ).toBe(2 / 4)
    expect(sameGame([[0, 1, 0, 0]])).toBe(0) // no pairs
  })

  it('reads moves of all players at once', () => {
    const games = [
      [0, 1],
      [0, 1],
      [2, 2],
    ].map((history) => played(history))
    expect(gameMetrics(batchOf(games), rockPaperScissors).sameGame).toBeCloseTo(1 / 3, 12)
  })
})

describe('the other metrics', () => {
  it('count illegal replies and forfeits, and what is lost to old weights', () => {
    const games = [
      played([0, 1, 1], { illegal: [0, 2], replies: [1, 3], forfeit: 1 }),
      played([2, 1, 1, 0], { cast: ['past', 'player'] }),
      played([1, 2, 0], { returns: null }),
    ]
    expect(gameMetrics(batchOf(games), game)).toEqual({
      ...{ firstReturn: 1, illegalMoves: 2 / 8, forfeits: expect.closeTo(1 / 3, 12) },
      ...{ sameGame: 0, vsOthers: -1, lossToPast: 1 },
    })
  })
})

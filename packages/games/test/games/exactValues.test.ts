/** Exact values of games against published and computed ones. */
import { describe, expect, it } from 'vitest'
import {
  bestResponse,
  expectedReturns,
  type GamePolicy,
  nashConv,
  uniformGamePolicy as uniform,
} from '../../src/games/exactValues.js'
import { type Game, type GameState, replayGame } from '../../src/games/game.js'
import { kuhnPoker } from '../../src/games/kuhnPoker.js'
import { leducPoker } from '../../src/games/leducPoker.js'
import { matchingPennies, prisonersDilemma, rockPaperScissors } from '../../src/games/matrixGames.js'
import { repeatedGame } from '../../src/games/repeatedGame.js'
import { ticTacToe } from '../../src/games/ticTacToe.js'

const both = (policy: GamePolicy) => [policy, policy]

const always =
  (index: number): GamePolicy =>
  ({ legalActions }) =>
    legalActions.map((_, i) => (i === index ? 1 : 0))

/** Kuhn's equilibria: the first player bets with the lowest card with probability `alpha`. */
const kuhnEquilibrium = (alpha: number): readonly GamePolicy[] => {
  const bets: Readonly<Record<string, number>> = {
    '0': alpha,
    '1': 0,
    '2': 3 * alpha,
    '0pb': 0,
    '1pb': alpha + 1 / 3,
    '2pb': 1,
    '0p': 1 / 3,
    '1p': 0,
    '2p': 1,
    '0b': 0,
    '1b': 1 / 3,
    '2b': 1,
  }
  return both(({ informationState }) => [1 - bets[informationState]!, bets[informationState]!])
}

/** Counts histories, finished and not, with chance; information sets; and different positions. */
const countOf = <P>(game: Game<P>) => {
  const [positions, over, sets] = [new Set<string>(), new Set<string>(), new Set<string>()]
  let [histories, terminal] = [0, 0]
  const visit = (state: GameState<P>): void => {
    const [turn, shown] = [game.turn(state), game.text(state)]
    histories++
    positions.add(shown)
    if (turn === 'over') {
      terminal++
      over.add(shown)
    } else if (turn === 'chance') for (const { action } of game.chance(state)) visit(game.apply(state, action))
    else {
      sets.add(`${turn}: ${game.informationState(state, Number(turn))}`)
      for (const action of game.legalActions(state, Number(turn))) visit(game.apply(state, action))
    }
  }
  visit(game.initial)
  return { histories, terminal, sets: sets.size, positions: positions.size, over: over.size }
}

describe('Kuhn poker', () => {
  it('has 58 histories, 30 of them terminal, and 12 information sets', () => {
    expect(countOf(kuhnPoker())).toMatchObject({ histories: 58, terminal: 30, sets: 12 })
  })

  it('has the NashConv 11/12 for uniform players and 2 for players who always pass', () => {
    expect(nashConv(kuhnPoker(), both(uniform))).toBeCloseTo(11 / 12, 12)
    expect(nashConv(kuhnPoker(), both(always(0)))).toBeCloseTo(2, 12)
  })

  it('has the best responses .5 and 5/12 to uniform players', () => {
    expect(expectedReturns(kuhnPoker(), both(uniform))[0]).toBeCloseTo(0.125, 12)
    expect(bestResponse(kuhnPoker(), both(uniform), 0).value).toBeCloseTo(0.5, 12)
    const { value, actions } = bestResponse(kuhnPoker(), both(uniform), 1)
    expect(value).toBeCloseTo(5 / 12, 12)
    expect(Object.fromEntries(actions)).toEqual({ '0p': 1, '1p': 1, '2p': 1, '0b': 0, '1b': 1, '2b': 1 })
  })

  it.each([0, 0.1, 1 / 3])('has the value -1/18 in the equilibrium with alpha %f', (alpha) => {
    const policies = kuhnEquilibrium(alpha)
    expect(expectedReturns(kuhnPoker(), policies)[0]).toBeCloseTo(-1 / 18, 12)
    expect(nashConv(kuhnPoker(), policies)).toBeCloseTo(0, 12)
  })

  // The same as OpenSpiel 2.0.2's `nash_conv` and `policy_value`, in doubles.
  it.each([
    { players: 3, gap: 2.0625, expected: [0.234375, -0.046875, -0.1875], best: [25 / 32, 31 / 48, 61 / 96] },
    {
      players: 4,
      gap: 3337 / 960,
      expected: [119 / 384, 7 / 384, -49 / 384, -77 / 384],
      best: [1, 203 / 240, 391 / 480, 261 / 320],
    },
  ])('has the NashConv $gap for $players uniform players', ({ players, gap, expected, best }) => {
    const game = kuhnPoker({ players })
    const policies = Array.from({ length: players }, () => uniform)
    expect(nashConv(game, policies)).toBeCloseTo(gap, 12)
    for (const [player, value] of expectedReturns(game, policies).entries()) {
      expect(value).toBeCloseTo(expected[player]!, 12)
      expect(bestResponse(game, policies, player).value).toBeCloseTo(best[player]!, 12)
    }
  })
})

describe('Leduc poker', () => {
  it('has 936 information sets', () => {
    expect(countOf(leducPoker())).toMatchObject({ sets: 936, histories: 9457 })
  })

  it('has the NashConv 4.747222 for uniform players and 2 for players who fold when they can', () => {
    expect(nashConv(leducPoker(), both(uniform))).toBeCloseTo(4.747222, 6)
    expect(nashConv(leducPoker(), both(always(0)))).toBeCloseTo(2, 12)
  })
})

describe('tic-tac-toe', () => {
  it('has 549946 histories, 255168 of them terminal, and 5478 positions, 958 of them terminal', () => {
    expect(countOf(ticTacToe)).toMatchObject({ histories: 549946, terminal: 255168, positions: 5478, over: 958 })
  })

  it('is won by the first player with probability .5849 if both play at random', () => {
    const wins = {
      ...ticTacToe,
      returns: (state: typeof ticTacToe.initial) => (ticTacToe.returns(state)[0] === 1 ? [1, 0] : [0, 0]),
    }
    expect(expectedReturns(wins, both(uniform))[0]).toBeCloseTo(0.584920635, 9)
  })
})

describe('matrix games', () => {
  it('have their equilibria: uniform in pennies and rock-paper-scissors, defection in the dilemma', () => {
    expect(nashConv(matchingPennies, both(uniform))).toBeCloseTo(0, 12)
    expect(nashConv(rockPaperScissors, both(uniform))).toBeCloseTo(0, 12)
    expect(nashConv(prisonersDilemma, both(always(1)))).toBe(0)
    expect(nashConv(prisonersDilemma, both(always(0)))).toBe(10)
  })

  it('that are repeated keep defection as an equilibrium, and have longer histories of chance', () => {
    const dilemma = repeatedGame({ game: prisonersDilemma, rounds: 3 })
    expect(nashConv(dilemma, both(always(1)))).toBe(0)
    expect(nashConv(dilemma, both(always(0)))).toBe(2 * 3 * 5) // 10 in place of 5, in each round, for both
    // Rounds of 1, .75 and .75 * .75 on average, each worth 5.
    const stopped = repeatedGame({ game: prisonersDilemma, rounds: 3, stop: 0.25 })
    expect(expectedReturns(stopped, both(always(0)))[0]).toBeCloseTo(5 * (1 + 0.75 + 0.5625), 12)
  })

  it("repeated until chance stops play OpenSpiel's iterated prisoner's dilemma", () => {
    const dilemma = repeatedGame({ game: prisonersDilemma, rounds: 9_999, stop: 0.125 })
    const ended = replayGame(dilemma, [0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1])
    expect([dilemma.turn(ended), dilemma.returns(ended)]).toEqual(['over', [20, 20]])
    expect(dilemma.chance(replayGame(dilemma, [0, 0]))).toEqual([
      { action: 0, probability: 0.875 },
      { action: 1, probability: 0.125 },
    ])
  })
})

describe('policies', () => {
  it('must be one for each player, with one probability for each legal action', () => {
    expect(() => expectedReturns(kuhnPoker(), [uniform])).toThrow(/policies must have 2 elements/)
    expect(() =>
      expectedReturns(
        kuhnPoker(),
        both(() => [1]),
      ),
    ).toThrow(/must give 2 probabilities/)
    expect(() => bestResponse(kuhnPoker(), both(uniform), 2)).toThrow(/player must be/)
  })
})

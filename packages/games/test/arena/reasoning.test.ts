import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { GameRecord } from '../../src/arena/matches/records.js'
import { kindEntropy, reasoningProfiles } from '../../src/arena/statistics/reasoning.js'

const gameOf = (reasons: readonly (string | undefined)[]): GameRecord => ({
  ...{ id: 'g', game: 'tic_tac_toe', matchup: 'a-b', episode: 0, round: 0, seats: ['ann', 'bob'], end: 'over' },
  ...{ returns: [1, -1], history: [] },
  moves: reasons.map((reasoning, i) => ({
    ...{ player: i % 2, action: i, text: String(i), by: 'player', illegal: [], latencyMs: 1 },
    ...(reasoning !== undefined && { reasoning }),
  })),
})

describe('reasoningProfiles', () => {
  it('finds kinds by words, with their entropy by turn, lengths and mentions of the opponent', () => {
    const games = [
      gameOf(['I take the center square.', 'Block the opponent.', 'This wins the game!', undefined]),
      gameOf(['The corner is free.', 'hmm', 'A corner again, on the diagonal.', ' ']),
    ]
    const [ann, bob] = reasoningProfiles(games)
    expect(ann).toMatchObject({
      ...{ player: 'ann', moves: 4, entropy: expect.closeTo(0.8113, 4), opponentShare: 0 },
      kinds: [
        ['positional', 3],
        ['winning', 1],
      ],
      entropyByTurn: [
        { turn: 0, entropy: 0 },
        { turn: 1, entropy: 1 },
      ],
    })
    expect(bob).toEqual({
      ...{ player: 'bob', moves: 2, entropy: 1, meanLength: 11, opponentShare: 0.5 },
      kinds: [
        ['blocking', 1],
        ['none', 1],
      ],
      entropyByTurn: [{ turn: 0, entropy: 1 }],
    })
    expect(reasoningProfiles([gameOf([undefined, undefined])])).toEqual([])
  })

  it('has an entropy from 0 to the logarithm of the number of kinds', () => {
    const kinds = fc.array(fc.constantFrom('risk' as const, 'random' as const, 'none' as const, 'winning' as const), {
      minLength: 1,
    })
    const law = fc.property(kinds, (list) => {
      const entropy = kindEntropy(list)
      expect(entropy).toBeGreaterThanOrEqual(0)
      expect(entropy).toBeLessThanOrEqual(Math.log2(new Set(list).size) + 1e-9)
    })
    fc.assert(law)
    expect(kindEntropy(['risk', 'none', 'winning', 'random'])).toBe(2)
  })

  it('reads long reasons in linear time', () => {
    const text = 'they will the set up on'.repeat(50_000)
    expect(reasoningProfiles([gameOf([text])])[0]!.moves).toBe(1)
  })
})

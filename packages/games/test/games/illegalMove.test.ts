/** Consequences of illegal moves. */
import { child, keyFromSeed } from '@tandem-rl/base'
import { describe, expect, it } from 'vitest'
import {
  afterIllegalMove,
  checkIllegalMoveRule,
  forfeitReturns,
  type IllegalMoveRule,
} from '../../src/games/illegalMove.js'

const key = keyFromSeed(5)
const legalActions = [2, 3, 5, 7]
const outcomes = (rule: IllegalMoveRule, attempts: number) =>
  Array.from({ length: attempts }, (_, attempt) => afterIllegalMove(rule, { attempt, legalActions, key }).kind)

describe('after an illegal move', () => {
  it('a forfeit ends the game at once', () => {
    expect(outcomes({ kind: 'forfeit' }, 2)).toEqual(['forfeit', 'forfeit'])
  })

  it('a retry is allowed as often as the rule has attempts, and then it falls back', () => {
    expect(outcomes({ kind: 'retry', attempts: 2, fallback: 'forfeit' }, 4)).toEqual([
      'retry',
      'retry',
      'forfeit',
      'forfeit',
    ])
    expect(outcomes({ kind: 'retry', attempts: 1, fallback: 'random' }, 2)).toEqual(['retry', 'play'])
  })

  it('a random move is legal, equal for equal keys, and reaches every legal action', () => {
    const rule: IllegalMoveRule = { kind: 'random' }
    const actions = Array.from({ length: 200 }, (_, i) => {
      const turn = { attempt: 0, legalActions, key: child(key, i) }
      expect(afterIllegalMove(rule, turn)).toEqual(afterIllegalMove(rule, turn))
      const outcome = afterIllegalMove(rule, turn)
      return outcome.kind === 'play' ? outcome.action : -1
    })
    expect([...new Set(actions)].sort()).toEqual(legalActions)
    expect(() => afterIllegalMove(rule, { attempt: 0, legalActions: [], key })).toThrow(/must not be empty/)
  })

  it('a rule from outside is checked', () => {
    const checked = (rule: unknown) => () => checkIllegalMoveRule('illegal_move', rule as IllegalMoveRule)
    expect(checked({ kind: 'retry', attempts: 1, fallback: 'random' })).not.toThrow()
    expect(checked({ kind: 'loss' })).toThrow(/illegal_move: kind must be .* got "loss"/)
    expect(checked({ kind: 'retry', attempts: 0, fallback: 'random' })).toThrow(/attempts must be .* got 0/)
    expect(checked({ kind: 'retry', attempts: 1 })).toThrow(/fallback must be/)
  })
})

describe('the returns of a forfeited game', () => {
  it('add up to 0 in zero-sum games, and punish no other player elsewhere', () => {
    expect(forfeitReturns({ players: 2, utility: 'zeroSum' }, { player: 1 })).toEqual([1, -1])
    expect(forfeitReturns({ players: 3, utility: 'zeroSum' }, { player: 0, stake: 2 })).toEqual([-2, 1, 1])
    expect(forfeitReturns({ players: 2, utility: 'generalSum' }, { player: 0 })).toEqual([-1, 0])
    expect(forfeitReturns({ players: 1, utility: 'zeroSum' }, { player: 0 })).toEqual([-1])
    expect(() => forfeitReturns({ players: 2, utility: 'zeroSum' }, { player: 2 })).toThrow(RangeError)
  })
})

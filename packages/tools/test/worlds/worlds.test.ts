/**
 * The household, the laboratory and chess: solutions reach the score, and no action breaks a world.
 */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { playedWorld } from '../../../../test/kit/worlds.js'
import { chessWorld } from '../../src/worlds/chess.js'
import { householdSolution, householdTasks, householdWorld } from '../../src/worlds/household.js'
import { laboratorySolution, laboratoryTasks, laboratoryWorld } from '../../src/worlds/laboratory.js'
import type { TextWorld } from '../../src/worlds/textWorld.js'

const key = keyFromSeed(4)
const household = householdTasks(key)
const laboratory = laboratoryTasks(key)
const chess = orThrow(await chessWorld()())

/** Mates in one on the back rank. */
const PUZZLE = { fen: '6k1/5ppp/8/8/8/8/1r3PPP/R5K1 w - - 0 1', solution: ['a1a8'] }
const TWO_MOVES = { fen: '3r2k1/5ppp/8/8/8/8/3Q1PPP/3R2K1 w - - 0 1', solution: ['d2d8'] }

/** Any sequence of actions, listed or not, keeps a world within its laws. */
const holds = <S>(world: TextWorld<S>, args: unknown): void =>
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.string(), fc.nat(30)), { maxLength: 15 }), (choices) => {
      let view = playedWorld(world, args, [])
      for (const choice of choices) {
        const { actions } = view
        const action = typeof choice === 'string' ? choice : (actions[choice % Math.max(1, actions.length)] ?? '')
        const before = JSON.stringify(view.state)
        const next = world.act(view.state, action)
        expect(JSON.stringify(view.state)).toBe(before)
        expect(next.score >= 0 && next.score <= 1 && next.observation.length > 0).toBe(true)
        if (view.done) expect([next.done, next.score]).toEqual([true, view.score])
        expect(JSON.parse(JSON.stringify(next.state))).toEqual(next.state)
        view = next
      }
    }),
    { numRuns: 30 },
  )

describe('householdWorld', () => {
  it('law: the solution of every task scores 1, and only at its end', () => {
    for (let i = 0; i < 60; i++) {
      const task = orThrow(household.at(i))
      const actions = householdSolution(task)
      expect(playedWorld(householdWorld(), task.goal, actions)).toMatchObject({ score: 1, done: true })
      expect(playedWorld(householdWorld(), task.goal, actions.slice(0, -1))).toMatchObject({ score: 0, done: false })
    }
  })

  it('law: keeps its laws under any actions', () => holds(householdWorld(), orThrow(household.at(0)).goal))
})

describe('laboratoryWorld', () => {
  it('law: the solution of every task scores 1, and its score never falls on the way', () => {
    for (let i = 0; i < 20; i++) {
      const task = orThrow(laboratory.at(i))
      const actions = laboratorySolution(task)
      const scores = actions.map((_, n) => playedWorld(laboratoryWorld(), task.goal, actions.slice(0, n + 1)).score)
      expect([scores.at(-1), scores]).toEqual([1, [...scores].sort((a, b) => a - b)])
    }
  })

  it('ends with 0 for the wrong thing', () => {
    const goal = { substance: 'water', state: 'gas' }
    const shown = playedWorld(laboratoryWorld(), goal, ['take water', 'show water'])
    expect(shown).toMatchObject({ score: 0, done: true, observation: 'That is wrong.' })
  })

  it('law: keeps its laws under any actions', () => holds(laboratoryWorld(), orThrow(laboratory.at(0)).goal))
})

describe('chessWorld', () => {
  it('pays 0.4 for the share of right moves and 0.6 for the solution', () => {
    expect(playedWorld(chess, PUZZLE, ['move a1a8'])).toMatchObject({ score: 1, done: true })
    expect(playedWorld(chess, TWO_MOVES, ['d2d8'])).toMatchObject({ score: 1, done: true })
    const long = {
      fen: 'r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 0 1',
      solution: ['d7d6', 'f3f7'],
    }
    expect(playedWorld(chess, long, ['a7a6'])).toMatchObject({ score: 0, done: true })
    const twice = { fen: PUZZLE.fen, solution: ['h2h3', 'b2b1', 'a1b1'] }
    expect(playedWorld(chess, twice, ['h2h3'])).toMatchObject({ score: 0.2, done: false })
    expect(playedWorld(chess, twice, ['h2h3', 'a1b1'])).toMatchObject({ score: 1, done: true })
  })

  it('shows the board and the legal moves, and names what is not legal', () => {
    const [board, moves, wrong] = ['board', 'moves', 'move a1h8'].map((action) => playedWorld(chess, PUZZLE, [action]))
    expect(board!.observation).toContain(PUZZLE.fen)
    expect(moves!.observation).toContain('a1a8')
    expect([wrong!.observation, wrong!.done]).toEqual(['That is no legal move.', false])
    expect(E.isLeft(chess.start({ fen: 'x', solution: ['a1a8'] }))).toBe(true)
  })

  it('law: keeps its laws under any actions', () =>
    holds(chess, { fen: PUZZLE.fen, solution: ['h2h3', 'b2b1', 'a1b1'] }))

  it('names the package that it needs', async () => {
    expect(await chessWorld(() => Promise.reject(new Error('gone')))()).toMatchObject({ left: { package: 'chess.js' } })
  })
})

import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { checkLaws, rewardLaws } from '@tandem-rl/testing'
import { History, message } from '@tandem-rl/text'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import {
  type CountdownRow,
  countdownGoal,
  countdownProblem,
  countdownReward,
  countdownTasks,
} from '../../../src/envs/rewards/countdown.js'

const rowAt = (seed: number, index: number, numCount = 4): CountdownRow =>
  orThrow(countdownTasks(keyFromSeed(seed), { numCount }).at(index)).row

const puzzles = fc.tuple(fc.nat(), fc.nat({ max: 9999 }), fc.integer({ min: 1, max: 6 }))

describe('countdownTasks', () => {
  it('draws puzzles within the limits, each with a solution by its own rules', () => {
    fc.assert(
      fc.property(puzzles, ([seed, index, numCount]) => {
        const { target, numbers, solution } = rowAt(seed, index, numCount)
        expect(numbers.length).toBe(numCount)
        expect(numbers.every((n) => Number.isInteger(n) && n >= 1 && n <= 100)).toBe(true)
        expect(target >= 1 && (target <= 1000 || target === numbers.reduce((a, b) => a + b))).toBe(true)
        expect(countdownProblem(solution, { target, numbers })).toBe(undefined)
      }),
      { numRuns: 300 },
    )
  })

  it('keeps other limits, and draws each index by itself', () => {
    const source = countdownTasks(keyFromSeed(7), { numCount: 2, maxNumber: 3, maxTarget: 5 })
    const rows = Array.from({ length: 200 }, (_, i) => orThrow(source.at(i)).row)
    expect(new Set(rows.flatMap(({ numbers }) => numbers))).toEqual(new Set([1, 2, 3]))
    expect(Math.max(...rows.map(({ target }) => target))).toBe(6) // a sum, which may be above the largest target
    expect(source.at(17)).toEqual(source.at(17))
    expect(new Set(rows.map(({ target }) => target)).size).toBeGreaterThan(3)
  })

  it('states its goal in the answer and in the question', () => {
    const { row, answer, query } = orThrow(countdownTasks(keyFromSeed(3)).at(0))
    expect(countdownGoal(answer)).toEqual(E.right({ target: row.target, numbers: row.numbers }))
    expect(query).toContain(`the numbers ${row.numbers.join(', ')}, write an expression that equals ${row.target}`)
  })

  it('refuses options that are no counts, all at once', () => {
    expect(() => countdownTasks(keyFromSeed(1), { numCount: 0, maxNumber: 1.5, maxTarget: Number.NaN })).toThrow(
      'countdownTasks: numCount must be from 1 to 20, got 0; maxNumber must be from 1 to 1000000, got 1.5; maxTarget must be from 1 to 1000000000, got NaN',
    )
  })
})

describe('countdownProblem', () => {
  const numbers = [2, 3, 25, 25, 7]
  it.each([
    ['(2 + 3) * 25', 125],
    ['25 / 25', 1],
    ['2/3*3*25*25/25', 0], // 3 is given once
    ['25 × (3 − 2)', 25],
    ['7', 7],
    ['(7 * 2 + 25) / 3', 13],
    ['3 / (25 / 25)', 3],
    ['2 - 7', 0],
  ])('%s = %d', (expression, target) => {
    expect(countdownProblem(expression, { target, numbers }) === undefined).toBe(target !== 0)
  })

  it.each([
    ['2**3', 8, /expected a number/],
    ['2^3', 8, /expected \+ or - or \* or \//],
    ['7//2', 3, /expected a number/],
    ['7%3', 1, /expected/],
    ['1.5*2', 3, /integer/],
    ['-3 + 7 + 25', 29, /expected a number/],
    ['2 3', 23, /expected an operator/],
    ['23', 23, /the number 23 is not given so often/],
    ['03 + 7', 10, /the number 03 is not given so often/],
    ['25 + 25 + 25', 75, /the number 25 is not given so often/],
    ['2 + 3 = 5', 5, /expected an operator/],
    ['7 / 2', 3, /the value is 7\/2, not 3/],
    ['25 / (7 - 7)', 0, /the number 7 is not given so often/],
    ['3 / (25 - 25)', 0, /a quotient by 0/],
    ['2 + 3', 6, /the value is 5, not 6/],
    ['abs(2 - 7)', 5, /expected a number/],
    ['__import__("os")', 5, /expected a number/],
    ['', 5, /expected a number/],
    ['(2 + 3', 5, /expected "\)"/],
    [`${'('.repeat(300)}7${')'.repeat(300)}`, 7, /inside one another/],
    [`7${' '.repeat(5000)}`, 7, /more than 1000/],
  ])('%s for %d: says why not', (expression, target, problem) => {
    expect(countdownProblem(expression, { target, numbers })).toMatch(problem)
  })

  it('takes any order of the numbers, and none twice', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.integer({ min: 1, max: 99 }), { minLength: 2, maxLength: 5 }),
        fc.nat(),
        (given, i) => {
          const target = given.reduce((a, b) => a + b)
          expect(countdownProblem([...given].reverse().join(' + '), { target, numbers: given })).toBe(undefined)
          const twice = given[i % given.length]!
          const problem = countdownProblem(`${given.join('+')}+${twice}`, { target: target + twice, numbers: given })
          expect(problem).toBe(`the number ${twice} is not given so often`)
        },
      ),
    )
  })
})

describe('countdownGoal', () => {
  it.each([
    '',
    'target=5',
    'target=5, numbers=',
    'target=-5, numbers=1',
    'target=5,numbers=1',
    'target=5, numbers=1,,2',
  ])('refuses %j', (answer) => {
    expect(countdownGoal(answer)).toMatchObject({ _tag: 'Left', left: { _tag: 'FormatFailure' } })
  })
})

describe('countdownReward', () => {
  checkLaws(
    it,
    rewardLaws(
      puzzles.map(([seed, index]) => {
        const task = orThrow(countdownTasks(keyFromSeed(seed)).at(index))
        const { solution, target, numbers } = task.row
        return {
          reward: countdownReward(),
          task,
          gold: solution,
          reply: (expression: string) => `<think>Well.</think><answer>${expression}</answer>`,
          candidates: [
            `${solution} + 0`,
            `-(${solution})`,
            `(${solution}) ^ 1`,
            `${target} + ${numbers[0]} - ${numbers[0]} + 0`,
          ],
          consolation: 0.1, // for the form
          worthless: [solution, `<answer>${solution}`, `target=${target}`],
        }
      }),
    ),
  )

  it('throws for a task that is no puzzle', () => {
    const task = { id: 'x', query: 'What?', answer: '42' }
    const history = History([message('assistant', '<answer>42</answer>')])
    expect(() => countdownReward().score({ task, history })).toThrow("countdownReward: task x: '42' is not 'target=N")
  })
})

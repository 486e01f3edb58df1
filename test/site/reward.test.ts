/** The expressions of the training page. */
import { describe, expect, it } from 'vitest'
import { DEFAULT_REWARD, problemOf, rewardOf } from '../../site/training/reward.js'

const RIGHT = { right: 1, answer: 1, think: 1, words: 12 }
const WRONG = { right: 0, answer: 1, think: 0, words: 3 }
const NONE = { right: 0, answer: 0, think: 0, words: 0 }

describe('the default', () => {
  it('is the reward of GSM8K', () => {
    expect([RIGHT, WRONG, NONE].map((values) => rewardOf(DEFAULT_REWARD, values))).toEqual([1, 0.1, 0])
    expect(problemOf(DEFAULT_REWARD)).toBeNull()
  })
})

describe('an expression', () => {
  it.each([
    ['right - 0.01 * words', 1 - 0.01 * 12],
    ['2 ^ right', 2],
    ['right / (right - 1)', 0],
  ])('%s is computed', (expression, value) => {
    expect(rewardOf(expression, RIGHT)).toBeCloseTo(value, 12)
  })

  it.each(['', 'right +', 'fetch(1)', 'constructor', 'right; right', '(('.repeat(400)])(
    '%s is refused',
    (expression) => {
      expect(problemOf(expression)).not.toBeNull()
    },
  )
})

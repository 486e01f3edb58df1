/** Lines in the old style may only become fewer: `npm run make -- prose` counts and lists them. */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { markedLines, proseCounts } from '../scripts/kit/prose.js'
import { BUDGET_FILE, exceeded, lowered, readBudget } from '../scripts/kit/proseBudget.js'

describe('prose', () => {
  it('has no more lines in the old style than its budget; `npm run make -- prose PATH` lists them', () => {
    expect(exceeded(readBudget(readFileSync(BUDGET_FILE, 'utf8')), proseCounts(markedLines()))).toEqual([])
  })

  it('may exceed no budget: an area without one has none to spend', () => {
    const counts = { docs: { opening: 0, words: 2, long: 0 }, new: { opening: 1, words: 0, long: 0 } }
    expect(exceeded({ docs: { opening: 0, words: 1, long: 0 } }, counts)).toEqual([
      "docs has 2 lines marked 'words', and its budget is 1",
      "new has 1 lines marked 'opening', and its budget is 0",
    ])
  })

  it('lowers a budget, and never raises it', () => {
    const budget = { docs: { opening: 3, words: 1, long: 0 }, gone: { opening: 1, words: 1, long: 1 } }
    expect(lowered(budget, { docs: { opening: 2, words: 5, long: 0 } })).toEqual({
      docs: { opening: 2, words: 1, long: 0 },
    })
  })
})

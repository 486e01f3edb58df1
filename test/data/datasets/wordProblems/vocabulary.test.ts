import { describe, expect, it } from 'vitest'
import { counted, MEN, THINGS, WOMEN } from '../../../../src/data/datasets/wordProblems/vocabulary.js'

describe('the vocabulary', () => {
  it('has at least 20 names and 20 things, all distinct', () => {
    const names = [...MEN, ...WOMEN].map(({ name }) => name)
    const things = THINGS.flatMap(({ singular, plural }) => [singular, plural])
    expect(names.length).toBeGreaterThanOrEqual(20)
    expect(THINGS.length).toBeGreaterThanOrEqual(20)
    expect(new Set([...names, ...things]).size).toBe(names.length + things.length)
  })

  it('has pronouns that agree', () => {
    expect(new Set(MEN.map(({ name: _, ...pronouns }) => Object.values(pronouns).join()))).toEqual(
      new Set(['he,him,his']),
    )
    expect(new Set(WOMEN.map(({ name: _, ...pronouns }) => Object.values(pronouns).join()))).toEqual(
      new Set(['she,her,her']),
    )
  })
})

describe('counted', () => {
  const brush = THINGS.find(({ singular }) => singular === 'brush')!

  it.each([
    [0, '0 brushes', '0 more brushes'],
    [1, '1 brush', '1 more brush'],
    [2, '2 brushes', '2 more brushes'],
    [11, '11 brushes', '11 more brushes'],
  ])('agrees for %i', (count, plain, more) => {
    expect(counted(count, brush)).toBe(plain)
    expect(counted(count, brush, 'more')).toBe(more)
  })
})

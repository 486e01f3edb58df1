import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { JSON_LIMITS, jsonSize, jsonSizeProblem } from '../src/jsonSize.js'

const NO_LIMITS = { depth: Number.POSITIVE_INFINITY, values: Number.POSITIVE_INFINITY, items: Number.POSITIVE_INFINITY }

interface Counts {
  readonly depth: number
  readonly values: number
  readonly items: number
}

const countsOf = (json: unknown): Counts => {
  if (typeof json === 'string') return { depth: 0, values: 1, items: 0 }
  if (typeof json !== 'object' || json === null) return { depth: 0, values: 0, items: 0 }
  const parts = Object.values(json).map(countsOf)
  const names = Array.isArray(json) ? 0 : parts.length
  return {
    depth: 1 + parts.reduce((most, { depth }) => Math.max(most, depth), 0),
    values: 1 + names + parts.reduce((sum, { values }) => sum + values, 0),
    items: Math.max(0, parts.length - 1) + parts.reduce((sum, { items }) => sum + items, 0),
  }
}

describe('the size of a JSON text', () => {
  it('is that of its value: levels, values and commas, none of them inside a text', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(jsonSize(JSON.stringify(value), NO_LIMITS)).toEqual(countsOf(value))
      }),
    )
  })

  const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth)
  const values = (count: number): string => `[${Array(count - 1).fill('""')}]`
  const numbers = (commas: number): string => `[${'1,'.repeat(commas)}1]`
  it.each([
    ['levels', nested(JSON_LIMITS.depth), nested(JSON_LIMITS.depth + 1), 'is nested deeper than 128 levels'],
    ['values', values(2 ** 20), values(2 ** 20 + 1), 'has more than 1,048,576 texts, names, lists and objects'],
    ['commas', numbers(2 ** 23), numbers(2 ** 23 + 1), 'has more than 8,388,608 commas'],
  ])('has a limit of %s', (_, at, above, problem) => {
    expect(jsonSizeProblem(at)).toBeUndefined()
    expect(jsonSizeProblem(above)).toBe(problem)
  })
})

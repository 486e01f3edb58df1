import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { boundedList, naturalList, numberList, table } from '../src/boundedSchema.js'

const problems = (schema: z.ZodType, value: unknown): readonly string[] => {
  const read = schema.safeParse(value)
  return read.success ? [] : read.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
}

/** A schema that counts the values that it checks. */
const counting = () => {
  let checked = 0
  const schema = z.custom<string>((value) => {
    checked++
    return typeof value === 'string'
  }, 'expected a text')
  return { schema, checked: () => checked }
}

const WRONG = Array<number>(100_000).fill(7)

describe('list', () => {
  it('accepts what an array of zod accepts within its limit, with the same value', () => {
    const [item, most] = [z.object({ n: z.int() }), 4]
    const items = fc.array(fc.oneof(fc.record({ n: fc.integer() }), fc.jsonValue()), { maxLength: 6 })
    fc.assert(
      fc.property(fc.oneof(items, fc.jsonValue()), (value) => {
        const [ours, zods] = [boundedList(item, most).safeParse(value), z.array(item).max(most).safeParse(value)]
        expect(ours.success).toBe(zods.success)
        expect(ours.data).toEqual(zods.data)
      }),
    )
  })

  it('has the problems of the first wrong item alone, and checks no item after it', () => {
    const { schema, checked } = counting()
    expect(problems(boundedList(schema, 10 ** 6), ['a', ...WRONG])).toEqual(['1: expected a text'])
    expect(checked()).toBe(2)
  })

  it('checks its length before its items', () => {
    const { schema, checked } = counting()
    expect(problems(z.object({ a: boundedList(schema, 99_999) }), { a: WRONG })).toEqual([
      'a: expected at most 99,999 items',
    ])
    expect(checked()).toBe(0)
  })

  it('is missing, or of another type', () => {
    const schema = z.object({ a: boundedList(z.string(), 1) })
    expect(problems(schema, {})).toEqual(['a: Invalid input: expected array, received undefined'])
    expect(problems(schema, { a: 'b' })).toEqual(['a: Invalid input: expected array, received string'])
  })
})

describe('table', () => {
  it('accepts what a record of zod accepts within its limit, with the same value', () => {
    const fields = fc.dictionary(fc.string(), fc.oneof(fc.integer(), fc.string()), { maxKeys: 6 })
    fc.assert(
      fc.property(fc.oneof(fields, fc.jsonValue()), (value) => {
        const [ours, zods] = [table(z.int(), 4).safeParse(value), z.record(z.string(), z.int()).safeParse(value)]
        const isSmall = typeof value !== 'object' || value === null || Object.keys(value).length <= 4
        expect(ours.success).toBe(zods.success && isSmall)
        if (ours.success) expect(ours.data).toEqual(zods.data)
      }),
    )
  })

  it('has the problem of the first wrong field alone', () => {
    const { schema, checked } = counting()
    const wrong = Object.fromEntries(WRONG.map((n, i) => [`f${i}`, n]))
    expect(problems(table(schema, 10 ** 6), { a: 'b', ...wrong })).toEqual(['f0: expected a text'])
    expect(checked()).toBe(2)
  })

  it('checks its size before its fields', () => {
    const { schema, checked } = counting()
    expect(problems(table(schema, 1), { a: 1, b: 2 })).toEqual([': expected at most 1 field'])
    expect(checked()).toBe(0)
  })
})

describe('lists of numbers', () => {
  it('accept what arrays of zod accept', () => {
    const items = fc.array(fc.oneof(fc.double(), fc.integer({ min: -2, max: 12 }), fc.jsonValue()), { maxLength: 6 })
    const naturals = z.array(z.int().min(0).max(10)).max(4)
    fc.assert(
      fc.property(items, (value) => {
        expect(naturalList(10, 4).safeParse(value).success).toBe(naturals.safeParse(value).success)
        expect(numberList(4).safeParse(value).success).toBe(z.array(z.number()).max(4).safeParse(value).success)
      }),
    )
  })

  it('have the problem of the first wrong number', () => {
    expect(problems(naturalList(10, 9), [1, 11, -1])).toEqual(['1: Too big: expected number to be <=10'])
    expect(problems(numberList(9), [1, 'a', null])).toEqual(['1: Invalid input: expected number, received string'])
    expect(problems(numberList(1), [1, 2])).toEqual([': expected at most 1 item'])
  })
})

import { memoryBytes } from '@tandem-rl/base'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { rightOf } from '../../../test/kit/results.js'
import { parquetInfo, readParquet } from '../src/parquet.js'
import type { ParquetType } from '../src/parquetTypes.js'
import { encodeParquet, type ParquetColumn } from '../src/parquetWrite.js'

const PRIMITIVES = {
  bool: fc.boolean(),
  int32: fc.integer(),
  int64: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  float32: fc.float(),
  float64: fc.double(),
  string: fc.string({ unit: 'grapheme', maxLength: 6 }),
  bytes: fc.uint8Array({ maxLength: 5 }),
} as const

/** A type and values of it. */
interface Typed {
  readonly type: ParquetType
  readonly value: fc.Arbitrary<unknown>
}

const anyPrimitive: fc.Arbitrary<Typed> = fc
  .constantFrom(...(Object.keys(PRIMITIVES) as (keyof typeof PRIMITIVES)[])) // its own keys
  .map((type) => ({ type, value: PRIMITIVES[type] }))

const listOf = ({ type, value }: Typed): Typed => ({ type: { list: type }, value: fc.array(value, { maxLength: 3 }) })
const orNull = ({ type, value }: Typed): Typed => ({
  type: { nullable: type },
  value: fc.option(value, { nil: null, freq: 3 }),
})
const recordOf = (fields: readonly Typed[]): Typed => ({
  type: { struct: Object.fromEntries(fields.map(({ type }, i) => [`f${i}`, type])) },
  value: fc.record(Object.fromEntries(fields.map(({ value }, i) => [`f${i}`, value]))),
})

const anyTyped: fc.Arbitrary<Typed> = fc.oneof(
  anyPrimitive,
  anyPrimitive.map(orNull),
  anyPrimitive.map(listOf),
  anyPrimitive.map(orNull).map(listOf).map(orNull),
  anyPrimitive.map(listOf).map(listOf),
  fc.array(anyPrimitive, { minLength: 1, maxLength: 3 }).map(recordOf),
  fc.tuple(anyPrimitive.map(orNull), anyPrimitive.map(listOf)).map(recordOf).map(orNull),
  fc.array(anyPrimitive, { minLength: 1, maxLength: 2 }).map(recordOf).map(listOf),
)

const anyColumns: fc.Arbitrary<readonly ParquetColumn[]> = fc
  .tuple(fc.array(anyTyped, { minLength: 1, maxLength: 4 }), fc.nat(12))
  .chain(([types, rows]) =>
    fc.tuple(
      ...types.map(({ type, value }, i) =>
        fc
          .array(value, { minLength: rows, maxLength: rows })
          .map((values) => ({ name: ['a', '', 'x.y', '__proto__'][i]!, type, values })),
      ),
    ),
  )

const write = async (columns: readonly ParquetColumn[], options = {}) =>
  memoryBytes(await rightOf(encodeParquet(columns, options)), 'a.parquet')

describe('encodeParquet', () => {
  it('writes what readParquet reads: all types, nested, null, of any number of rows, whatever the names', async () => {
    const law = fc.asyncProperty(
      anyColumns,
      fc.constantFrom('snappy', 'uncompressed'),
      fc.integer({ min: 1, max: 13 }),
      async (columns, codec, rowsPerGroup) => {
        const source = await write(columns, { codec, rowsPerGroup })
        const rows = await rightOf(
          readParquet(source, { schema: z.custom<Record<string, unknown>>(), int64: 'bigint' }),
        )
        expect(rows.map((row) => Object.values(row))).toEqual(
          columns[0]!.values.map((_, i) => columns.map(({ values }) => values[i])),
        )
        expect((await rightOf(parquetInfo(source))).columns).toEqual(columns.map(({ name }) => name))
      },
    )
    await fc.assert(law, { numRuns: 120 })
  })

  it('gives equal bytes for equal columns, and keeps texts for the reader', async () => {
    const columns: readonly ParquetColumn[] = [{ name: 'n', type: 'int64', values: [1, 2n] }]
    const source = await write(columns, { metadata: { author: 'żółw' } })
    expect((await rightOf(parquetInfo(source))).metadata).toEqual({ author: 'żółw' })
    expect(await write(columns, { metadata: { author: 'żółw' } })).toMatchObject({ size: source.size })
  })

  it.each<[ParquetType, unknown, RegExp]>([
    ['int32', 2 ** 31, /n, row 1: expected int32, got 2147483648/],
    ['int32', -0, /expected int32/],
    ['int64', 2 ** 53, /expected int64/],
    ['int64', 2n ** 63n, /expected int64/],
    ['float32', 0.1, /expected float32, got 0.1/],
    ['string', '\ud800', /expected string/],
    ['bool', 1, /expected bool/],
    ['bytes', 'a', /expected bytes/],
    ['string', null, /expected string, got null/],
    [{ list: 'int32' }, [1, 'a'], /n, row 1\[1\]: expected int32, got 'a'/],
    [{ struct: { a: 'int32' } }, { a: 1, b: 2 }, /a record without the fields b/],
    [{ struct: { a: { list: 'bool' } } }, { a: 3 }, /n, row 1.a: expected a list, got 3/],
    [{ struct: {} }, {}, /a record without fields/],
    [{ struct: { 'a.b': 'int32' } }, { 'a.b': 1 }, /a field cannot be named 'a.b'/],
    [{ nullable: { nullable: 'int32' } }, 1, /nullable twice/],
  ])('throws for %j with the value %s', (type, value, message) => {
    expect(() => encodeParquet([{ name: 'n', type, values: [value] }])).toThrow(message)
  })

  it('throws for columns that make no table, with all that is wrong', () => {
    const column = (name: string, values: readonly unknown[]): ParquetColumn => ({ name, type: 'int32', values })
    expect(() => encodeParquet([])).toThrow(/no columns/)
    expect(() => encodeParquet([column('a', [1]), column('a', [1, 2])], { rowsPerGroup: 0 })).toThrow(
      /two columns are named 'a'; 'a' has 2 values, the first column 1; rowsPerGroup must be/,
    )
    expect(() =>
      encodeParquet([
        column(
          'a',
          Array.from({ length: 30 }, () => 'x'),
        ),
      ]),
    ).toThrow(/; and 10 more$/)
  })
})

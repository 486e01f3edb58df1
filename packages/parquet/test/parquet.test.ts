/**
 * Reading Parquet: files that pyarrow wrote (test/golden/generate/parquet.py), whole, cut and
 * damaged.
 */
import { readFileSync } from 'node:fs'
import { memoryBytes, optionalPackage, describe as sentence } from '@tandem-rl/base'
import { fileBytes } from '@tandem-rl/host'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { type ColumnMetaData, parquetMetadata } from 'hyparquet'
import { ByteWriter } from 'hyparquet-writer'
import { writeMetadata } from 'hyparquet-writer/src/metadata.js'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { IFEVAL } from '../../../src/data/datasets/ifEval.js'
import { collectGarbage } from '../../../test/kit/memory.js'
import { leftOf, rightOf } from '../../../test/kit/results.js'
import { parquetInfo, type ReadParquetOptions, readParquet } from '../src/parquet.js'

const FOLDER = 'packages/parquet/test/golden'
const FILES = ['snappy', 'plain', 'gzip', 'zstd', 'brotli', 'lz4', 'groups', 'checked', 'delta'] as const

const golden = (name: string): Uint8Array => new Uint8Array(readFileSync(`${FOLDER}/${name}.parquet`))
const anything = z.record(z.string(), z.unknown())
const read = (bytes: Uint8Array, options: Partial<ReadParquetOptions<Record<string, unknown>>> = {}) =>
  readParquet(memoryBytes(bytes, 'a.parquet'), { schema: anything, ...options })

/** Rows as the generator wrote them into expected.json. */
const plain = (value: unknown): unknown => {
  if (value instanceof Uint8Array) return [...value]
  if (value instanceof Date) return value.toISOString()
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]))
  }
  return Number.isNaN(value) ? 'NaN' : value
}

const expected = (
  JSON.parse(readFileSync(`${FOLDER}/expected.json`, 'utf8')) as { readonly rows: readonly Record<string, unknown>[] }
).rows // written by the generator

type Changes = Readonly<Partial<{ size: (column: ColumnMetaData) => bigint; rows: bigint; values: bigint }>>

const compressedSize = ({ total_compressed_size }: ColumnMetaData): bigint => total_compressed_size

/** A file with other numbers in its footer. */
const withFooter = (bytes: Uint8Array, { size, rows, values }: Changes): Uint8Array => {
  const metadata = parquetMetadata(bytes.slice().buffer, { geoparquet: false })
  const length = new DataView(bytes.buffer, bytes.byteOffset + bytes.length - 8).getUint32(0, true)
  const changed = {
    ...metadata,
    num_rows: rows ?? metadata.num_rows,
    row_groups: metadata.row_groups.map((group) => ({
      ...group,
      columns: group.columns.map((column) => ({
        ...column,
        meta_data: {
          ...column.meta_data!,
          total_uncompressed_size: size?.(column.meta_data!) ?? column.meta_data!.total_uncompressed_size,
          num_values: values ?? column.meta_data!.num_values,
        },
      })),
    })),
  }
  const footer = new ByteWriter()
  writeMetadata(footer, changed, 16)
  const end = new TextEncoder().encode('PAR1')
  return Uint8Array.from([...bytes.subarray(0, bytes.length - 8 - length), ...footer.getBytes(), ...end])
}

describe('readParquet', () => {
  it.each(FILES)(
    'reads every row of %s as pyarrow wrote it: nulls, lists, lists of lists, structs, lists of structs',
    async (name) => {
      expect(plain(await rightOf(read(golden(name))))).toEqual(expected)
    },
  )

  it('reads what DuckDB wrote, with padded runs of levels and of dictionary indices, as pyarrow reads it', async () => {
    const { rows } = JSON.parse(readFileSync(`${FOLDER}/duckdb.json`, 'utf8')) as { readonly rows: readonly object[] } // written by parquetDuckdb.py
    expect(await rightOf(read(golden('duckdb')))).toEqual(rows)
  })

  it.each([
    ['an uncompressed size of 0, as DuckDB of 2022 wrote', { size: () => 0n }],
    ['the compressed size as the uncompressed one, as hyparquet-writer wrote', { size: compressedSize }],
    ['no rows in the file, as parquet-rs 0.3 wrote', { rows: 0n }],
    ['fewer rows in the file than in its row groups', { rows: 5n }],
  ])('reads a file that declares %s', async (_, changes) => {
    for (const name of ['snappy', 'groups', 'delta']) {
      const bytes = withFooter(golden(name), changes)
      expect(plain(await rightOf(read(bytes)))).toEqual(expected)
      expect(await rightOf(parquetInfo(memoryBytes(bytes, 'a')))).toMatchObject({ rows: 23 })
      expect(plain(await rightOf(read(bytes, { range: [6, 23] })))).toEqual(expected.slice(6))
    }
  })

  it('refuses pages that are larger than allowed', async () => {
    expect(sentence(await leftOf(read(golden('plain'), { maxBytes: 50 })))).toMatch(
      /a page of \d+ bytes, more than the 50 that are allowed; raise maxBytes$/,
    )
  })

  it('names the writer of a file that breaks a rule, and the rule', async () => {
    const { reason } = await leftOf(read(withFooter(golden('snappy'), { values: 24n })))
    expect(reason).toMatch(
      /^a.parquet, written by "parquet-cpp-arrow version .*", is damaged or breaks a rule of the format: column key, row group 0: 24 values in 23 rows$/,
    )
  })

  it('reads any range of rows of any columns, in the order asked for', async () => {
    const law = fc.asyncProperty(
      fc.constantFrom('snappy', 'groups', 'delta', 'checked'),
      fc.nat(23),
      fc.nat(23),
      fc.shuffledSubarray(Object.keys(expected[0]!), { minLength: 1 }),
      async (name, a, b, columns) => {
        const range = [Math.min(a, b), Math.max(a, b)] as const
        const rows = plain(await rightOf(read(golden(name), { range, columns })))
        const wanted = expected.slice(...range).map((row) => Object.fromEntries(columns.map((key) => [key, row[key]])))
        expect(rows).toEqual(wanted)
        expect((rows as readonly object[]).every((row) => Object.keys(row).join() === columns.join())).toBe(true)
      },
    )
    await fc.assert(law, { numRuns: 60 })
  })

  it('gives what the schema makes of rows, and names the rows and fields that it refuses', async () => {
    const schema = z.object({ key: z.number().transform((key) => key * 2) })
    expect(await rightOf(read(golden('groups'), { schema, columns: ['key'], range: [7, 9] }))).toEqual([
      { key: 14 },
      { key: 16 },
    ])
    const strict = z.object({ score: z.number(), text: z.string() })
    const failure = await leftOf(read(golden('groups'), { schema: strict as never }))
    expect(failure).toMatchObject({ _tag: 'RowFailure', source: 'a.parquet', row: 3, unit: 'row' })
    expect(failure).toHaveProperty('others.length', 5)
    expect(sentence(failure)).toMatch(/^a.parquet, row 3: score: .* \(also row 7: text: .*, row 8: score: /)
  })

  it('gives 64-bit integers as numbers where that is exact, else names the row; or as bigints', async () => {
    expect(sentence(await leftOf(read(golden('tooBig'))))).toBe(
      'a.parquet, row 2: big: 9007199254740992 is not a safe integer; read 64-bit integers as bigints',
    )
    expect(await rightOf(read(golden('tooBig'), { int64: 'bigint' }))).toEqual([
      { big: 1n },
      { big: 2n ** 53n },
      { big: 3n },
    ])
  })

  it('reads the rows of IFEval as its JSON Lines have them', async () => {
    const [row] = await rightOf(readParquet(memoryBytes(golden('ifeval'), 'ifeval'), { schema: IFEVAL.schema }))
    expect(row?.instructions).toEqual([
      { id: 'punctuation:no_comma', kwargs: {} },
      { id: 'length_constraints:number_words', kwargs: { relation: 'at least', num_words: 300 } },
    ])
  })

  it('reads files, and lists the columns if one is missing', async () => {
    const source = await rightOf(fileBytes(`${FOLDER}/gsm8k.parquet`))
    expect(await rightOf(readParquet(source, { schema: anything, range: [1, 2] }))).toEqual([
      { question: 'What is 1 + 1?', answer: 'It is one more.\n#### 2' },
    ])
    const failure = await leftOf(readParquet(source, { schema: anything, columns: ['query'] }))
    expect(sentence(failure)).toMatch(/missing columns query; the columns are question, answer$/)
    expect(sentence(await leftOf(readParquet(source, { schema: anything, range: [2, 9] })))).toMatch(
      /rows 2 to 9 are not among its 4$/,
    )
  })

  it('refuses more rows than are allowed', async () => {
    expect(sentence(await leftOf(read(golden('plain'), { maxRows: 22 })))).toMatch(/23 rows are more than the 22/)
  })
})

describe('parquetInfo', () => {
  it('reports rows and columns', async () => {
    expect(await rightOf(parquetInfo(memoryBytes(golden('groups'), 'a')))).toMatchObject({
      rows: 23,
      columns: Object.keys(expected[0]!),
    })
  })
})

/** A failure with its tag, or rows: never an exception. */
const outcome = async (bytes: Uint8Array): Promise<'failure' | readonly unknown[]> => {
  const result = await read(bytes)()
  if (E.isRight(result)) return result.right
  expect(['FormatFailure', 'RowFailure', 'PackageFailure']).toContain(result.left._tag)
  expect(result.left.reason.length).toBeGreaterThan(10)
  return 'failure'
}

describe('a damaged file', () => {
  it('cut off at any byte is a failure', async () => {
    const bytes = golden('gsm8k')
    for (let cut = 0; cut < bytes.length; cut++) expect(await outcome(bytes.subarray(0, cut))).toBe('failure')
  })

  it('with bytes changed anywhere is a failure or gives rows: no exception, no hang, no endless memory', async () => {
    const before = process.memoryUsage().arrayBuffers
    const law = fc.asyncProperty(
      fc.constantFrom(...FILES.filter((name) => name !== 'brotli')), // it takes ten times as long as the others
      fc.array(
        fc.tuple(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), fc.integer({ min: 1, max: 255 })),
        { minLength: 1, maxLength: 3 },
      ),
      async (name, changes) => {
        const bytes = golden(name)
        for (const [place, change] of changes) bytes[Math.floor(place * bytes.length)]! ^= change
        const found = await outcome(bytes)
        if (found !== 'failure') expect(found.length).toBeLessThanOrEqual(23)
      },
    )
    await fc.assert(law, { numRuns: 600 })
    await collectGarbage()
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(2 ** 28)
  })

  it('whose schema has a negative number of children is refused: hyparquet 1.31 alone never returns from it', async () => {
    const bytes = golden('snappy')
    expect(bytes[2392]).toBe(2) // one child, in zigzag
    bytes[2392] = 1
    expect(await outcome(bytes)).toBe('failure')
  })

  it('with checksums and any byte of its pages changed is a failure, or gives the right rows', async () => {
    const bytes = golden('checked')
    const law = fc.asyncProperty(
      fc.integer({ min: 4, max: 2400 }),
      fc.integer({ min: 1, max: 255 }),
      async (place, change) => {
        const damaged = bytes.slice()
        damaged[place]! ^= change
        const found = await outcome(damaged)
        if (found !== 'failure') expect(plain(found)).toEqual(expected)
      },
    )
    await fc.assert(law, { numRuns: 300 })
  })

  it.each([
    ['nothing', new Uint8Array(0), /it has 0 bytes/],
    [
      'a footer of zeros',
      new TextEncoder().encode(`PAR1${'\0'.repeat(40)}\x08\0\0\0PAR1`),
      /a part that must be there is missing$/,
    ],
    ['an empty footer', new TextEncoder().encode('PAR1\0\0\0\0PAR1'), /a part that must be there is missing$/],
    ['text', new TextEncoder().encode('{"question":"Why?"}'), /is not a Parquet file/],
  ])('of %s is refused by name', async (_, bytes, reason) => {
    expect(sentence(await leftOf(read(bytes)))).toMatch(reason)
  })
})

describe('optionalPackage', () => {
  it('of a package that is not there names it, what needs it and the command that installs it', async () => {
    const missing = 'tandem-none-such'
    const failure = await leftOf(optionalPackage(missing, 'reading Parquet', () => import(missing)))
    expect(failure).toMatchObject({ _tag: 'PackageFailure', package: missing })
    expect(failure.reason).toMatch(
      /^reading Parquet needs the package tandem-none-such, .*\(npm install tandem-none-such\)/,
    )
  })
})

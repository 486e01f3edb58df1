/**
 * Checks of a Parquet file's metadata and pages before decoding.
 *
 * The decoder trusts the counts in a file: a wrong one makes it loop or allocate without end. Here
 * every page of every column to read is walked first, and its counts are compared with those of the
 * column, of the row group and with the bytes.
 *
 * Source   the Parquet format, sections on data pages, RLE / bit-packing hybrid and delta
 *          encodings.
 */
import { crc32 } from '@tandem-rl/base'
import type { ColumnMetaData, FileMetaData, PageHeader, SchemaTree } from 'hyparquet'
import {
  type ByteCursor,
  bitWidth,
  checkValues,
  demand,
  ParquetProblem,
  readLength,
  walkHybrid,
} from './parquetEncodings.js'

/** Decompresses a page to at most `length` bytes, or throws. */
export type Decompress = (codec: ColumnMetaData['codec'], bytes: Uint8Array, length: number) => Uint8Array

/** The nesting of a column: the highest levels that its values can have. */
export interface ColumnLevels {
  readonly definition: number
  readonly repetition: number
}

/** A column of a row group with its bytes. */
export interface ColumnBytes {
  readonly meta: ColumnMetaData
  readonly levels: ColumnLevels
  readonly bytes: Uint8Array
  readonly rows: number
}

const isCount = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0

/**
 * Converts a count of the metadata to a number. Throws ParquetProblem if it is negative, missing or
 * above 2^53.
 */
const countOf = (value: unknown, name: string): number => {
  const count = typeof value === 'bigint' ? Number(value) : value
  demand(isCount(count), `${name} is ${String(value)}`)
  return count
}

/** The most letters of a writer's name in a message. */
const NAMED = 80

/** Describes a file whose footer was read by the program that wrote it. */
export const writtenBy = ({ created_by: writer }: FileMetaData): string => {
  const name = writer === undefined || writer === '' ? 'an unnamed writer' : JSON.stringify(writer.slice(0, NAMED))
  return `, written by ${name}, is damaged or breaks a rule of the format`
}

/** Returns the highest levels of the column at a path of the schema. */
export const levelsOf = (root: SchemaTree, path: readonly string[]): ColumnLevels => {
  let [node, definition, repetition]: [SchemaTree | undefined, number, number] = [root, 0, 0]
  for (const name of path) {
    node = node?.children.find(({ element }) => element.name === name)
    const kind = node?.element.repetition_type ?? 'REQUIRED'
    if (kind !== 'REQUIRED') definition += 1
    if (kind === 'REPEATED') repetition += 1
  }
  return { definition, repetition }
}

/** Returns the range of a column chunk in its file. Throws ParquetProblem if it is not inside. */
export const chunkRange = (meta: ColumnMetaData, fileSize: number): readonly [start: number, end: number] => {
  const data = countOf(meta.data_page_offset, 'the offset of the data')
  const dictionary =
    meta.dictionary_page_offset === undefined ? 0 : countOf(meta.dictionary_page_offset, 'the offset of the dictionary')
  const start = dictionary > 0 && dictionary < data ? dictionary : data
  const end = start + countOf(meta.total_compressed_size, 'the compressed size')
  demand(start >= 4 && end <= fileSize, `bytes ${start} to ${end} are not inside the file, which has ${fileSize}`)
  return [start, end]
}

/**
 * Returns the rows of each row group, which count as in pyarrow: parquet-rs 0.3 declares 0 rows for
 * the whole file.
 */
export const rowGroupRows = (metadata: FileMetaData, maxRows: number): readonly number[] => {
  const rows = metadata.row_groups.map(({ num_rows }, i) => countOf(num_rows, `the number of rows of row group ${i}`))
  const total = rows.reduce((a, b) => a + b, 0)
  demand(total <= maxRows, `${total} rows are more than the ${maxRows} that are allowed; raise maxRows`)
  return rows
}

const unpack = (
  column: ColumnBytes,
  bytes: Uint8Array,
  { length, decompress }: { readonly length: number; readonly decompress: Decompress },
): Uint8Array => {
  if (column.meta.codec === 'UNCOMPRESSED') {
    demand(bytes.length === length, `a page of ${bytes.length} bytes should have ${length}`)
    return bytes
  }
  const page = decompress(column.meta.codec, bytes, length)
  demand(page.length === length, `a page has ${page.length} bytes where its header declares ${length}`)
  return page
}

/** Checks a data page of version 1, with levels and values compressed together. */
const checkPageV1 = (
  column: ColumnBytes,
  page: Uint8Array,
  header: NonNullable<PageHeader['data_page_header']>,
): void => {
  const { levels, meta } = column
  const cursor: ByteCursor = { bytes: page, at: 0 }
  const count = header.num_values
  const walk = (highest: number): number => {
    if (highest === 0) return count
    const end = cursor.at + 4 + readLength(cursor)
    demand(end <= page.length, 'levels are cut off')
    const full = walkHybrid(
      { bytes: page.subarray(0, end), at: cursor.at },
      { width: bitWidth(highest), count, counted: highest },
    )
    cursor.at = end
    return full
  }
  walk(levels.repetition)
  const present = walk(levels.definition)
  checkValues(cursor, present, { encoding: header.encoding, type: meta.type })
}

/** Checks a data page of version 2, whose levels are not compressed. */
const checkPageV2 = (
  column: ColumnBytes,
  {
    bytes,
    decompress,
    header,
  }: { readonly bytes: Uint8Array; readonly decompress: Decompress; readonly header: PageHeader },
): void => {
  const page = header.data_page_header_v2
  demand(page !== undefined, 'a page without its header')
  const [repetition, definition] = [
    countOf(page.repetition_levels_byte_length, 'the length of levels'),
    countOf(page.definition_levels_byte_length, 'the length of levels'),
  ]
  const nulls = countOf(page.num_nulls, 'the number of nulls')
  const count = page.num_values
  demand(repetition + definition <= bytes.length && nulls <= count, 'levels do not fit into their page')
  const { levels, meta } = column
  if (levels.repetition > 0)
    walkHybrid({ bytes: bytes.subarray(0, repetition), at: 0 }, { width: bitWidth(levels.repetition), count })
  const present =
    levels.definition > 0
      ? walkHybrid(
          { bytes: bytes.subarray(0, repetition + definition), at: repetition },
          { width: bitWidth(levels.definition), count, counted: levels.definition },
        )
      : count
  demand(present === count - nulls, `${count - present} nulls where the page declares ${nulls}`)
  const body = bytes.subarray(repetition + definition)
  const length = header.uncompressed_page_size - repetition - definition
  const values = page.is_compressed === false ? body : unpack(column, body, { length, decompress })
  checkValues({ bytes: values, at: 0 }, present, { encoding: page.encoding, type: meta.type })
}

const checkPage = (
  column: ColumnBytes,
  header: PageHeader,
  page: { readonly bytes: Uint8Array; readonly decompress: Decompress },
): number => {
  const length = header.uncompressed_page_size
  switch (header.type) {
    case 'DICTIONARY_PAGE': {
      const count = countOf(header.dictionary_page_header?.num_values, 'the size of the dictionary')
      const bytes = unpack(column, page.bytes, { length, decompress: page.decompress })
      checkValues({ bytes, at: 0 }, count, { encoding: 'PLAIN', type: column.meta.type })
      return 0
    }
    case 'DATA_PAGE': {
      const inner = header.data_page_header
      const count = countOf(inner?.num_values, 'the number of values')
      demand(
        inner !== undefined && count <= Number(column.meta.num_values),
        `a page of ${count} values in a column of ${column.meta.num_values}`,
      )
      checkPageV1(column, unpack(column, page.bytes, { length, decompress: page.decompress }), inner)
      return count
    }
    case 'DATA_PAGE_V2': {
      const count = countOf(header.data_page_header_v2?.num_values, 'the number of values')
      demand(
        count <= Number(column.meta.num_values),
        `a page of ${count} values in a column of ${column.meta.num_values}`,
      )
      checkPageV2(column, { ...page, header })
      return count
    }
    default:
      throw new ParquetProblem(`pages of kind ${String(header.type)} are not supported`)
  }
}

/** The parts of the library that the walk needs. */
export interface PageReader {
  readonly header: (reader: { view: DataView; offset: number }) => PageHeader
  readonly decompress: Decompress
  /** The most bytes of a decompressed page. */
  readonly maxBytes: number
}

/** The most values of a column in a row group: with lists, they may be more than its rows. */
const MOST_VALUES = 2 ** 28

/**
 * Walks all pages of a column chunk.
 *
 * Errors   throws ParquetProblem at the first count that does not agree with the others or with the
 *          bytes; RangeError from a truncated header.
 * Cost     that of decompressing the chunk. The chunk's `total_uncompressed_size` is not read:
 *          hyparquet-writer wrote the compressed size, and DuckDB of 2022 wrote 0.
 */
export const checkColumn = (column: ColumnBytes, { header: readHeader, decompress, maxBytes }: PageReader): void => {
  const { bytes, meta, rows } = column
  const expected = countOf(meta.num_values, 'the number of values')
  if (column.levels.repetition === 0) demand(expected === rows, `${expected} values in ${rows} rows`)
  demand(expected >= rows && expected <= MOST_VALUES, `${expected} values in ${rows} rows`)
  const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.length), offset: 0 }
  let seen = 0
  while (reader.offset < bytes.length) {
    if (seen === expected && bytes.length - reader.offset <= 1) break // the decoder ignores a last byte
    const header = readHeader(reader)
    const size = countOf(header.compressed_page_size, 'the size of a page')
    const length = countOf(header.uncompressed_page_size, 'the size of a page')
    demand(
      reader.offset + size <= bytes.length,
      `a page of ${size} bytes where ${bytes.length - reader.offset} are left`,
    )
    demand(length <= maxBytes, `a page of ${length} bytes, more than the ${maxBytes} that are allowed; raise maxBytes`)
    const page = bytes.subarray(reader.offset, reader.offset + size)
    reader.offset += size
    demand(
      header.crc === undefined || header.crc >>> 0 === crc32(page), // signed in the file
      'the checksum of a page does not match: the file is damaged',
    )
    seen += checkPage(column, header, { bytes: page, decompress })
    demand(seen <= expected, `more values than the ${expected} that the column should have`)
  }
  demand(seen === expected, `${seen} values where there should be ${expected}: the file is cut off or damaged`)
}

/** Reading Parquet files, through hyparquet. */
import {
  type ByteSource,
  describeIssues,
  errorMessage,
  FailureError,
  type FileFailure,
  type FormatFailure,
  lfsProblemOfBytes,
  optionalPackage,
  type PackageFailure,
  type RowFailure,
  type RowProblem,
  rowFailure,
  type Schema,
} from '@tandem-rl/base'
import { importPackage } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { FileMetaData, PageHeader, SchemaTree } from 'hyparquet'
import { ParquetProblem } from './parquetEncodings.js'
import {
  checkColumn,
  chunkRange,
  type Decompress,
  levelsOf,
  type PageReader,
  rowGroupRows,
  writtenBy,
} from './parquetGuard.js'
import { plainValue } from './parquetValues.js'

export type ParquetFailure = FormatFailure | FileFailure | PackageFailure

/** The description of a Parquet file, from its footer. */
export interface ParquetInfo {
  readonly rows: number
  /** Names of the columns, in order. */
  readonly columns: readonly string[]
  /** Key-value texts that the writer put into the footer. */
  readonly metadata: Readonly<Record<string, string>>
}

export interface ReadParquetOptions<T> {
  /** The schema of every row: a record with a field for each column that is read. */
  readonly schema: Schema<T>
  /** Columns to read. Default: all. */
  readonly columns?: readonly string[]
  /** The first row to read, counted from 0, and the row after the last. Default: all. */
  readonly range?: readonly [start: number, end: number]
  /**
   * The type of 64-bit integers: numbers, where an unsafe integer is a failure, or bigints. Default
   * 'number'.
   */
  readonly int64?: 'number' | 'bigint'
  /** The maximum number of rows. A file that claims more is refused. Default 2^26. */
  readonly maxRows?: number
  /** The maximum number of bytes of a page after decompression. Default 2^30. */
  readonly maxBytes?: number
}

interface Library {
  readonly main: typeof import('hyparquet')
  readonly pages: { readonly parquetHeader: (reader: { view: DataView; offset: number }) => PageHeader }
}

const loadLibrary: TE.TaskEither<PackageFailure, Library> = optionalPackage(
  'hyparquet',
  'reading Parquet',
  async () => ({
    main: await importPackage<Library['main']>('hyparquet', import.meta),
    pages: await importPackage<Library['pages']>('hyparquet/src/column.js', import.meta),
  }),
)

/** Codecs that hyparquet supports by itself. */
const BUILT_IN: readonly string[] = ['UNCOMPRESSED', 'SNAPPY']

const decompressor = ({ main }: Library, codecs: readonly string[]): TE.TaskEither<PackageFailure, Decompress> => {
  const snappy: Decompress = (_codec, bytes, length) => {
    const page = new Uint8Array(length)
    main.snappyUncompress(bytes, page)
    return page
  }
  if (codecs.every((codec) => BUILT_IN.includes(codec))) return TE.right(snappy)
  return pipe(
    optionalPackage(
      'hyparquet-compressors',
      `Parquet compressed with ${codecs.filter((codec) => !BUILT_IN.includes(codec)).join(' and ')}`,
      () => importPackage<typeof import('hyparquet-compressors')>('hyparquet-compressors', import.meta),
    ),
    TE.map(
      ({ compressors, decompressZstd }): Decompress =>
        (codec, bytes, length) => {
          if (codec === 'SNAPPY') return snappy(codec, bytes, length)
          if (codec === 'ZSTD') return decompressZstd(bytes, new Uint8Array(length)) // without the length, the frame determines the allocation
          const decompress = compressors[codec]
          if (decompress === undefined) throw new ParquetProblem(`compression ${codec} is not supported`)
          return decompress(bytes, length)
        },
    ),
  )
}

const bytesOf = async (source: ByteSource, start: number, end: number): Promise<Uint8Array> => {
  const bytes = await source.read(start, end)()
  if (E.isLeft(bytes)) throw new FailureError(bytes.left)
  return bytes.right
}

const fileOf = (source: ByteSource) => ({
  byteLength: source.size,
  slice: async (start: number, end: number = source.size): Promise<ArrayBuffer> => {
    const bytes = await bytesOf(source, start, end)
    return new Uint8Array(bytes).buffer // a copy: the buffer under the bytes may be larger
  },
})

/**
 * Describes an error. The library reads missing fields of a damaged footer; its TypeError does not
 * describe the file.
 */
const problemOf = (error: unknown): string => {
  if (error instanceof TypeError) return 'a part that must be there is missing'
  return errorMessage(error)
}

/**
 * Runs a read. Errors of the library and the guard become a failure of the file, with its writer if
 * the footer was read; failures of the source pass through.
 */
const attempt = <T>(
  source: ByteSource,
  run: () => Promise<T>,
  metadata?: FileMetaData,
): TE.TaskEither<FormatFailure | FileFailure, T> =>
  TE.tryCatch(run, (error) => {
    if (error instanceof FailureError && error.failure._tag === 'FileFailure') return error.failure as FileFailure // by its tag
    const what = metadata === undefined ? ' is not a Parquet file, or is damaged' : writtenBy(metadata)
    return { _tag: 'FormatFailure', format: 'Parquet', reason: `${source.name}${what}: ${problemOf(error)}` }
  })

interface Opened {
  readonly library: Library
  readonly metadata: FileMetaData
  readonly tree: SchemaTree
}

const leavesOf = (node: SchemaTree): readonly SchemaTree[] =>
  node.children.length === 0 ? [node] : node.children.flatMap(leavesOf)

const requireNames = (tree: SchemaTree): void => {
  const paths = leavesOf(tree).map(({ path }) => path)
  const joined = paths.map((path) => path.join('.'))
  const names = tree.children.map(({ element }) => element.name)
  const problems = [
    ...names.filter((name, i) => names.indexOf(name) !== i).map((name) => `two columns are named '${name}'`),
    ...joined.filter((name, i) => joined.indexOf(name) !== i).map((name) => `two fields are named '${name}'`),
    ...paths
      .filter((path) => path.slice(1).includes('__proto__'))
      .map((path) => `the field '${path.join('.')}' has a name that cannot be used`),
  ]
  if (problems.length > 0) throw new ParquetProblem(problems.join('; '))
}

const openParquet = (source: ByteSource): TE.TaskEither<ParquetFailure, Opened> =>
  pipe(
    loadLibrary,
    TE.chainW((library) =>
      attempt(source, async () => {
        const pointer = lfsProblemOfBytes(await bytesOf(source, 0, Math.min(8, source.size)))
        if (pointer !== undefined) throw new ParquetProblem(pointer)
        if (source.size < 12) throw new ParquetProblem(`it has ${source.size} bytes`)
        const metadata = await library.main.parquetMetadataAsync(fileOf(source), { geoparquet: false }) // its search is endless for a negative count of children
        const tree = library.main.parquetSchema(metadata)
        requireNames(tree)
        return { library, metadata, tree }
      }),
    ),
  )

/**
 * Reads the description of a Parquet file. Only its footer is read.
 *
 * Errors   `Left(FormatFailure)` for bytes that are not a Parquet file, `Left(FileFailure)` from
 *          the source, `Left(PackageFailure)` if hyparquet is not installed.
 * Effects  reads the source.
 */
export const parquetInfo = (source: ByteSource): TE.TaskEither<ParquetFailure, ParquetInfo> =>
  pipe(
    openParquet(source),
    TE.chainW(({ metadata, tree }) =>
      attempt(
        source,
        async () => ({
          rows: rowGroupRows(metadata, Number.MAX_SAFE_INTEGER).reduce((a, b) => a + b, 0),
          columns: tree.children.map(({ element }) => element.name),
          metadata: Object.fromEntries((metadata.key_value_metadata ?? []).map(({ key, value }) => [key, value ?? ''])),
        }),
        metadata,
      ),
    ),
  )

/** The selected part of a file. */
interface Selection {
  readonly columns: readonly string[]
  readonly start: number
  readonly end: number
}

const selectionOf = <T>({ tree }: Opened, rows: number, options: ReadParquetOptions<T>): Selection => {
  const known = tree.children.map(({ element }) => element.name)
  const { columns = known } = options
  const missing = columns.filter((name) => !known.includes(name))
  if (missing.length > 0)
    throw new ParquetProblem(`missing columns ${missing.join(', ')}; the columns are ${known.join(', ')}`)
  const [start, end] = options.range ?? [0, rows]
  if (![start, end].every(Number.isSafeInteger) || start < 0 || end < start || end > rows) {
    throw new ParquetProblem(`rows ${start} to ${end} are not among its ${rows}`)
  }
  return { columns, start, end }
}

interface Group {
  readonly index: number
  readonly first: number
  readonly rows: number
}

const checkGroup = async (
  source: ByteSource,
  { library, metadata, tree }: Opened,
  part: { readonly group: Group; readonly columns: readonly string[] } & Omit<PageReader, 'header'>,
): Promise<void> => {
  const { group, columns, ...pages } = part
  const leaves = leavesOf(tree)
  const chunks = metadata.row_groups[group.index]!.columns
  if (chunks.length !== leaves.length)
    throw new ParquetProblem(`row group ${group.index} has ${chunks.length} columns, the schema ${leaves.length}`)
  for (const [i, leaf] of leaves.entries()) {
    if (!columns.includes(leaf.path[0]!)) continue
    const { meta_data: meta, file_path: path } = chunks[i]!
    if (meta === undefined || path !== undefined)
      throw new ParquetProblem(`column ${leaf.path.join('.')} is encrypted or in another file`)
    if (meta.path_in_schema.join('.') !== leaf.path.join('.') || meta.type !== leaf.element.type) {
      throw new ParquetProblem(
        `column ${leaf.path.join('.')} is stored as ${meta.path_in_schema.join('.')}, ${meta.type}`,
      )
    }
    try {
      const [start, end] = chunkRange(meta, source.size)
      const column = {
        meta,
        levels: levelsOf(tree, leaf.path),
        bytes: await bytesOf(source, start, end),
        rows: group.rows,
      }
      checkColumn(column, { header: library.pages.parquetHeader, ...pages })
    } catch (error) {
      if (error instanceof FailureError) throw error
      throw new ParquetProblem(`column ${leaf.path.join('.')}, row group ${group.index}: ${errorMessage(error)}`)
    }
  }
}

const readGroup = async (
  source: ByteSource,
  { library, metadata }: Opened,
  part: Selection & { readonly decompress: Decompress },
): Promise<readonly (readonly unknown[])[]> => {
  const { columns, start, end, decompress } = part
  const compressors = Object.fromEntries(
    (['SNAPPY', 'GZIP', 'BROTLI', 'ZSTD', 'LZ4', 'LZ4_RAW'] as const).map((codec) => [
      codec,
      (bytes: Uint8Array, length: number) => decompress(codec, bytes, length),
    ]),
  )
  let rows: readonly (readonly unknown[])[] = []
  await library.main.parquetRead({
    file: fileOf(source),
    metadata,
    columns: [...columns],
    rowStart: start,
    rowEnd: end,
    compressors,
    utf8: false,
    geoparquet: false,
    onComplete: (found) => {
      rows = found
    },
  })
  if (rows.length !== end - start)
    throw new ParquetProblem(`${rows.length} rows were found where there should be ${end - start}`)
  return rows
}

const parseRow = <T>(
  values: readonly unknown[],
  columns: readonly string[],
  { schema, int64 = 'number' }: ReadParquetOptions<T>,
): E.Either<string, T> => {
  const fields: [string, unknown][] = []
  for (const [i, name] of columns.entries()) {
    const value = plainValue(values[i], int64, name)
    if (E.isLeft(value)) return value
    fields.push([name, value.right])
  }
  const row = Object.fromEntries(fields)
  const parsed = schema.safeParse(row)
  return parsed.success ? E.right(parsed.data) : E.left(describeIssues(parsed.error, row))
}

/** The number of bad rows after which reading stops. */
const MOST_PROBLEMS = 100

const readRows = async <T>(
  source: ByteSource,
  opened: Opened,
  options: ReadParquetOptions<T> & { readonly decompress: Decompress },
): Promise<E.Either<RowFailure, readonly T[]>> => {
  const sizes = rowGroupRows(opened.metadata, options.maxRows ?? 2 ** 26)
  const { decompress, maxBytes = 2 ** 30 } = options
  const { columns, start, end } = selectionOf(
    opened,
    sizes.reduce((a, b) => a + b, 0),
    options,
  )
  const rows: T[] = []
  const problems: RowProblem[] = []
  let first = 0
  for (const [index, size] of sizes.entries()) {
    const from = Math.max(start, first)
    const to = Math.min(end, first + size)
    if (from < to && problems.length < MOST_PROBLEMS) {
      await checkGroup(source, opened, { group: { index, first, rows: size }, columns, decompress, maxBytes })
      for (const [i, values] of (
        await readGroup(source, opened, { columns, start: from, end: to, decompress })
      ).entries()) {
        const row = parseRow(values, columns, options)
        if (E.isRight(row)) rows.push(row.right)
        else if (problems.length < MOST_PROBLEMS) problems.push({ row: from + i + 1, reason: row.left })
      }
    }
    first += size
  }
  const [worst, ...others] = problems
  return worst === undefined ? E.right(rows) : E.left(rowFailure(source.name, { first: worst, others, unit: 'row' }))
}

/**
 * Reads the rows of a Parquet file: records with a field for each column, transformed by the
 * schema.
 *
 * Missing values are null. 64-bit integers are numbers unless bigints are requested. Lists are
 * arrays, structs are records, byte columns that are not marked as text are Uint8Arrays, dates and
 * timestamps are Dates. Snappy needs nothing else; gzip, zstd, brotli and LZ4 need the package
 * hyparquet-compressors.
 *
 * Errors   `Left(FormatFailure)` for bytes that are not a Parquet file, are truncated or damaged,
 *          and for missing columns or rows; `Left(RowFailure)`, with row numbers, for rows that the
 *          schema refuses; `Left(FileFailure)` from the source; `Left(PackageFailure)` naming the
 *          package to install.
 * Effects  reads the source: the footer and the selected columns, row group by row group.
 * Cost     pages are decompressed twice, once to check their counts, so a damaged file neither
 *          loops nor allocates more than it holds.
 */
export const readParquet = <T>(
  source: ByteSource,
  options: ReadParquetOptions<T>,
): TE.TaskEither<ParquetFailure | RowFailure, readonly T[]> =>
  pipe(
    openParquet(source),
    TE.bindTo('opened'),
    TE.bindW('codecs', ({ opened }) =>
      attempt(
        source,
        async () => [
          ...new Set(
            opened.metadata.row_groups.flatMap(({ columns }) =>
              columns.map(({ meta_data }) => meta_data?.codec ?? 'UNCOMPRESSED'),
            ),
          ),
        ],
        opened.metadata,
      ),
    ),
    TE.bindW('decompress', ({ opened, codecs }) => decompressor(opened.library, codecs)),
    TE.chainW(({ opened, decompress }) =>
      attempt(source, () => readRows(source, opened, { ...options, decompress }), opened.metadata),
    ),
    TE.chainEitherKW((rows) => rows),
  )

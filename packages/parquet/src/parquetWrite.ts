/** Writing Parquet files, through hyparquet-writer. */
import { optionalPackage, type PackageFailure } from '@tandem-rl/base'
import { importPackage } from '@tandem-rl/base/host'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type ParquetType, schemaElements, toTyped, typeProblems } from './parquetTypes.js'

/** A column, with one value for every row. */
export interface ParquetColumn {
  readonly name: string
  readonly type: ParquetType
  readonly values: readonly unknown[]
}

export interface EncodeParquetOptions {
  /** Default 'snappy'. */
  readonly codec?: 'snappy' | 'uncompressed'
  /** Key-value texts for the footer of the file. */
  readonly metadata?: Readonly<Record<string, string>>
  /** The number of rows in a row group, the unit of reading. Default 10,000. */
  readonly rowsPerGroup?: number
}

/** The maximum number of problems in an error. */
const LISTED = 20

const requireColumns = (columns: readonly ParquetColumn[], rowsPerGroup: number): void => {
  const names = columns.map(({ name }) => name)
  const repeated = names.filter((name, i) => names.indexOf(name) !== i)
  const rows = columns[0]?.values.length ?? 0
  const problems = [
    ...(columns.length === 0 ? ['no columns'] : []),
    ...repeated.map((name) => `two columns are named '${name}'`),
    ...columns
      .filter(({ values }) => values.length !== rows)
      .map(({ name, values }) => `'${name}' has ${values.length} values, the first column ${rows}`),
    ...columns.flatMap(({ name, type }) => typeProblems(type, name)),
    ...(Number.isSafeInteger(rowsPerGroup) && rowsPerGroup > 0
      ? []
      : [`rowsPerGroup must be a positive integer, got ${rowsPerGroup}`]),
  ]
  if (problems.length > 0) throw new RangeError(`encodeParquet: ${problems.join('; ')}`)
}

/**
 * Encodes columns as a Parquet file.
 *
 * Numbers are stored exactly: a value that does not fit its type, such as 2^31 in `int32`, 0.1 in
 * `float32` or a fraction in `int64`, is an error. `int64` accepts safe integers and bigints.
 * Strings must be well-formed.
 *
 * Errors   `Left(PackageFailure)` if hyparquet-writer is not installed. Throws RangeError, listing
 *          all problems (the first 20 values), for columns of different lengths, equal names or
 *          values that do not fit.
 * Effects  loads the package, and nothing else.
 */
export const encodeParquet = (
  columns: readonly ParquetColumn[],
  options: EncodeParquetOptions = {},
): TE.TaskEither<PackageFailure, Uint8Array> => {
  const { codec = 'snappy', metadata = {}, rowsPerGroup = 10_000 } = options
  requireColumns(columns, rowsPerGroup)
  const problems: string[] = []
  const columnData = columns.map(({ name, type, values }) => ({
    name,
    data: values.map((value, row) => {
      const typed = toTyped(value, type, `${name}, row ${row + 1}`)
      if (typed.problems.length > 0) problems.push(...typed.problems)
      return typed.value
    }),
  }))
  if (problems.length > 0) {
    const more = problems.length > LISTED ? `; and ${problems.length - LISTED} more` : ''
    throw new RangeError(`encodeParquet: ${problems.slice(0, LISTED).join('; ')}${more}`)
  }
  return pipe(
    optionalPackage('hyparquet-writer', 'writing Parquet', () =>
      importPackage<typeof import('hyparquet-writer')>('hyparquet-writer', import.meta),
    ),
    TE.map(
      ({ parquetWriteBuffer }) =>
        new Uint8Array(
          parquetWriteBuffer({
            columnData,
            schema: [
              { name: 'schema', num_children: columns.length },
              ...columns.flatMap(({ name, type }) => schemaElements(name, type)),
            ],
            codec: codec === 'snappy' ? 'SNAPPY' : 'UNCOMPRESSED',
            kvMetadata: Object.entries(metadata).map(([key, value]) => ({ key, value })),
            rowGroupSize: rowsPerGroup,
            createdBy: 'tandem-rl',
          }),
        ),
    ),
  )
}

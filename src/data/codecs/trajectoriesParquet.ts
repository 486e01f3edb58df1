/**
 * Batches of trajectories as Parquet: a column for each leaf, named by its path
 * (`tokens.response`), readable by pandas and pyarrow.
 *
 * Numbers keep their types; ragged rows are lists; tensors with axes after the batch axes, and
 * leaves of nodes with a batch shape of their own, are flat lists in row-major order; data is text
 * if all of it is text, and otherwise JSON as in `encodeValue`. The schema is in the footer under
 * `tandem`.
 */
import {
  type ByteSource,
  type FormatFailure,
  type Json,
  type PackageFailure,
  parseJson,
  type RowFailure,
  rowFailure,
} from '@tandem-rl/base'
import {
  type EncodeParquetOptions,
  encodeParquet,
  type ParquetColumn,
  type ParquetFailure,
  type ParquetType,
  parquetInfo,
  readParquet,
} from '@tandem-rl/parquet'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { leafEntries } from '../tensorDict/leaves.js'
import { type TensorDict, TensorDictError } from '../tensorDict/tensorDict.js'
import { type FlatElements, flatElements, leafOf, parseFlat } from './trajectoryElements.js'
import {
  buildTensorDict,
  headerOf,
  type NodeSchema,
  parseTrajectoryHeader,
  type SchemaLeaf,
  schemaLeaves,
  schemaOf,
} from './trajectorySchema.js'

const FOOTER = 'tandem'

/** The format of a leaf in its column: plain values, or JSON. */
type Storage = 'plain' | 'json'

const columnsSchema = z.array(z.strictObject({ name: z.string(), storage: z.enum(['plain', 'json']) }))

/**
 * Returns the column names: paths joined by dots, with a number appended to duplicates. Column
 * names are not unique keys; the footer has the paths.
 */
const columnNames = (leaves: readonly SchemaLeaf[]): readonly string[] => {
  const taken = new Set<string>()
  return leaves.map(({ path }) => {
    const joined = path.join('.').replaceAll(/\p{Surrogate}/gu, '\ufffd')
    let name = joined
    for (let n = 2; taken.has(name); n++) name = `${joined} (${n})`
    taken.add(name)
    return name
  })
}

const elementType = ({ schema }: SchemaLeaf, storage: Storage): ParquetType => {
  if (storage === 'json') return 'string'
  switch (schema.kind) {
    case 'tensor':
      return schema.dtype
    case 'ragged':
      return { list: schema.dtype }
    case 'strings':
    case 'data':
      return 'string'
  }
}

/** Returns true if an element of the leaf is a single value, not a list of values. */
const isSingle = ({ schema, batchShape }: SchemaLeaf): boolean =>
  batchShape.length === 1 && !('shape' in schema && schema.shape.length > 0)

const isText = (value: unknown): boolean => typeof value === 'string' && !/\p{Surrogate}/u.test(value)

const columnOf = (
  name: string,
  place: SchemaLeaf,
  elements: readonly FlatElements[],
): ParquetColumn & { readonly storage: Storage } => {
  const { kind } = place.schema
  const isWords = kind === 'data' || kind === 'strings'
  const storage = isWords && !elements.every((flat) => flat.every(isText)) ? 'json' : 'plain'
  const stored = (flat: FlatElements): readonly unknown[] =>
    storage === 'json' ? flat.map((value) => JSON.stringify(value)) : flat
  const type = elementType(place, storage)
  return isSingle(place)
    ? { name, storage, type, values: elements.map((flat) => stored(flat)[0]) }
    : { name, storage, type: { list: type }, values: elements.map(stored) }
}

/**
 * Encodes a batch as a Parquet file. `decodeTrajectoriesParquet` reads it back equal in every bit.
 *
 * Errors   `Left(PackageFailure)` if hyparquet-writer is not installed. Throws TensorDictError as
 *          `encodeTrajectories` does.
 * Effects  reads the tensors, which computes them.
 */
export const encodeTrajectoriesParquet = (
  td: TensorDict,
  options: Pick<EncodeParquetOptions, 'codec' | 'rowsPerGroup'> = {},
): TE.TaskEither<PackageFailure, Uint8Array> => {
  const operation = 'encodeTrajectoriesParquet'
  const schema = schemaOf(td, operation)
  const places = schemaLeaves(schema)
  const leaves = new Map(leafEntries(td).map(([path, leaf]) => [JSON.stringify(path), leaf]))
  const found = places.map((place) => flatElements(leaves.get(JSON.stringify(place.path))!, place))
  const problems = found.flatMap((each) => each.problems)
  if (problems.length > 0) throw new TensorDictError(operation, [], { problems })
  const names = columnNames(places)
  const columns = places.map((place, i) => columnOf(names[i]!, place, found[i]!.elements))
  const footer: Json = { schema: headerOf(schema), columns: columns.map(({ name, storage }) => ({ name, storage })) }
  const size = td.batchShape[0]!
  // Without a column, a table has no rows.
  const rows: ParquetColumn = { name: 'element', type: 'int32', values: Array.from({ length: size }, (_, i) => i) }
  return encodeParquet(
    columns.length > 0 ? columns.map(({ name, type, values }) => ({ name, type, values })) : [rows],
    {
      ...options,
      metadata: { [FOOTER]: JSON.stringify(footer) },
    },
  )
}

interface Footer {
  readonly schema: NodeSchema
  readonly columns: readonly { readonly name: string; readonly storage: Storage }[]
}

const fail = (reason: string): E.Either<FormatFailure, never> =>
  E.left({ _tag: 'FormatFailure', format: 'trajectories', reason })

const parseFooter = (name: string, text: string | undefined): E.Either<FormatFailure, Footer> => {
  if (text === undefined) return fail(`${name} has no trajectories: its footer has no '${FOOTER}'`)
  const json = parseJson(text)
  const parsed = z
    .strictObject({ schema: z.unknown(), columns: columnsSchema })
    .safeParse(E.isRight(json) ? json.right : undefined)
  if (!parsed.success) return fail(`${name}: the '${FOOTER}' of its footer is damaged`)
  return pipe(
    parseTrajectoryHeader(parsed.data.schema),
    E.chain((schema) => {
      const count = schemaLeaves(schema).length
      const { columns } = parsed.data
      return columns.length === count
        ? E.right({ schema, columns })
        : fail(`${name}: ${columns.length} columns for ${count} leaves`)
    }),
  )
}

/** Reads the flat values of one element from a cell. */
const parseCell = (cell: unknown, place: SchemaLeaf, storage: Storage): E.Either<string, readonly unknown[]> => {
  const items = isSingle(place) ? [cell] : cell
  if (!Array.isArray(items)) return E.left('not a list')
  if (storage === 'plain') return parseFlat(items, place)
  const texts = E.traverseArray((item: unknown) => parseJson(String(item)))(items)
  return E.isLeft(texts) ? texts : parseFlat(texts.right, place)
}

const batchOf = (
  source: ByteSource,
  { schema, columns }: Footer,
  rows: readonly Readonly<Record<string, unknown>>[],
): E.Either<FormatFailure | RowFailure, Owned<TensorDict>> => {
  const size = schema.batchShape[0]!
  if (rows.length !== size) return fail(`${source.name}: ${rows.length} rows where the footer declares ${size}`)
  const leaves = new Map<string, { readonly place: SchemaLeaf; readonly flat: unknown[] }>()
  for (const [i, place] of schemaLeaves(schema).entries()) {
    const { name, storage } = columns[i]!
    const flat: unknown[] = []
    for (const [row, cells] of rows.entries()) {
      const parsed = parseCell(cells[name], place, storage)
      if (E.isLeft(parsed))
        return E.left(
          rowFailure(source.name, { first: { row: row + 1, reason: `${name}: ${parsed.left}` }, unit: 'row' }),
        )
      for (const item of parsed.right) flat.push(item)
    }
    leaves.set(JSON.stringify(place.path), { place, flat })
  }
  return scope((): E.Either<FormatFailure, Owned<TensorDict>> => {
    const leafAt = (path: readonly string[]) => {
      const { place, flat } = leaves.get(JSON.stringify(path))! // the leaves are those of the schema
      return leafOf(flat, place, size)
    }
    return pipe(
      buildTensorDict(schema, { size, leafAt }),
      E.map((td) => own(td)),
    )
  })
}

/**
 * Reads the batch in a Parquet file from `encodeTrajectoriesParquet`.
 *
 * Errors   `Left(FormatFailure)` for a file that is damaged or has no trajectories,
 *          `Left(RowFailure)` naming row and column, `Left(FileFailure)` from the source,
 *          `Left(PackageFailure)` naming the package to install.
 * Effects  reads the source. The batch is `Owned`: release it.
 */
export const decodeTrajectoriesParquet = (
  source: ByteSource,
): TE.TaskEither<ParquetFailure | RowFailure, Owned<TensorDict>> =>
  pipe(
    parquetInfo(source),
    TE.chainEitherKW(({ metadata }) => parseFooter(source.name, metadata[FOOTER])),
    TE.bindTo('footer'),
    TE.bindW('rows', ({ footer }) =>
      readParquet(source, {
        schema: z.custom<Readonly<Record<string, unknown>>>(),
        ...(footer.columns.length > 0 && { columns: footer.columns.map(({ name }) => name) }),
      }),
    ),
    TE.chainEitherKW(({ footer, rows }) => batchOf(source, footer, rows)),
  )

/** Batches of data set rows, for runs that train without sampling. */
import {
  checkOptions,
  describe,
  type Failure,
  formatKey,
  type Json,
  type Key,
  orThrow,
  type RowFailure,
  refuse,
  rowFailure,
} from '@tandem-rl/base'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { rowsDigest } from '../../data/inputs.js'
import { type IdentifiedRows, type RowSource, shuffled } from '../../data/task.js'
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import { HELD_OUT } from '../metrics/evaluation.js'
import { ROW_BATCHES_OPTIONS, SPLIT_ROWS_OPTIONS } from '../optionKinds.js'
import { indicesWithoutShared } from './sharedTasks.js'
import type { BatchSource } from './source.js'

export interface RowBatchOptions<Row, B> {
  /** A name for run folders and messages. */
  readonly name: string
  /**
   * Rows of the data set. Run folders store a digest of their JSON, so resuming requires equal
   * rows.
   */
  readonly rows: readonly Row[] | RowSource<Row>
  /**
   * Source of the rows for failures: a file, and the number of a row in it, counted from 1, by its
   * index. Default: `name`, and the index plus 1.
   */
  readonly origin?: { readonly source: string; readonly rowNumber: (index: number) => number }
  /** Number of rows per batch. */
  readonly size: number
  /** Random key of the order, which differs in every epoch. Default: rows are not shuffled. */
  readonly key?: Key
  /** Converts rows into a batch, such as `chatBatch(model.text)`. */
  readonly batch: (rows: readonly Row[]) => E.Either<Failure, TensorDict<B>>
}

/** Batches of rows, for the `data` of a run or for an evaluator. */
export interface RowBatches<out B> extends BatchSource<B> {
  readonly name: string
  /** Number of rows. */
  readonly rows: number | 'endless'
  /** The rows, each with its number as id. */
  readonly tasks: IdentifiedRows
  /**
   * Yields every row once, in order. The last batch may be smaller. Throws FailureError if rows
   * cannot be converted into a batch.
   */
  readonly once: () => Generator<Owned<TensorDict<B>>>
}

const NAME = 'rowBatches'

const listed = <Row>(name: string, rows: readonly Row[]): RowSource<Row> => ({
  name,
  size: rows.length,
  at: (index) => E.right(rows[index % rows.length]!),
})

const rowProblem = (
  { source, rowNumber }: NonNullable<RowBatchOptions<unknown, unknown>['origin']>,
  index: number,
  reason: string,
): RowFailure => rowFailure(source, { first: { row: rowNumber(index), reason }, unit: 'row' })

const positionSchema = z.strictObject({ row: z.number().int().nonnegative() })

/** Parses a stored position. Throws FailureError if another kind of source wrote it. */
const rowOf = (position: Json | null): number => {
  if (position === null) return 0
  const parsed = positionSchema.safeParse(position)
  const reason = `the checkpoint's position is not that of rows: ${parsed.error && z.prettifyError(parsed.error)}`
  return orThrow(parsed.success ? E.right(parsed.data.row) : E.left({ _tag: 'PositionFailure', reason }))
}

/**
 * Makes batches of the rows of a data set.
 *
 * All batches have `size` rows: the last batch of an epoch is filled with the first rows of the
 * next. The position is the number of the next row, so a resumed run continues with the same batch.
 * The description includes a digest of the rows, so a run folder cannot be resumed with other rows.
 *
 * Errors   throws RangeError if the data set has no rows or the size is not a positive integer.
 *          `collect` returns `Left` if the source rejects a row, and `Left(RowFailure)` with the
 *          row's number in `origin` if `batch` rejects one.
 * Cost     reads every row once, for the digest.
 * Source   TorchRL's `TensorDictReplayBuffer` with `SamplerWithoutReplacement`.
 *
 * @example
 * const numbers = rowBatches({ name: 'numbers', rows: [1, 2, 3], size: 2, batch: (rows) => right(TensorDict({ n: data(rows) }, [rows.length])) })
 * numbers.rows // 3
 */
export const rowBatches = <Row, B>(options: RowBatchOptions<Row, B>): RowBatches<B> => {
  checkOptions(NAME, options, ROW_BATCHES_OPTIONS)
  const { name, rows, size, key, batch, origin = { source: name, rowNumber: (index) => index + 1 } } = options
  const source =
    'at' in rows && typeof rows.at === 'function' && 'name' in rows ? rows : listed(name, rows as readonly Row[]) // lists have no name
  refuse(NAME, [
    source.size === 0 && `${name} has no rows`,
    !(Number.isInteger(size) && size >= 1) && `size must be a positive integer, got ${size}`,
  ])
  const places: RowSource<number> = {
    name,
    size: source.size,
    at: (index) => E.right(source.size === 'endless' ? index : index % source.size),
  }
  const ordered = key === undefined ? places : shuffled(places, key)
  /** Names the first row that makes no batch even alone. */
  const named = (failure: Failure, found: readonly Row[], indices: readonly number[]): Failure => {
    for (const [i, row] of found.entries()) {
      const alone = scope(() => pipe(batch([row]), E.map(own<TensorDict<B>>)))
      if (E.isLeft(alone)) return rowProblem(origin, indices[i]!, describe(alone.left))
      alone.right.release()
    }
    return failure
  }
  const batchAt = (from: RowSource<number>, start: number, count: number): E.Either<Failure, Owned<TensorDict<B>>> =>
    pipe(
      Array.from({ length: count }, (_, i) => start + i),
      E.traverseArray((index) => from.at(index)),
      E.bindTo('indices'),
      E.bindW('found', ({ indices }) => pipe(indices, E.traverseArray(source.at))),
      E.chainW(({ indices, found }) =>
        pipe(
          scope(() => pipe(batch(found), E.map(own<TensorDict<B>>))),
          E.mapLeft((failure) => named(failure, found, indices)),
        ),
      ),
    )
  const digest = rowsDigest(source)
  return {
    name,
    rows: source.size,
    ...(digest !== null && { inputs: () => ({ [`rows of ${name}`]: digest }) }),
    tasks: {
      name,
      size: source.size,
      at: (index) =>
        pipe(
          source.at(index),
          E.map((row) => ({ id: `row ${origin.rowNumber(index)}`, row })),
        ),
    },
    description: {
      source: NAME,
      data: name,
      rows: source.size,
      rowsDigest: digest,
      size,
      order: key === undefined ? null : formatKey(key),
    },
    kl: null,
    open: async ({ position, push }) => ({
      position: { row: rowOf(position) },
      collect: (at) => {
        const row = rowOf(at.position)
        return pipe(
          TE.fromEither(batchAt(ordered, row, size)),
          TE.map((made) => ({ batch: made, position: { row: row + size }, sampling: null, overlap: null })),
        )
      },
      trained: push,
      close: async () => undefined,
    }),
    once: function* () {
      if (source.size === 'endless') throw new RangeError(`${NAME}: ${name} is endless: it has no last row`)
      for (let start = 0; start < source.size; start += size)
        yield orThrow(batchAt(places, start, Math.min(size, source.size - start)))
    },
    close: async () => undefined,
  }
}

/** Most rows that are held out by default. */
const MOST_HELD_OUT = 128

export interface SplitRowsOptions<Row, B> extends Pick<RowBatchOptions<Row, B>, 'size' | 'batch'> {
  readonly rows: readonly Row[]
  /** The file of the rows, for failures. */
  readonly source: string
  /**
   * Number of rows held out for evaluation: the first ones, without those that also occur among the
   * others. Default: a tenth, at most 128.
   */
  readonly heldOut?: number
  /** Random key of the order of the training rows. */
  readonly key: Key
}

/**
 * Makes batches for evaluation from the first rows of a data set, in order, and shuffled batches
 * for training from the others. Failures name a row by its number in the data set.
 *
 * Errors   as `rowBatches`. Throws RangeError if a part has no rows.
 * Source   Hugging Face Datasets `train_test_split`, with the first rows as the test part.
 *
 * @example
 * const batch = (rows: readonly number[]) => right(TensorDict({ n: data(rows) }, [rows.length]))
 * const parts = splitRows({ rows: [1, 2, 3], source: 'numbers', heldOut: 1, size: 2, key: keyFromSeed(1), batch })
 * [parts.train.rows, parts.heldOut.rows] // [2, 1]
 */
export const splitRows = <Row, B>(
  options: SplitRowsOptions<Row, B>,
): { readonly train: RowBatches<B>; readonly heldOut: RowBatches<B> } => {
  checkOptions('splitRows', options, SPLIT_ROWS_OPTIONS)
  const { rows, source, size, key, batch } = options
  const { heldOut = Math.min(MOST_HELD_OUT, Math.max(1, Math.floor(rows.length / 10))) } = options
  refuse('splitRows', [
    rows.length <= heldOut &&
      `no rows are left for training: ${source} has ${rows.length}, and the first ${heldOut} are held out. Lower heldOut or add rows`,
  ])
  const [first, others] = [rows.slice(0, heldOut), rows.slice(heldOut)]
  const own = indicesWithoutShared(first, others)
  refuse('splitRows', [
    own.length === 0 &&
      `no rows are left for evaluation: the first ${heldOut} of ${source} also occur among the others`,
  ])
  return {
    train: rowBatches({
      name: 'train',
      rows: others,
      size,
      key,
      batch,
      origin: { source, rowNumber: (index) => 1 + heldOut + index },
    }),
    heldOut: rowBatches({
      name: HELD_OUT,
      rows: own.map((index) => first[index]!),
      size,
      batch,
      origin: { source, rowNumber: (index) => 1 + own[index]! },
    }),
  }
}

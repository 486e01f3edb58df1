/** The four kinds of leaves of a TensorDict. The kind of a value never depends on its contents. */
import * as tf from '@tensorflow/tfjs-core'
import { List } from 'immutable'

export type RaggedType = 'int32' | 'float32' | 'bool'

/** The array type for the numbers of a dtype. */
export type RaggedArray<T extends RaggedType = RaggedType> = T extends 'float32'
  ? Float32Array
  : T extends 'int32'
    ? Int32Array
    : Uint8Array

/**
 * One row of numbers for each batch element, each of its own length: row i is `values[offsets[i]]
 * .. values[offsets[i + 1] - 1]`.
 */
export interface Ragged<out T extends RaggedType = RaggedType> {
  readonly _tag: 'Ragged'
  readonly type: T
  readonly values: ArrayLike<number>
  readonly offsets: ArrayLike<number>
}

/** One JavaScript value for each batch element. */
export interface Data<out T = unknown> {
  readonly _tag: 'Data'
  readonly items: List<T>
}

/** One JavaScript value for the whole node, whatever its batch shape. */
export interface Meta<out T = unknown> {
  readonly _tag: 'Meta'
  readonly value: T
}

/** A leaf. The leading axes of a tensor are the batch shape. */
export type Leaf = tf.Tensor | Ragged | Data | Meta

const allocate = (type: RaggedType, length: number): RaggedArray => {
  switch (type) {
    case 'float32':
      return new Float32Array(length)
    case 'int32':
      return new Int32Array(length)
    case 'bool':
      return new Uint8Array(length)
  }
}

/**
 * Creates ragged rows from lists of numbers of any lengths. The rows are copied.
 *
 * @example
 * raggedRows(ragged('int32', [[1, 2], [], [3]])) // [[1, 2], [], [3]]
 */
export const ragged = <T extends RaggedType>(type: T, rows: readonly ArrayLike<number>[]): Ragged<T> => {
  const offsets = new Int32Array(rows.length + 1)
  for (const [i, row] of rows.entries()) offsets[i + 1] = offsets[i]! + row.length
  const values = allocate(type, offsets[rows.length]!)
  for (const [i, row] of rows.entries()) values.set(row, offsets[i]!)
  return { _tag: 'Ragged', type, values, offsets }
}

/**
 * Wraps arrays that are known to fit together and that no other code changes. Internal to this
 * folder.
 */
export const raggedOf = <T extends RaggedType>(
  type: T,
  values: ArrayLike<number>,
  offsets: ArrayLike<number>,
): Ragged<T> => ({ _tag: 'Ragged', type, values, offsets })

const ARRAYS = { float32: Float32Array, int32: Int32Array, bool: Uint8Array } as const

/**
 * Returns the values of all rows in the array of their type: the leaf's own array if it has that
 * type. Read only.
 */
export const raggedArray = (rows: Ragged): RaggedArray => {
  const { type, values } = rows
  return values instanceof ARRAYS[type] ? values : ARRAYS[type].from(values)
}

/** Returns the number of rows. */
export const raggedLength = (rows: Ragged): number => rows.offsets.length - 1

/** Returns row `i` as a new array. Errors: throws RangeError if `i` is out of range. */
export const raggedRow = <T extends RaggedType>(rows: Ragged<T>, i: number): RaggedArray<T> => {
  const [start, end] = [rows.offsets[i], rows.offsets[i + 1]]
  if (start === undefined || end === undefined) {
    throw new RangeError(`raggedRow: no row ${i} among ${raggedLength(rows)}`)
  }
  const row = allocate(rows.type, end - start)
  for (let j = start; j < end; j++) row[j - start] = rows.values[j]!
  return row as RaggedArray<T> // `allocate` creates the array of the type
}

/** Returns all rows as plain lists. */
export const raggedRows = (rows: Ragged): readonly (readonly number[])[] =>
  Array.from({ length: raggedLength(rows) }, (_, i) => Array.from(raggedRow(rows, i)))

/** Returns the length of each row. */
export const rowLengths = (rows: Ragged): readonly number[] =>
  Array.from({ length: raggedLength(rows) }, (_, i) => rows.offsets[i + 1]! - rows.offsets[i]!)

/**
 * Appends the rows of the second to those of the first, pairwise. Errors: throws RangeError if
 * types or numbers of rows differ.
 */
export const joinRows = <T extends RaggedType>(first: Ragged<T>, second: Ragged<NoInfer<T>>): Ragged<T> => {
  if (first.type !== second.type || raggedLength(first) !== raggedLength(second)) {
    throw new RangeError(
      `joinRows: ${raggedLength(first)} rows of ${first.type} cannot be joined with ${raggedLength(second)} of ${second.type}`,
    )
  }
  const [a, b] = [raggedArray(first), raggedArray(second)]
  const offsets = new Int32Array(first.offsets.length)
  for (let i = 0; i < offsets.length; i++) {
    offsets[i] = first.offsets[i]! - first.offsets[0]! + second.offsets[i]! - second.offsets[0]!
  }
  const values = allocate(first.type, offsets.at(-1)!)
  for (let i = 0; i + 1 < offsets.length; i++) {
    const row = a.subarray(first.offsets[i], first.offsets[i + 1])
    values.set(row, offsets[i])
    values.set(b.subarray(second.offsets[i], second.offsets[i + 1]), offsets[i]! + row.length)
  }
  return raggedOf(first.type, values, offsets)
}

/**
 * Creates rows with the lengths of other rows, filled with one value.
 *
 * @example
 * raggedRows(filledRows(ragged('int32', [[7, 8], [9]]), 'bool', 1)) // [[1, 1], [1]]
 */
export const filledRows = <T extends RaggedType>(rows: Ragged, type: T, value: number): Ragged<T> => {
  const first = rows.offsets[0]!
  const offsets = Int32Array.from(rows.offsets, (offset) => offset - first)
  return raggedOf(type, allocate(type, offsets.at(-1)!).fill(value), offsets)
}

/**
 * Returns true if a number is a value of a dtype: any number for float32, an integer for int32, 0
 * or 1 for bool, and none for other dtypes.
 */
export const isValueOf = (type: tf.DataType, value: number): boolean => {
  switch (type) {
    case 'float32':
      return true
    case 'int32':
      return (value | 0) === value
    case 'bool':
      return value === 0 || value === 1
    default:
      return false
  }
}

/**
 * Pads rows to one length: `width`, or the longest row's. Short rows are filled on one side.
 *
 * Errors   throws RangeError if a row is longer than `width`, or if `value` is not a value of the
 *          rows' type.
 *
 * @example
 * padRows(ragged('int32', [[1], [2, 3]]), { side: 'left', value: 0 }).values // [0, 1, 2, 3]
 */
export const padRows = <T extends RaggedType>(
  rows: Ragged<T>,
  options: { readonly side: 'left' | 'right'; readonly value: number; readonly width?: number },
): { readonly values: RaggedArray<T>; readonly width: number } => {
  const lengths = rowLengths(rows)
  const longest = lengths.reduce((n, m) => Math.max(n, m), 0)
  const { side, value, width = longest } = options
  if (!isValueOf(rows.type, value)) throw new RangeError(`padRows: ${value} is not a value of ${rows.type}`)
  if (longest > width) throw new RangeError(`padRows: a row has ${longest} elements, more than the width ${width}`)
  const values = allocate(rows.type, lengths.length * width).fill(value)
  const source = raggedArray(rows)
  for (const [i, length] of lengths.entries()) {
    const row = source.subarray(rows.offsets[i]!, rows.offsets[i + 1]!)
    values.set(row, i * width + (side === 'left' ? width - length : 0))
  }
  return { values: values as RaggedArray<T>, width } // `allocate` creates the array of the type
}

/** Ragged rows as a tensor of one width, with a mask of the elements that are in a row. */
export interface PaddedRows {
  /** `[rows, width]`, of the rows' type. */
  readonly values: tf.Tensor2D
  /** bool `[rows, width]`: true for elements of a row, false for padding. */
  readonly mask: tf.Tensor2D
  readonly lengths: readonly number[]
  readonly side: 'left' | 'right'
}

/**
 * Converts rows to a tensor, filled on one side to `width` or to the longest row. `fromPadded` is
 * the inverse.
 *
 * Errors   throws RangeError as `padRows` does.
 * Effects  creates two tensors that belong to the enclosing scope.
 *
 * @example
 * toPadded(ragged('int32', [[1], [2, 3]]), { side: 'left', value: 0 }).lengths // [1, 2]
 */
export const toPadded = (
  rows: Ragged,
  options: { readonly side: 'left' | 'right'; readonly value: number; readonly width?: number },
): PaddedRows => {
  const { values, width } = padRows(rows, options)
  const lengths = rowLengths(rows)
  const { side } = options
  const inside = lengths.flatMap((length) =>
    Array.from({ length: width }, (_, t) => (side === 'left' ? t >= width - length : t < length)),
  )
  const shape: [number, number] = [lengths.length, width]
  return { values: tf.tensor2d(values, shape, rows.type), mask: tf.tensor2d(inside, shape, 'bool'), lengths, side }
}

/**
 * Converts a padded tensor back to rows.
 *
 * Shapes   `[rows, width]` with one length for each row.
 * Errors   throws RangeError unless there is one length for each row, all in 0 .. width, and the
 *          dtype is one of ragged rows.
 * Effects  reads the tensor, which computes it.
 *
 * @example
 * raggedRows(fromPadded(toPadded(ragged('int32', [[1], [2, 3]]), { side: 'left', value: 0 }))) // [[1], [2, 3]]
 */
export const fromPadded = ({ values, lengths, side }: Pick<PaddedRows, 'values' | 'lengths' | 'side'>): Ragged => {
  const [rows, width] = values.shape
  const { dtype } = values
  const wrong = lengths.filter((length) => !Number.isInteger(length) || length < 0 || length > width)
  if (rows !== lengths.length || wrong.length > 0) {
    throw new RangeError(
      `fromPadded: ${lengths.length} lengths (${lengths.join(', ')}) for the shape [${rows}, ${width}]`,
    )
  }
  if (dtype !== 'float32' && dtype !== 'int32' && dtype !== 'bool') {
    throw new RangeError(`fromPadded: rows of ${dtype} cannot be ragged`)
  }
  const all = values.dataSync()
  const start = (i: number): number => i * width + (side === 'left' ? width - lengths[i]! : 0)
  return ragged(
    dtype,
    lengths.map((length, i) => all.subarray(start(i), start(i) + length)),
  )
}

/** Creates a leaf with one value for each batch element. */
export const data = <T>(items: Iterable<T>): Data<T> => ({ _tag: 'Data', items: List(items) })

/** Creates a leaf with one value for the node. */
export const meta = <T>(value: T): Meta<T> => ({ _tag: 'Meta', value })

const LEAF_TAGS: ReadonlySet<unknown> = new Set(['Ragged', 'Data', 'Meta'])

export const isLeaf = (value: unknown): value is Leaf =>
  typeof value === 'object' &&
  value !== null &&
  ('_tag' in value ? LEAF_TAGS.has(value._tag) : value instanceof tf.Tensor)

/** Looking at TensorDicts: equality, plain values, text. These read tensors, which computes them. */
import * as tf from '@tensorflow/tfjs'
import { is, List } from 'immutable'
import { leafEntries } from './edit.js'
import { type Leaf, raggedLength, raggedRows, rowLengths } from './leaf.js'
import { type Entry, isTensorDict, type TensorDict } from './tensorDict.js'

const sameNumbers = (a: ArrayLike<number>, b: ArrayLike<number>): boolean =>
  a.length === b.length && Array.from(a).every((x, i) => x === b[i] || (Number.isNaN(x) && Number.isNaN(b[i])))

const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** Equal by immutable's `is`, or lists, arrays and plain records of equal values. */
const equalValues = (a: unknown, b: unknown): boolean => {
  if (is(a, b)) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if ((List.isList(a) && List.isList(b)) || (Array.isArray(a) && Array.isArray(b))) {
    const [left, right] = [Array.from(a), Array.from(b)]
    return left.length === right.length && left.every((x, i) => equalValues(x, right[i]))
  }
  if (!isPlain(a) || !isPlain(b)) return false
  const [left, right] = [new Map(Object.entries(a)), new Map(Object.entries(b))]
  return left.size === right.size && [...left].every(([key, x]) => right.has(key) && equalValues(x, right.get(key)))
}

const equalLeaves = (a: Leaf, b: Leaf): boolean => {
  if (a instanceof tf.Tensor || b instanceof tf.Tensor) {
    if (!(a instanceof tf.Tensor && b instanceof tf.Tensor)) return false
    return (
      a === b || (a.dtype === b.dtype && a.shape.join() === b.shape.join() && sameNumbers(a.dataSync(), b.dataSync()))
    )
  }
  if (a._tag === 'Ragged' && b._tag === 'Ragged') {
    return a.type === b.type && sameNumbers(a.offsets, b.offsets) && sameNumbers(a.values, b.values)
  }
  if (a._tag === 'Data' && b._tag === 'Data') return equalValues(a.items, b.items)
  return a._tag === 'Meta' && b._tag === 'Meta' && equalValues(a.value, b.value)
}

const equalEntries = (a: Entry, b: Entry): boolean => {
  if (isTensorDict(a) && isTensorDict(b)) return equals(a, b)
  return !isTensorDict(a) && !isTensorDict(b) && equalLeaves(a, b)
}

/**
 * Equal batch shapes, equal keys in any order, equal leaves. NaN equals NaN; data and meta values are equal by immutable's
 * `is`, or as arrays, lists and plain records of equal values. Reflexive, symmetric, transitive.
 */
export const equals = (a: TensorDict, b: TensorDict): boolean =>
  a === b ||
  (a.batchShape.join() === b.batchShape.join() &&
    a.entries.size === b.entries.size &&
    a.entries.every((entry, key) => {
      const other = b.entries.get(key)
      return other !== undefined && equalEntries(entry, other)
    }))

const plainLeaf = (leaf: Leaf): unknown => {
  if (leaf instanceof tf.Tensor) return leaf.arraySync()
  switch (leaf._tag) {
    case 'Ragged':
      return raggedRows(leaf)
    case 'Data':
      return leaf.items.toArray()
    case 'Meta':
      return leaf.value
  }
}

/** Nested records of plain values: arrays for tensors and ragged rows, lists for data, the value for meta. */
export const toNested = (td: TensorDict): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    td.entries
      .entrySeq()
      .toArray()
      .map(([key, entry]) => [key, isTensorDict(entry) ? toNested(entry) : plainLeaf(entry)]),
  )

const describeLeaf = (leaf: Leaf): string => {
  if (leaf instanceof tf.Tensor) return `${leaf.dtype} [${leaf.shape.join(', ')}]${leaf.isDisposed ? ' (freed)' : ''}`
  switch (leaf._tag) {
    case 'Ragged': {
      const lengths = rowLengths(leaf)
      const range = lengths.length === 0 ? '' : `, lengths ${Math.min(...lengths)} to ${Math.max(...lengths)}`
      return `ragged ${leaf.type}, ${raggedLength(leaf)} rows${range}`
    }
    case 'Data':
      return `data, ${leaf.items.size} values`
    case 'Meta':
      return 'meta'
  }
}

/**
 * One line for the batch shape and one for each leaf: kinds, dtypes and shapes, no values.
 *
 * @example
 * format(TensorDict({ query: data(['2 + 2?']) }, [1])) // 'TensorDict [1]\n  query: data, 1 values'
 */
export const format = (td: TensorDict): string =>
  [
    `TensorDict [${td.batchShape.join(', ')}]`,
    ...leafEntries(td).map(([path, leaf]) => `  ${path.join('.')}: ${describeLeaf(leaf)}`),
  ].join('\n')

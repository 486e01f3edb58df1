/**
 * Comparison of TensorDicts: equality, differences, hashes. These functions read tensors, which
 * computes them.
 */
import * as tf from '@tensorflow/tfjs-core'
import { hash as hashOf } from 'immutable'
import type { Data, Leaf, Meta, Ragged } from './leaf.js'
import { type Entry, isTensorDict, type TensorDict } from './tensorDict.js'
import { equalValues, hashNumbers, hashValue, mix, mixNamed, type Numbers, sameNumbers } from './values.js'

/** A difference between two TensorDicts at one path. */
export interface TensorDictDifference {
  readonly path: readonly string[]
  readonly reason: string
}

type SameNumbers = (a: Numbers, b: Numbers) => string | undefined

const firstDifference = (a: Numbers, b: Numbers): number => {
  for (let i = 0; i < a.length; i++) if (!Object.is(a[i], b[i])) return i
  return -1
}

const bitwise: SameNumbers = (a, b) => {
  if (a === b) return undefined
  const i = firstDifference(a, b)
  return i < 0 ? undefined : `${showNumber(a[i]!)} and ${showNumber(b[i]!)} at element ${i}`
}

const showNumber = (x: number): string => (Object.is(x, -0) ? '-0' : String(x))

const showShape = (shape: readonly number[]): string => `[${shape.join(', ')}]`

const kindOf = (entry: Entry): string => {
  if (entry instanceof tf.Tensor) return `${entry.dtype} tensor ${showShape(entry.shape)}`
  switch (entry._tag) {
    case 'TensorDict':
      return `node ${showShape(entry.batchShape)}`
    case 'Ragged':
      return `ragged ${entry.type}`
    case 'Data':
      return `data of ${entry.items.size} values`
    case 'Meta':
      return 'meta'
  }
}

const itemDifference = (a: readonly unknown[], b: readonly unknown[]): string | undefined => {
  const i = a.findIndex((item, j) => !equalValues(item, b[j]))
  return i < 0 ? undefined : `different values at element ${i}`
}

/** Describes the difference of two leaves of one kind, dtype and shape. */
const valueDifference = (a: Leaf, b: Leaf, same: SameNumbers): string | undefined => {
  if (a === b) return undefined
  if (a instanceof tf.Tensor) return same(a.dataSync(), (b as tf.Tensor).dataSync()) // one kind, here and below
  switch (a._tag) {
    case 'Ragged': {
      const { offsets, values } = b as Ragged
      return sameNumbers(a.offsets, offsets) ? same(a.values, values) : 'rows of other lengths'
    }
    case 'Data':
      return itemDifference(a.items.toArray(), (b as Data).items.toArray())
    case 'Meta':
      return equalValues(a.value, (b as Meta).value) ? undefined : 'different values'
  }
}

/**
 * Yields every difference, one for each path, in the order of the left keys. Lazy: the first is
 * cheap.
 */
function* differences(
  left: TensorDict,
  right: TensorDict,
  { path, same }: { readonly path: readonly string[]; readonly same: SameNumbers },
): Generator<TensorDictDifference> {
  if (left === right) return
  if (showShape(left.batchShape) !== showShape(right.batchShape)) {
    yield { path, reason: `batch shapes ${showShape(left.batchShape)} and ${showShape(right.batchShape)}` }
  }
  for (const name of new Set([...left.entries.keys(), ...right.entries.keys()])) {
    const [a, b] = [left.entries.get(name), right.entries.get(name)]
    const place = [...path, name]
    if (a === undefined) yield { path: place, reason: 'on the right only' }
    else if (b === undefined) yield { path: place, reason: 'on the left only' }
    else if (isTensorDict(a) && isTensorDict(b)) yield* differences(a, b, { path: place, same })
    else if (kindOf(a) !== kindOf(b)) yield { path: place, reason: `${kindOf(a)} and ${kindOf(b)}` }
    else {
      const reason = valueDifference(a as Leaf, b as Leaf, same) // of one kind, and not nodes
      if (reason !== undefined) yield { path: place, reason }
    }
  }
}

/**
 * Lists every difference between two TensorDicts, each path once: missing keys, batch shapes,
 * kinds, dtypes, shapes, values.
 *
 * Source   law 68: empty if and only if `equals`.
 *
 * @example
 * diff(TensorDict({ a: meta(1) }, []), TensorDict({ a: meta(2) }, [])) // [{ path: ['a'], reason: 'different values' }]
 */
export const diff = (left: TensorDict, right: TensorDict): readonly TensorDictDifference[] => [
  ...differences(left, right, { path: [], same: bitwise }),
]

/**
 * Compares two TensorDicts: equal batch shapes, equal keys in any order, equal leaves. Numbers are
 * equal bit for bit (0 and -0 differ, because dividing by them does), but any NaN equals any other.
 * Data and meta values are equal by immutable's `is`, or as arrays, typed arrays, lists and plain
 * records of equal values. Reflexive, symmetric, transitive.
 *
 * Source   laws 66, 67.
 *
 * @example
 * equals(TensorDict({ a: meta(1), b: meta([2]) }, []), TensorDict({ b: meta([2]), a: meta(1) }, [])) // true
 */
export const equals = (left: TensorDict, right: TensorDict): boolean =>
  differences(left, right, { path: [], same: bitwise }).next().done === true

/** The tolerance between numbers: `|a - b| <= atol + rtol * |b|`. */
export interface Tolerance {
  readonly rtol?: number
  readonly atol?: number
}

const within =
  ({ rtol = 1e-5, atol = 1e-8 }: Tolerance): SameNumbers =>
  (a, b) => {
    const close = (x: number, y: number): boolean =>
      x === y || Object.is(x, y) || Math.abs(x - y) <= atol + rtol * Math.abs(y)
    const far = Array.from(a).flatMap((x, i) => (close(x, b[i]!) ? [] : [i]))
    if (far.length === 0) return undefined
    const worst = far.reduce((i, j) => (Math.abs(a[j]! - b[j]!) > Math.abs(a[i]! - b[i]!) ? j : i))
    return `${far.length} of ${a.length} numbers apart, most ${showNumber(a[worst]!)} and ${showNumber(b[worst]!)} at element ${worst}`
  }

/**
 * Returns every path at which two TensorDicts are not close, with the number of differing values
 * and the two that differ most; empty if they are close. Numbers are close if `|a - b| <= atol +
 * rtol * |b|`, with `rtol` 1e-5 and `atol` 1e-8 by default; NaN is close to NaN, infinity to
 * itself. Everything else must be equal.
 *
 * @example
 * const of = (x: number) => TensorDict({ loss: ragged('float32', [[x]]) }, [1])
 * allClose(of(1), of(1.000001)) // []
 * allClose(of(1), of(2))[0].reason // '1 of 1 numbers apart, most 1 and 2 at element 0'
 */
export const allClose = (
  left: TensorDict,
  right: TensorDict,
  tolerance: Tolerance = {},
): readonly TensorDictDifference[] => [...differences(left, right, { path: [], same: within(tolerance) })]

const hashEntry = (entry: Entry): number => {
  if (entry instanceof tf.Tensor) return mix(hashOf(kindOf(entry)), hashNumbers(entry.dataSync()))
  switch (entry._tag) {
    case 'TensorDict':
      return hash(entry)
    case 'Ragged':
      return mix(mix(hashOf(entry.type), hashNumbers(entry.offsets)), hashNumbers(entry.values))
    case 'Data':
      return mixNamed(hashOf(entry._tag), hashValue(entry.items))
    case 'Meta':
      return mixNamed(hashOf(entry._tag), hashValue(entry.value))
  }
}

/**
 * Returns a hash that is the same for equal TensorDicts, whatever the order of their keys.
 *
 * Source   law 67.
 *
 * @example
 * hash(TensorDict({ a: meta(1), b: meta(2) }, [])) === hash(TensorDict({ b: meta(2), a: meta(1) }, [])) // true
 */
export const hash = (td: TensorDict): number =>
  td.entries.reduce(
    (all, entry, name) => (all + mixNamed(hashOf(name), hashEntry(entry))) | 0,
    hashNumbers(td.batchShape),
  )

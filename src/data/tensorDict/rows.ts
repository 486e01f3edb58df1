/** Selection of rows in leaves that live on the host (ragged, data), by index. */
import { List } from 'immutable'
import { type Data, type Ragged, type RaggedArray, ragged, raggedArray, raggedOf } from './leaf.js'

/**
 * An ordered selection of rows: a run `start .. end - 1`, or a list of indices, -1 for a row
 * without source.
 */
export type Rows = { readonly start: number; readonly end: number } | Int32Array

/** Converts a list of row indices to a run if possible. */
export const asRun = (list: Int32Array): Rows => {
  const start = list.length === 0 ? 0 : list[0]!
  if (start < 0) return list
  for (let i = 1; i < list.length; i++) if (list[i] !== start + i) return list
  return { start, end: start + list.length }
}

/** Expands a selection for nodes with `inner` rows in place of each row. */
export const spreadRows = (rows: Rows, inner: number): Rows => {
  if (inner === 1) return rows
  if (!(rows instanceof Int32Array)) return { start: rows.start * inner, end: rows.end * inner }
  const spread = new Int32Array(rows.length * inner)
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i]!
    for (let j = 0; j < inner; j++) spread[i * inner + j] = row < 0 ? -1 : row * inner + j
  }
  return spread
}

/** Returns `offsets[start] .. offsets[end]`, relative to the first of them. */
const rebased = (offsets: ArrayLike<number>, start: number, end: number): Int32Array => {
  const first = offsets[start]!
  const result = new Int32Array(end - start + 1)
  for (let i = start; i <= end; i++) result[i - start] = offsets[i]! - first
  return result
}

/**
 * Selects rows of a ragged leaf. A row without source is empty.
 *
 * Cost     a run shares the values of the leaf and creates new offsets; a list copies the values.
 */
export const selectRagged = (leaf: Ragged, rows: Rows): Ragged => {
  const values = raggedArray(leaf)
  const { offsets } = leaf
  if (!(rows instanceof Int32Array)) {
    const { start, end } = rows
    if (start === 0 && end === offsets.length - 1) return leaf
    return raggedOf(leaf.type, values.subarray(offsets[start]!, offsets[end]!), rebased(offsets, start, end))
  }
  const lengths = new Int32Array(rows.length + 1)
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i]!
    lengths[i + 1] = lengths[i]! + (row < 0 ? 0 : offsets[row + 1]! - offsets[row]!)
  }
  const chosen = new (values.constructor as new (length: number) => RaggedArray)(lengths[rows.length]!) // of the leaf's type
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i]!
    if (row >= 0) chosen.set(values.subarray(offsets[row]!, offsets[row + 1]!), lengths[i]!)
  }
  return raggedOf(leaf.type, chosen, lengths)
}

/** A list of one value: setting it takes half the time of creating a list. */
const ONE = List<unknown>([undefined])

/** Selects values of a data leaf. A row without source gets `filler`. */
export const selectData = (leaf: Data, rows: Rows, filler: unknown): Data => {
  const { items } = leaf
  if (!(rows instanceof Int32Array)) {
    if (rows.start === 0 && rows.end === items.size) return leaf
    if (rows.end - rows.start === 1) return { _tag: 'Data', items: ONE.set(0, items.get(rows.start)) }
    return { _tag: 'Data', items: items.slice(rows.start, rows.end) }
  }
  const chosen = new Array<unknown>(rows.length)
  for (let i = 0; i < rows.length; i++) chosen[i] = rows[i]! < 0 ? filler : items.get(rows[i]!)
  return { _tag: 'Data', items: List(chosen) }
}

/** Concatenates the rows of several ragged leaves of one type. */
export const appendRagged = (leaves: readonly Ragged[]): Ragged => {
  const counts = leaves.map((leaf) => leaf.offsets.length - 1)
  const arrays = leaves.map((leaf) =>
    raggedArray(leaf).subarray(leaf.offsets[0]!, leaf.offsets[leaf.offsets.length - 1]!),
  )
  const offsets = new Int32Array(counts.reduce((sum, count) => sum + count, 1))
  const joined = ragged(leaves[0]!.type, arrays).values
  let at = 0
  for (const [k, leaf] of leaves.entries()) {
    const shift = offsets[at]! - leaf.offsets[0]!
    for (let i = 1; i <= counts[k]!; i++) offsets[at + i] = leaf.offsets[i]! + shift
    at += counts[k]!
  }
  return raggedOf(leaves[0]!.type, joined, offsets)
}

/** Concatenates the values of several data leaves. */
export const appendData = (leaves: readonly Data[]): Data => {
  const all: unknown[] = []
  for (const { items } of leaves) {
    for (let i = 0; i < items.size; i++) all.push(items.get(i))
  }
  return { _tag: 'Data', items: List(all) }
}

/** TensorDicts as plain values and as text. These functions read tensors, which computes them. */
import { countOf } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { type Leaf, raggedLength, raggedRow, raggedRows, rowLengths } from './leaf.js'
import { isTensorDict, type TensorDict } from './tensorDict.js'

/** Returns nested lists for a shape without elements. */
const nothingOf = ([size = 0, ...inner]: readonly number[]): readonly unknown[] =>
  Array.from({ length: size }, () => nothingOf(inner))

const plainLeaf = (leaf: Leaf): unknown => {
  // `arraySync` forgets the axes of a tensor without elements
  if (leaf instanceof tf.Tensor) return leaf.size === 0 ? nothingOf(leaf.shape) : leaf.arraySync()
  switch (leaf._tag) {
    case 'Ragged':
      return raggedRows(leaf)
    case 'Data':
      return leaf.items.toArray()
    case 'Meta':
      return leaf.value
  }
}

/**
 * Converts a TensorDict to nested records of plain values: arrays for tensors and ragged rows
 * (bools as 0 and 1), lists for data, the value for meta.
 *
 * Source   law 87: `fromNested` is the inverse, given the spec.
 */
export const toNested = (td: TensorDict): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    td.entries
      .entrySeq()
      .toArray()
      .map(([key, entry]) => [key, isTensorDict(entry) ? toNested(entry) : plainLeaf(entry)]),
  )

/** Limits of `format`. */
export interface FormatOptions {
  /** The maximum number of values for each leaf. Default 4. */
  readonly values?: number
  /** The maximum number of lines. Default 60. */
  readonly lines?: number
}

const TEXT = 40

const cut = (text: string): string => (text.length > TEXT ? `${text.slice(0, TEXT - 1)}…` : text)

const showNumber = (x: number, dtype: string): string => {
  if (dtype === 'bool') return x === 0 ? 'false' : 'true'
  return Object.is(x, -0) ? '-0' : String(Number(x.toPrecision(5)))
}

const showValue = (value: unknown): string => {
  if (typeof value === 'string') return JSON.stringify(cut(value))
  if (typeof value !== 'object' || value === null) return cut(String(value))
  const name: unknown = '_tag' in value ? value._tag : value.constructor?.name
  return typeof name === 'string' && name !== 'Object' ? `<${name}>` : `{${cut(Object.keys(value).join(', '))}}`
}

const listed = (shown: readonly string[], total: number): string =>
  total === 0 ? '' : `: ${shown.join(', ')}${total > shown.length ? ', …' : ''}`

const describeTensor = (tensor: tf.Tensor, values: number): string => {
  const head = `${tensor.dtype} [${tensor.shape.join(', ')}]`
  if (tensor.isDisposed) return `${head} (freed)`
  const count = Math.min(values, tensor.size)
  if (count === 0) return head
  // a slice, so that a long tensor is not read as a whole
  const first = scope(() => Array.from(tf.slice(tf.reshape(tensor, [tensor.size]), 0, count).dataSync()))
  return `${head}${listed(
    first.map((x) => showNumber(x, tensor.dtype)),
    tensor.size,
  )}`
}

const describeLeaf = (leaf: Leaf, values: number): string => {
  if (leaf instanceof tf.Tensor) return describeTensor(leaf, values)
  switch (leaf._tag) {
    case 'Ragged': {
      const lengths = rowLengths(leaf)
      const shortest = lengths.reduce((n, m) => Math.min(n, m), lengths[0] ?? 0)
      const longest = lengths.reduce((n, m) => Math.max(n, m), 0)
      const size = raggedLength(leaf)
      const head = `ragged ${leaf.type}, ${countOf(size, 'row')}${size === 0 ? '' : ` of ${shortest} to ${longest}`}`
      if (size === 0) return head
      const row = Array.from(raggedRow(leaf, 0).slice(0, values), (x) => showNumber(x, leaf.type))
      const more = lengths[0]! > values ? ', …' : ''
      return values === 0 ? head : `${head}: [${row.join(', ')}${more}]${size > 1 ? ', …' : ''}`
    }
    case 'Data':
      return `data${listed(leaf.items.take(values).map(showValue).toArray(), values === 0 ? 0 : leaf.items.size)}`
    case 'Meta':
      return values === 0 ? 'meta' : `meta: ${showValue(leaf.value)}`
  }
}

/** Returns a name unchanged, or quoted if it could be misread. */
const showName = (name: string): string =>
  /^[\p{L}_][\p{L}\p{N}_]*$/u.test(name) ? cut(name) : JSON.stringify(cut(name))

const linesOf = (td: TensorDict, indent: string, values: number): readonly string[] =>
  [...td.entries].flatMap(([name, entry]) => {
    if (!isTensorDict(entry)) return [`${indent}${showName(name)}: ${describeLeaf(entry, values)}`]
    const shape = entry.batchShape.length > td.batchShape.length ? ` [${entry.batchShape.join(', ')}]` : ''
    const empty = entry.entries.isEmpty() ? ' (empty)' : ''
    return [`${indent}${showName(name)}${shape}${empty}`, ...linesOf(entry, `${indent}  `, values)]
  })

/**
 * Formats a TensorDict as a readable tree: the batch shape, and for each leaf its kind, dtype,
 * shape and first values. Long output is truncated; freed tensors are marked, not read.
 *
 * Effects  reads the first numbers of each tensor, which computes it; with `values: 0` it reads
 *          none.
 *
 * @example
 * format(TensorDict({ query: data(['2 + 2?']), next: { done: meta(true) } }, [1])) // 'TensorDict [1]\n  query: data: "2 + 2?"\n  next\n    done: meta: true'
 */
export const format = (td: TensorDict, options: FormatOptions = {}): string => {
  const { values = 4, lines = 60 } = options
  const all = linesOf(td, '  ', values)
  const hidden = all.length - lines
  const shown = hidden > 0 ? [...all.slice(0, lines), `  … ${hidden} more lines`] : all
  return [`TensorDict [${td.batchShape.join(', ')}]`, ...shown].join('\n')
}

/** The elements of leaves, which are the values in one line of a file of trajectories. */
import type { Json } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import { data, type Leaf, type RaggedType, ragged, raggedRow } from '../tensorDict/leaf.js'
import { batchSize, type TensorDictProblem } from '../tensorDict/tensorDict.js'
import { decodeValue, encodeValue } from './plainValues.js'
import type { SchemaLeaf } from './trajectorySchema.js'

/** Nests `flat` into lists of a shape, in row-major order. An empty shape gives one value. */
const nest = (flat: readonly Json[], shape: readonly number[]): Json => {
  if (shape.length === 0) return flat[0]!
  return shape.slice(1).reduceRight<readonly Json[]>((items, size, axis) => {
    const groups = batchSize(shape.slice(0, axis + 1))
    return Array.from({ length: groups }, (_, i) => items.slice(i * size, (i + 1) * size))
  }, flat)
}

/**
 * Flattens nested lists of a shape. `Left` is the problem. Allocates no more than the lists hold.
 */
const unnest = (nested: unknown, shape: readonly number[]): E.Either<string, readonly unknown[]> => {
  let items: readonly unknown[] = [nested]
  for (const [axis, size] of shape.entries()) {
    const wrong = items.find((item) => !Array.isArray(item) || item.length !== size)
    if (wrong !== undefined || (items.length > 0 && items.some((item) => item === undefined))) {
      const found = Array.isArray(wrong) ? `${wrong.length} items` : wrong === null ? 'null' : typeof wrong
      return E.left(`expected ${size} items along axis ${axis}, got ${found}`)
    }
    items = items.flatMap((item) => item as readonly unknown[]) // lists of the right length, checked
  }
  return E.right(items)
}

const SPECIAL: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  '-Infinity': Number.NEGATIVE_INFINITY,
}

const toNumber = (json: unknown, dtype: RaggedType): number | undefined => {
  switch (dtype) {
    case 'bool':
      return typeof json === 'boolean' ? Number(json) : undefined
    case 'int32':
      return typeof json === 'number' && (json | 0) === json ? json : undefined
    case 'float32':
      if (typeof json === 'number') return json // includes NaN and infinities, if the format has them
      return typeof json === 'string' && Object.hasOwn(SPECIAL, json) ? SPECIAL[json] : undefined
  }
}

const toNumbers = (items: readonly unknown[], dtype: RaggedType): E.Either<string, readonly number[]> => {
  const numbers: number[] = []
  for (const [i, item] of items.entries()) {
    const number = toNumber(item, dtype)
    if (number === undefined) return E.left(`value ${i} is not ${dtype}: ${JSON.stringify(item)?.slice(0, 40)}`)
    numbers.push(number)
  }
  return E.right(numbers)
}

/**
 * The values of one element of a leaf in row-major order: numbers, booleans, texts, rows of
 * numbers, or JSON of data.
 */
export type FlatElements = readonly unknown[]

/** The flat values of each element, and the values that cannot be written. */
export interface LeafElements {
  readonly elements: readonly FlatElements[]
  readonly problems: readonly TensorDictProblem[]
}

const toFlat = (value: number, dtype: RaggedType): unknown => (dtype === 'bool' ? value !== 0 : value)

/** Returns the elements of a leaf, one for each index of the first batch axis. Tensors are read. */
export const flatElements = (leaf: Leaf, place: SchemaLeaf): LeafElements => {
  const { schema, batchShape, path } = place
  const size = batchShape[0]!
  const rows = batchSize(batchShape)
  const problems: TensorDictProblem[] = []
  const split = (flat: readonly unknown[]): LeafElements => {
    const each = size === 0 ? 0 : flat.length / size
    return { elements: Array.from({ length: size }, (_, i) => flat.slice(i * each, (i + 1) * each)), problems }
  }
  if (leaf instanceof tf.Tensor) {
    if (schema.kind === 'strings') return split(Array.from(leaf.dataSync() as unknown as readonly string[])) // tfjs returns texts for this dtype
    return split(Array.from(leaf.dataSync(), (value) => toFlat(value, leaf.dtype as RaggedType))) // the schema has no other
  }
  switch (leaf._tag) {
    case 'Ragged':
      return split(
        Array.from({ length: rows }, (_, i) => Array.from(raggedRow(leaf, i), (value) => toFlat(value, leaf.type))),
      )
    case 'Meta':
      return { elements: [], problems }
    case 'Data':
      return split(
        leaf.items.toArray().map((item, i): Json => {
          const json = encodeValue(item)
          if (E.isRight(json)) return json.right
          for (const each of json.left)
            problems.push({ path: [...path, String(i), ...each.path], reason: `${each.reason} cannot be written` })
          return null
        }),
      )
  }
}

const jsonOf = (value: unknown): Json => {
  if (Array.isArray(value)) return value.map(jsonOf)
  return typeof value === 'number' && !Number.isFinite(value) ? String(value) : (value as Json) // numbers, booleans, texts
}

/** Converts one element to JSON: nested lists of its shape, with NaN and infinities as texts. */
export const elementJson = (flat: FlatElements, { schema, batchShape }: SchemaLeaf): Json => {
  const shape = [...batchShape.slice(1), ...('shape' in schema ? schema.shape : [])]
  return nest(schema.kind === 'data' ? (flat as readonly Json[]) : flat.map(jsonOf), shape) // data is JSON already
}

/** Reads the flat values of one element, which must be as many as its shape has. */
export const parseFlat = (
  flat: FlatElements,
  { schema, batchShape }: SchemaLeaf,
): E.Either<string, readonly unknown[]> => {
  const expected = batchSize([...batchShape.slice(1), ...('shape' in schema ? schema.shape : [])])
  if (flat.length !== expected) return E.left(`expected ${expected} values, got ${flat.length}`)
  switch (schema.kind) {
    case 'tensor':
      return toNumbers(flat, schema.dtype)
    case 'strings':
      return flat.every((item) => typeof item === 'string') ? E.right(flat) : E.left('a value is not a string')
    case 'ragged':
      return E.traverseArray((row: unknown) =>
        Array.isArray(row) ? toNumbers(row, schema.dtype) : E.left('a row is not a list'),
      )(flat)
    case 'data':
      return E.traverseArray(decodeValue)(flat)
  }
}

/** Reads the JSON of one element. */
export const parseElement = (json: unknown, place: SchemaLeaf): E.Either<string, readonly unknown[]> => {
  const { schema, batchShape } = place
  const flat = unnest(json, [...batchShape.slice(1), ...('shape' in schema ? schema.shape : [])])
  return E.isLeft(flat) ? flat : parseFlat(flat.right, place)
}

/**
 * Creates a leaf from values of `parseElement`, all elements concatenated. Creates a tensor that
 * belongs to the enclosing scope.
 */
export const leafOf = (flat: readonly unknown[], { schema, batchShape }: SchemaLeaf, size: number): Leaf => {
  switch (schema.kind) {
    case 'tensor':
      return tf.tensor(
        flat as readonly number[] as number[],
        [size, ...batchShape.slice(1), ...schema.shape],
        schema.dtype,
      ) // from `toNumbers`
    case 'strings':
      return tf.tensor(flat as string[], [size, ...batchShape.slice(1), ...schema.shape], 'string') // checked by `parseElement`
    case 'ragged':
      return ragged(schema.dtype, flat as readonly (readonly number[])[]) // from `toNumbers`
    case 'data':
      return data(flat)
  }
}

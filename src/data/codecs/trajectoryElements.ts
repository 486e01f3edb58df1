/** The elements of leaves: what one line of a file of trajectories says about each. */
import * as tf from '@tensorflow/tfjs'
import * as E from 'fp-ts/lib/Either.js'
import { data, type Leaf, type RaggedType, ragged, raggedRow } from '../tensorDict/leaf.js'
import { batchSize, type TensorDictProblem } from '../tensorDict/tensorDict.js'
import { decodeValue, encodeValue, type Json } from './plainValues.js'
import { rowsPerElement, type SchemaLeaf } from './trajectorySchema.js'

/** Lists in lists: `flat` in the order of a shape; one value if the shape is empty. */
export const nest = (flat: readonly Json[], shape: readonly number[]): Json => {
  if (shape.length === 0) return flat[0]!
  return shape.slice(1).reduceRight<readonly Json[]>((items, size, axis) => {
    const groups = batchSize(shape.slice(0, axis + 1))
    return Array.from({ length: groups }, (_, i) => items.slice(i * size, (i + 1) * size))
  }, flat)
}

/** The values of lists in lists of a shape, or what is wrong with them. Nothing is allocated that the lists do not hold. */
export const unnest = (nested: unknown, shape: readonly number[]): E.Either<string, readonly unknown[]> => {
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

const numberToJson = (value: number, dtype: RaggedType): Json => {
  if (dtype === 'bool') return value !== 0
  return Number.isFinite(value) ? value : String(value)
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
      if (typeof json === 'number') return json
      return typeof json === 'string' && Object.hasOwn(SPECIAL, json) ? SPECIAL[json] : undefined
  }
}

const toNumbers = (items: readonly unknown[], dtype: RaggedType): E.Either<string, readonly number[]> => {
  const numbers: number[] = []
  for (const [i, item] of items.entries()) {
    const number = toNumber(item, dtype)
    if (number === undefined) return E.left(`value ${i} is no ${dtype}: ${JSON.stringify(item)?.slice(0, 40)}`)
    numbers.push(number)
  }
  return E.right(numbers)
}

/** JSON of each element of a leaf, and the values that cannot be written. */
export interface LeafElements {
  readonly elements: readonly Json[]
  readonly problems: readonly TensorDictProblem[]
}

const chunks = (flat: readonly Json[], size: number, shape: readonly number[]): readonly Json[] => {
  const each = batchSize(shape)
  return Array.from({ length: size }, (_, i) => nest(flat.slice(i * each, (i + 1) * each), shape))
}

/** The elements of a leaf, one for each index of the first batch axis. Tensors are read. */
export const leafElements = (leaf: Leaf, place: SchemaLeaf): LeafElements => {
  const { schema, batchShape, path } = place
  const [size, inner] = [batchShape[0]!, batchShape.slice(1)]
  if (leaf instanceof tf.Tensor) {
    const shape = [...inner, ...('shape' in schema ? schema.shape : [])]
    const flat: readonly Json[] =
      schema.kind === 'strings'
        ? Array.from(leaf.dataSync() as unknown as readonly string[]) // what tfjs gives for this dtype
        : Array.from(leaf.dataSync(), (value) => numberToJson(value, leaf.dtype as RaggedType)) // the schema has no other
    return { elements: chunks(flat, size, shape), problems: [] }
  }
  const rows = size * rowsPerElement(place)
  if (leaf._tag === 'Ragged') {
    const flat = Array.from(
      { length: rows },
      (_, i): Json => Array.from(raggedRow(leaf, i), (value) => numberToJson(value, leaf.type)),
    )
    return { elements: chunks(flat, size, inner), problems: [] }
  }
  if (leaf._tag === 'Meta') return { elements: [], problems: [] }
  const problems: TensorDictProblem[] = []
  const flat = leaf.items.toArray().map((item, i): Json => {
    const json = encodeValue(item)
    if (E.isRight(json)) return json.right
    for (const each of json.left)
      problems.push({ path: [...path, String(i), ...each.path], reason: `${each.reason} cannot be written` })
    return null
  })
  return { elements: chunks(flat, size, inner), problems }
}

/** The flat values of one element of a leaf: numbers, strings, rows of numbers or decoded values. */
export const parseElement = (json: unknown, place: SchemaLeaf): E.Either<string, readonly unknown[]> => {
  const { schema, batchShape } = place
  const inner = batchShape.slice(1)
  const flat = unnest(json, 'shape' in schema ? [...inner, ...schema.shape] : inner)
  if (E.isLeft(flat)) return flat
  switch (schema.kind) {
    case 'tensor':
      return toNumbers(flat.right, schema.dtype)
    case 'strings':
      return flat.right.every((item) => typeof item === 'string') ? flat : E.left('a value is no string')
    case 'ragged':
      return E.traverseArray((row: unknown) =>
        Array.isArray(row) ? toNumbers(row, schema.dtype) : E.left('a row is no list'),
      )(flat.right)
    case 'data':
      return E.traverseArray(decodeValue)(flat.right)
  }
}

/** The leaf of values from `parseElement`, all elements after one another. Makes a tensor that belongs to the enclosing scope. */
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

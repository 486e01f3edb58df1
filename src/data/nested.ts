/** Creation of TensorDicts: from plain values by a spec, from typed arrays, or as zeros. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import { OrderedMap } from 'immutable'
import { type Infer, isLeafSpec, type LeafSpec, nodeOfSpec, type Spec } from './spec.js'

import { data, type Leaf, meta, type RaggedType, ragged } from './tensorDict/leaf.js'
import {
  batchSize,
  type Entry,
  nodeOf,
  requireShape,
  showPath,
  type TensorDict,
  TensorDictError,
  type TensorDictProblem,
} from './tensorDict/tensorDict.js'

/** The failure of plain values that do not fit a spec. */
export interface NestedFailure {
  readonly _tag: 'NestedFailure'
  readonly reason: string
  readonly problems: readonly TensorDictProblem[]
}

/** A function that creates a leaf, or the problems of its values. */
type Reading = E.Either<readonly TensorDictProblem[], () => Entry>

const kindOf = (value: unknown): string => {
  if (value === null) return 'null'
  return Array.isArray(value) ? `a list of ${value.length}` : typeof value
}

const numberProblem = (value: unknown, type: RaggedType): string | undefined => {
  if (type === 'bool' && typeof value === 'boolean') return undefined
  if (typeof value !== 'number') return `expected ${type}, got ${kindOf(value)}`
  if (type === 'float32') return undefined
  const [low, high] = type === 'bool' ? [0, 1] : [-(2 ** 31), 2 ** 31 - 1]
  return Number.isInteger(value) && value >= low && value <= high ? undefined : `${value} is not ${type}`
}

/**
 * Collects the numbers of nested lists of a shape into `into`. Returns the first problem, or
 * undefined.
 */
const collect = (
  value: unknown,
  shape: readonly number[],
  into: { readonly type: RaggedType; readonly numbers: number[] },
): string | undefined => {
  const [size, ...inner] = shape
  if (size === undefined) {
    const problem = numberProblem(value, into.type)
    if (problem === undefined) into.numbers.push(Number(value))
    return problem
  }
  if (!Array.isArray(value)) return `expected a list of ${size}, got ${kindOf(value)}`
  if (value.length !== size) return `expected a list of ${size}, got one of ${value.length}`
  for (const [i, item] of value.entries()) {
    const problem = collect(item, inner, into)
    if (problem !== undefined) return `[${i}] ${problem}`
  }
  return undefined
}

const collectRows = (value: readonly unknown[], type: RaggedType): E.Either<string, readonly (readonly number[])[]> => {
  const rows: (readonly number[])[] = []
  for (const [i, row] of value.entries()) {
    if (!Array.isArray(row)) return E.left(`[${i}] expected a list, got ${kindOf(row)}`)
    const numbers: number[] = []
    const problem = collect(row, [row.length], { type, numbers })
    if (problem !== undefined) return E.left(`[${i}] ${problem}`)
    rows.push(numbers)
  }
  return E.right(rows)
}

const readLeaf = (spec: LeafSpec, value: unknown, batchShape: readonly number[]): E.Either<string, () => Leaf> => {
  if (spec._tag === 'MetaSpec') return E.right(() => meta(value))
  if (spec._tag === 'TensorSpec') {
    const shape = [...batchShape, ...spec.shape]
    const numbers: number[] = []
    const problem = collect(value, shape, { type: spec.dtype, numbers })
    return problem === undefined ? E.right(() => tf.tensor(numbers, shape, spec.dtype)) : E.left(problem)
  }
  const rows = batchSize(batchShape)
  if (!Array.isArray(value)) return E.left(`expected a list of ${rows}, got ${kindOf(value)}`)
  if (value.length !== rows) return E.left(`expected a list of ${rows}, got one of ${value.length}`)
  if (spec._tag === 'DataSpec') return E.right(() => data<unknown>(value))
  return E.map((lists: readonly (readonly number[])[]) => () => ragged(spec.type, lists))(collectRows(value, spec.type))
}

const readNode = (
  spec: Spec,
  value: unknown,
  at: { readonly batchShape: readonly number[]; readonly path: readonly string[] },
): Reading => {
  const { batchShape, path } = at
  const prototype: unknown = typeof value === 'object' && value !== null ? Object.getPrototypeOf(value) : undefined
  if (prototype !== Object.prototype && prototype !== null)
    return E.left([{ path, reason: `expected a record, got ${kindOf(value)}` }])
  const fields = new Map<string, unknown>(Object.entries(value as object)) // a record, by its prototype
  const unknownNames = [...fields.keys()].filter((name) => !Object.hasOwn(spec, name))
  const readings = Object.entries(spec).map(([name, part]): readonly [string, Reading] => {
    const place = [...path, name]
    if (!fields.has(name)) return [name, E.left([{ path: place, reason: 'missing' }])]
    if (isLeafSpec(part)) {
      return [
        name,
        E.mapLeft((reason: string) => [{ path: place, reason }])(readLeaf(part, fields.get(name), batchShape)),
      ]
    }
    const { axes, entries } = nodeOfSpec(part)
    return [name, readNode(entries, fields.get(name), { batchShape: [...batchShape, ...axes], path: place })]
  })
  const problems = [
    ...readings.flatMap(([, reading]) => (E.isLeft(reading) ? reading.left : [])),
    ...unknownNames.map((name) => ({ path: [...path, name], reason: 'not in the spec' })),
  ]
  if (problems.length > 0) return E.left(problems)
  return E.right(() => {
    const made = readings.flatMap(([name, reading]): [string, Entry][] =>
      E.isRight(reading) ? [[name, reading.right()]] : [],
    )
    return nodeOf(OrderedMap(made), batchShape)
  })
}

/**
 * Creates a TensorDict of plain values, such as parsed JSON, by a spec: nested lists of numbers for
 * tensors, a list of lists for ragged rows, a list for data, anything for meta, records for nodes.
 * Bools may be true and false or 1 and 0.
 *
 * Errors   `Left(NestedFailure)` naming every key that is missing or not in the spec, and for each
 *          leaf the first problem: a length, a kind, a number that the dtype cannot hold. The
 *          contents of data and meta are not checked. Throws TensorDictError for an invalid batch
 *          shape.
 * Effects  creates tensors that belong to the enclosing scope, and none before all values are
 *          checked.
 * Source   law 87: the inverse of `toNested`.
 *
 * @example
 * fromNested({ reward: tensorSpec('float32') }, { reward: [1, 'two'] }, [2]) // left({ _tag: 'NestedFailure', reason: '"reward": [1] expected float32, got string', problems: [{ path: ['reward'], reason: '[1] expected float32, got string' }] })
 */
export const fromNested = <const P extends Spec>(
  spec: P,
  value: unknown,
  batchShape: readonly number[],
): E.Either<NestedFailure, TensorDict<Infer<P>>> => {
  requireShape('fromNested', batchShape)
  const reading = readNode(spec, value, { batchShape: [...batchShape], path: [] })
  if (E.isRight(reading)) return E.right(scope(() => reading.right() as TensorDict<Infer<P>>)) // read by the spec
  const problems = reading.left
  const shown = problems
    .slice(0, 10)
    .map(({ path, reason }) => `${path.length > 0 ? `${showPath(path)}: ` : ''}${reason}`)
  const more = problems.length > shown.length ? `; and ${problems.length - shown.length} more` : ''
  return E.left({ _tag: 'NestedFailure', reason: `${shown.join('; ')}${more}`, problems })
}

/** Typed arrays by name, which become tensors of the same type (Uint8Array: bool). */
export type Arrays = { readonly [name: string]: Float32Array | Int32Array | Uint8Array | Arrays }

/** The schema of `fromArrays`. */
export type ArraysSchema<A> = {
  readonly [K in keyof A]: A[K] extends Float32Array | Int32Array | Uint8Array
    ? tf.Tensor
    : TensorDict<ArraysSchema<A[K]>>
}

const dtypeOf = (array: Float32Array | Int32Array | Uint8Array): RaggedType =>
  array instanceof Float32Array ? 'float32' : array instanceof Int32Array ? 'int32' : 'bool'

/**
 * Creates a TensorDict of typed arrays, which are copied, so that later writes to them have no
 * effect. An array with one number for each batch element becomes a tensor of the batch shape; one
 * with `n` times as many gets a last axis of size `n`.
 *
 * Shapes   `[...batchShape]` or `[...batchShape, n]`; for an empty batch, `[...batchShape]`.
 * Errors   throws TensorDictError, naming every array whose length is not a multiple of the batch
 *          size, and every value that is not such an array.
 * Effects  creates tensors that belong to the enclosing scope.
 * Source   law 73.
 *
 * @example
 * get(fromArrays({ x: Float32Array.of(1, 2, 3, 4) }, [2]), 'x').shape // [2, 2]
 */
export const fromArrays = <const A extends Arrays>(
  arrays: A,
  batchShape: readonly number[],
): TensorDict<ArraysSchema<A>> => {
  requireShape('fromArrays', batchShape)
  const rows = batchSize(batchShape)
  const problems: TensorDictProblem[] = []
  const walk = (part: Arrays, path: readonly string[]): TensorDict =>
    nodeOf(
      OrderedMap(
        Object.entries(part).flatMap(([name, value]): [string, Entry][] => {
          const place = [...path, name]
          if (value instanceof Float32Array || value instanceof Int32Array || value instanceof Uint8Array) {
            const fits = rows === 0 ? value.length === 0 : value.length % rows === 0 && value.length > 0
            if (!fits) problems.push({ path: place, reason: `${value.length} numbers for a batch of ${rows}` })
            const shape = !fits || value.length === rows ? batchShape : [...batchShape, value.length / rows]
            return fits ? [[name, tf.tensor(value.slice(), [...shape], dtypeOf(value))]] : []
          }
          if (typeof value === 'object' && value !== null && !ArrayBuffer.isView(value) && !Array.isArray(value))
            return [[name, walk(value, place)]]
          problems.push({
            path: place,
            reason: `expected a Float32Array, an Int32Array, a Uint8Array or a record, got ${kindOf(value)}`,
          })
          return []
        }),
      ),
      [...batchShape],
    )
  return scope(() => {
    const result = walk(arrays, [])
    if (problems.length > 0)
      throw new TensorDictError('fromArrays', problems[0]!.path, { problems, expected: batchShape })
    return result as TensorDict<ArraysSchema<A>> // made from the arrays of A
  })
}

/** Values for leaves that have no zero. */
export interface ZerosOptions {
  /** The value of a meta leaf, and of each element of a data leaf. */
  readonly value?: (of: string, path: readonly string[]) => unknown
}

/**
 * Creates a TensorDict of zeros by a spec: tensors of 0 (bools false), ragged rows without
 * elements.
 *
 * Errors   throws TensorDictError, naming every data and meta leaf, unless `options.value` returns
 *          their values, because they have no zero.
 * Effects  creates tensors that belong to the enclosing scope.
 *
 * @example
 * toNested(zeros({ reward: tensorSpec('float32'), ids: raggedSpec('int32') }, [2])) // { reward: [0, 0], ids: [[], []] }
 */
export const zeros = <const P extends Spec>(
  spec: P,
  batchShape: readonly number[],
  options: ZerosOptions = {},
): TensorDict<Infer<P>> => {
  requireShape('zeros', batchShape)
  const { value } = options
  const problems: TensorDictProblem[] = []
  const leafOf = (part: LeafSpec, shape: readonly number[], path: readonly string[]): Leaf => {
    const rows = batchSize(shape)
    switch (part._tag) {
      case 'TensorSpec':
        return tf.zeros([...shape, ...part.shape], part.dtype)
      case 'RaggedSpec':
        return ragged(
          part.type,
          Array.from({ length: rows }, () => []),
        )
      case 'DataSpec':
      case 'MetaSpec': {
        if (value === undefined)
          problems.push({ path, reason: `${part._tag === 'DataSpec' ? 'data' : 'meta'} of ${part.of} has no zero` })
        const filler = value?.(part.of, path)
        return part._tag === 'DataSpec' ? data(Array.from({ length: rows }, () => filler)) : meta(filler)
      }
    }
  }
  const walk = (part: Spec, shape: readonly number[], path: readonly string[]): TensorDict =>
    nodeOf(
      OrderedMap(
        Object.entries(part).map(([name, inner]): [string, Entry] => {
          if (isLeafSpec(inner)) return [name, leafOf(inner, shape, [...path, name])]
          const { axes, entries } = nodeOfSpec(inner)
          return [name, walk(entries, [...shape, ...axes], [...path, name])]
        }),
      ),
      shape,
    )
  return scope(() => {
    const result = walk(spec, [...batchShape], [])
    if (problems.length > 0)
      throw new TensorDictError('zeros', problems[0]!.path, { problems, hint: 'pass their values with options.value' })
    return result as TensorDict<Infer<P>> // made by the spec
  })
}

/**
 * The schema of a TensorDict as JSON. A file of trajectories contains it once, so that reading
 * needs no guesses.
 */
import type { FormatFailure, Json } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import { OrderedMap } from 'immutable'
import { z } from 'zod'
import { type Leaf, meta, type RaggedType } from '../tensorDict/leaf.js'
import {
  type Entry,
  isTensorDict,
  nodeOf,
  type TensorDict,
  TensorDictError,
  type TensorDictProblem,
} from '../tensorDict/tensorDict.js'
import { decodeValue, encodeValue } from './plainValues.js'

/** Number types of tensors in a file. */
type TensorType = 'float32' | 'int32' | 'bool'

/** A leaf or a node of a TensorDict, without its elements. */
type EntrySchema =
  | { readonly kind: 'tensor'; readonly dtype: TensorType; readonly shape: readonly number[] }
  | { readonly kind: 'strings'; readonly shape: readonly number[] }
  | { readonly kind: 'ragged'; readonly dtype: RaggedType }
  | { readonly kind: 'data' }
  | { readonly kind: 'meta'; readonly value: Json }
  | ({ readonly kind: 'node' } & NodeSchema)

/**
 * A node: its batch shape and its entries in order. `shape` of a tensor is the part after the batch
 * shape of its node.
 */
export interface NodeSchema {
  readonly batchShape: readonly number[]
  readonly entries: readonly (readonly [name: string, schema: EntrySchema])[]
}

const isTensorType = (dtype: string): dtype is TensorType => ['float32', 'int32', 'bool'].includes(dtype)

const leafSchema = (leaf: Leaf, rank: number): EntrySchema | string => {
  if (leaf instanceof tf.Tensor) {
    const shape = leaf.shape.slice(rank)
    if (leaf.dtype === 'string') return { kind: 'strings', shape }
    return isTensorType(leaf.dtype)
      ? { kind: 'tensor', dtype: leaf.dtype, shape }
      : `a tensor of type ${leaf.dtype} cannot be written`
  }
  switch (leaf._tag) {
    case 'Ragged':
      return { kind: 'ragged', dtype: leaf.type }
    case 'Data':
      return { kind: 'data' }
    case 'Meta': {
      const value = encodeValue(leaf.value)
      return E.isRight(value)
        ? { kind: 'meta', value: value.right }
        : value.left
            .map(({ path, reason }) => `${path.length > 0 ? `${path.join('.')} of the value is ` : ''}${reason}`)
            .join('; ')
    }
  }
}

/**
 * Returns the schema of a TensorDict.
 *
 * Errors   throws TensorDictError, listing every leaf that cannot be written (complex tensors, meta
 *          values with functions ...), and for a TensorDict without a batch axis.
 */
export const schemaOf = (td: TensorDict, operation: string): NodeSchema => {
  if (td.batchShape.length === 0)
    throw new TensorDictError(operation, [], 'the TensorDict has no batch axis: a file has one element on each line')
  const problems: TensorDictProblem[] = []
  const walk = (node: TensorDict, path: readonly string[]): NodeSchema => ({
    batchShape: node.batchShape,
    entries: node.entries
      .entrySeq()
      .toArray()
      .map(([name, entry]) => {
        const place = [...path, name]
        if (isTensorDict(entry)) return [name, { kind: 'node', ...walk(entry, place) }] as const
        const schema = leafSchema(entry, node.batchShape.length)
        if (typeof schema !== 'string') return [name, schema] as const
        problems.push({ path: place, reason: schema })
        return [name, { kind: 'data' }] as const
      }),
  })
  const schema = walk(td, [])
  if (problems.length > 0) throw new TensorDictError(operation, [], { problems })
  return schema
}

const shapeSchema = z.array(z.number().int().nonnegative()).max(64)

const entrySchema: z.ZodType<EntrySchema> = z.lazy(() =>
  z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('tensor'), dtype: z.enum(['float32', 'int32', 'bool']), shape: shapeSchema }),
    z.strictObject({ kind: z.literal('strings'), shape: shapeSchema }),
    z.strictObject({ kind: z.literal('ragged'), dtype: z.enum(['float32', 'int32', 'bool']) }),
    z.strictObject({ kind: z.literal('data') }),
    z.strictObject({ kind: z.literal('meta'), value: z.custom<Json>((value) => value !== undefined) }),
    z.strictObject({ kind: z.literal('node'), ...nodeFields }),
  ]),
)

const nodeFields = { batchShape: shapeSchema, entries: z.array(z.tuple([z.string(), entrySchema])) }

const headerSchema = z.strictObject({ format: z.literal('tandem trajectories'), version: z.literal(1), ...nodeFields })

/** Returns the header of a batch in a file of trajectories. */
export const headerOf = (schema: NodeSchema): Json => {
  const { batchShape, entries } = schema
  return { format: 'tandem trajectories', version: 1, batchShape, entries: entries as unknown as Json } // of JSON values only
}

const fail = (reason: string): E.Either<FormatFailure, never> =>
  E.left({ _tag: 'FormatFailure', format: 'trajectories', reason })

const beginsWith = (shape: readonly number[], prefix: readonly number[]): boolean =>
  prefix.every((n, i) => shape[i] === n)

/** Lists the problems of a schema that no TensorDict can have. */
const schemaProblems = (node: NodeSchema, path: readonly string[]): readonly string[] => {
  const names = node.entries.map(([name]) => name)
  return [
    ...names
      .filter((name, i) => names.indexOf(name) !== i)
      .map((name) => `${[...path, name].join(' > ')}: two entries of this name`),
    ...node.entries.flatMap(([name, entry]) => {
      if (entry.kind !== 'node') return []
      const place = [...path, name]
      const fits = beginsWith(entry.batchShape, node.batchShape)
      return [
        ...(fits ? [] : [`${place.join(' > ')}: its batch shape does not begin with that of its parent`]),
        ...schemaProblems(entry, place),
      ]
    }),
  ]
}

/** Reads a header. Errors: `Left(FormatFailure)` with all problems. */
export const parseTrajectoryHeader = (json: unknown): E.Either<FormatFailure, NodeSchema> => {
  const attempt = E.tryCatch(
    () => headerSchema.safeParse(json),
    (error) => String(error), // endlessly nested nodes
  )
  if (E.isLeft(attempt)) return fail(`the header: ${attempt.left}`)
  const parsed = attempt.right
  if (!parsed.success)
    return fail(
      `the header: ${parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ')}`,
    )
  const { batchShape, entries } = parsed.data
  if (batchShape.length === 0) return fail('the header: the batch axis is missing')
  const problems = schemaProblems({ batchShape, entries }, [])
  return problems.length > 0 ? fail(`the header: ${problems.join('; ')}`) : E.right({ batchShape, entries })
}

/** A leaf of a schema that has elements, with its path. */
export interface SchemaLeaf {
  readonly path: readonly string[]
  readonly schema: Exclude<EntrySchema, { readonly kind: 'node' | 'meta' }>
  /** The batch shape of its node. */
  readonly batchShape: readonly number[]
}

/** Returns all leaves that have elements, in order. */
export const schemaLeaves = (node: NodeSchema, path: readonly string[] = []): readonly SchemaLeaf[] =>
  node.entries.flatMap(([name, schema]): readonly SchemaLeaf[] => {
    const place = [...path, name]
    if (schema.kind === 'node') return schemaLeaves(schema, place)
    return schema.kind === 'meta' ? [] : [{ path: place, schema, batchShape: node.batchShape }]
  })

/**
 * Builds the TensorDict of a schema, with leaves from `leafAt`. `size` is the size of the first
 * batch axis, which is smaller than in the schema if the file is truncated.
 *
 * Errors   `Left(FormatFailure)` for a meta value that cannot be read.
 */
export const buildTensorDict = (
  schema: NodeSchema,
  { size, leafAt }: { readonly size: number; readonly leafAt: (path: readonly string[]) => Leaf },
): E.Either<FormatFailure, TensorDict> => {
  const build = (node: NodeSchema, path: readonly string[]): E.Either<FormatFailure, TensorDict> => {
    const found: [string, Entry][] = []
    for (const [name, entry] of node.entries) {
      const place = [...path, name]
      const made =
        entry.kind === 'node'
          ? build(entry, place)
          : entry.kind === 'meta'
            ? E.bimap((reason: string) => problemAt(place, reason), meta)(decodeValue(entry.value))
            : E.right(leafAt(place))
      if (E.isLeft(made)) return made
      found.push([name, made.right])
    }
    return E.right(nodeOf(OrderedMap(found), [size, ...node.batchShape.slice(1)])) // shapes are those of a checked header
  }
  return build(schema, [])
}

const problemAt = (path: readonly string[], reason: string): FormatFailure => ({
  _tag: 'FormatFailure',
  format: 'trajectories',
  reason: `the header: ${path.join(' > ')}: ${reason}`,
})

/** Reading TensorDict files in memory, whole or in part. */
import { crc32, type FormatFailure } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { OrderedMap } from 'immutable'
import { data, meta, type Ragged } from '../tensorDict/leaf.js'
import { batchSize, type Entry, nodeOf, type TensorDict } from '../tensorDict/tensorDict.js'
import { decodeValue, PLAIN, type ValueCodec } from './plainValues.js'
import type { MemoryUse } from './storage.js'
import {
  type Block,
  type EntryPlan,
  type FilePlan,
  failHeader,
  failure,
  headerBytes,
  jsonOfBytes,
  type LeafPlan,
  type NodePlan,
  NUMBER_BYTES,
  type NumberType,
  PREAMBLE_BYTES,
  parseTree,
  place,
} from './tensorDictFileHeader.js'
import type { TensorDictFileOptions } from './tensorDictFileWrite.js'

/** Options for reading. */
export interface TensorDictReadOptions extends TensorDictFileOptions {
  /**
   * With `share`, ragged rows are views of the source bytes, and so are tensors if the backend
   * allows it. By default everything is copied.
   */
  readonly memory?: MemoryUse
}

/**
 * A validated leaf that only has to be created. No earlier step creates tensors, so a failure
 * leaves none.
 */
type Ready = () => Entry

const checkedBytes = (block: Block, bytes: Uint8Array): E.Either<string, Uint8Array> =>
  crc32(bytes) === block.crc ? E.right(bytes) : E.left('the data is damaged: its checksum is wrong')

const readNumbers = (
  type: NumberType,
  bytes: Uint8Array,
  memory: MemoryUse,
): Float32Array | Int32Array | Uint8Array => {
  const size = NUMBER_BYTES[type]
  const { buffer, byteOffset, length } =
    memory === 'share' && bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes)
  switch (type) {
    case 'float32':
      return new Float32Array(buffer, byteOffset, length / size)
    case 'int32':
      return new Int32Array(buffer, byteOffset, length / size)
    case 'bool':
      return new Uint8Array(buffer, byteOffset, length)
  }
}

const checkBools = <T extends ArrayLike<number>>(type: NumberType, values: T): E.Either<string, T> => {
  for (let i = 0; type === 'bool' && i < values.length; i++) {
    if (values[i]! > 1) return E.left(`${values[i]} is neither true nor false`)
  }
  return E.right(values)
}

const readRagged = (
  type: NumberType,
  lengths: ArrayLike<number>,
  values: ArrayLike<number>,
): E.Either<string, Ready> => {
  const offsets = new Int32Array(lengths.length + 1)
  for (let i = 0; i < lengths.length; i++) {
    const end = offsets[i]! + lengths[i]!
    if (lengths[i]! < 0 || end > values.length)
      return E.left(`row ${i} of ${lengths[i]} elements does not fit into ${values.length}`)
    offsets[i + 1] = end
  }
  if (offsets[lengths.length] !== values.length) return E.left(`the rows do not cover all ${values.length} elements`)
  const rows: Ragged = { _tag: 'Ragged', type, values, offsets }
  return E.right(() => rows)
}

/** Reads a value from JSON, through its codec if there is one. */
const readValue = (json: unknown, codec: ValueCodec | undefined): E.Either<string, unknown> =>
  pipe(
    decodeValue(json),
    E.chain((plain) => (codec === undefined ? E.right(plain) : codec.decode(plain))),
  )

const findCodec = (
  name: string,
  path: readonly string[],
  options: TensorDictReadOptions,
): E.Either<string, ValueCodec | undefined> => {
  const codec = options.codecAt?.(path)
  const given = codec?.name ?? PLAIN
  return given === name
    ? E.right(codec)
    : E.left(`written with the codec ${JSON.stringify(name)}, read with ${JSON.stringify(given)}`)
}

/** Returns the bytes of a block of the file. */
export type BytesOfBlock = (block: Block) => Uint8Array

const readLeaf = (
  plan: LeafPlan,
  {
    path,
    rows,
    read,
    options,
  }: {
    readonly path: readonly string[]
    readonly rows: number
    readonly read: (block: Block) => E.Either<string, Uint8Array>
    readonly options: TensorDictReadOptions
  },
): E.Either<string, Ready> => {
  const { memory = 'copy' } = options
  const numbers = (type: NumberType, block: Block): E.Either<string, Float32Array | Int32Array | Uint8Array> =>
    pipe(
      read(block),
      E.map((bytes) => readNumbers(type, bytes, memory)),
      E.chain((values) => checkBools(type, values)),
    )
  switch (plan.kind) {
    case 'tensor':
      return pipe(
        numbers(plan.type, plan.values),
        E.map((values) => () => tf.tensor(values, [...plan.shape], plan.type)),
      )
    case 'ragged':
      return pipe(
        numbers('int32', plan.lengths),
        E.bindTo('lengths'),
        E.bind('values', () => numbers(plan.type, plan.values)),
        E.chain(({ lengths, values }) => readRagged(plan.type, lengths, values)),
      )
    case 'data':
      return pipe(
        findCodec(plan.codec, path, options),
        E.bindTo('codec'),
        E.bind('items', () => E.Monad.chain(read(plan.items), jsonOfBytes)),
        E.chain(({ codec, items }) => {
          if (!Array.isArray(items)) return E.left('the values are not a list')
          if (items.length !== rows) return E.left(`${items.length} values for ${rows} batch elements`)
          return E.traverseArray((item: unknown) => readValue(item, codec))(items)
        }),
        E.map((items) => () => data(items)),
      )
    case 'meta':
      return pipe(
        findCodec(plan.codec, path, options),
        E.bindTo('codec'),
        E.bind('json', () => E.Monad.chain(read(plan.value), jsonOfBytes)),
        E.chain(({ codec, json }) => readValue(json, codec)),
        E.map((value) => () => meta(value)),
      )
  }
}

const readNode = (
  node: NodePlan,
  path: readonly string[],
  context: { readonly bytesOfBlock: BytesOfBlock; readonly options: TensorDictReadOptions },
): E.Either<FormatFailure, Ready> => {
  const ready: (readonly [string, Ready])[] = []
  for (const [key, plan] of node.entries) {
    const entry = readEntry({ plan, path: [...path, key], rows: batchSize(node.batchShape) }, context)
    if (E.isLeft(entry)) return entry
    ready.push([key, entry.right])
  }
  return E.right(() => nodeOf(OrderedMap(ready.map(([key, make]): [string, Entry] => [key, make()])), node.batchShape))
}

const readEntry = (
  { plan, path, rows }: FoundPlan,
  context: { readonly bytesOfBlock: BytesOfBlock; readonly options: TensorDictReadOptions },
): E.Either<FormatFailure, Ready> => {
  if (plan.kind === 'node') return readNode(plan, path, context)
  const read = (block: Block): E.Either<string, Uint8Array> => checkedBytes(block, context.bytesOfBlock(block))
  return pipe(
    readLeaf(plan, { path, rows, read, options: context.options }),
    E.mapLeft((problem) => failure(`${place(path)}: ${problem}`)),
  )
}

/** An entry of the tree with its path and the number of batch elements of its node. */
export interface FoundPlan {
  readonly plan: EntryPlan
  readonly path: readonly string[]
  readonly rows: number
}

/**
 * Finds the entry of the tree at a path. Errors: `Left(FormatFailure)` with the existing keys for
 * an unknown path.
 */
export const findPlan = (tree: NodePlan, path: readonly string[]): E.Either<FormatFailure, FoundPlan> => {
  let plan: EntryPlan = tree
  let rows = batchSize(tree.batchShape)
  for (const [depth, key] of path.entries()) {
    const entries: NodePlan['entries'] = plan.kind === 'node' ? plan.entries : []
    const next = entries.find(([name]) => name === key)
    if (plan.kind !== 'node' || next === undefined) {
      const known = entries.map(([name]) => JSON.stringify(name)).join(', ')
      return failHeader(`${place(path.slice(0, depth + 1))}: no such entry; the keys are ${known || 'none'}`)
    }
    rows = batchSize(plan.batchShape)
    plan = next[1]
  }
  return E.right({ plan, path, rows })
}

/**
 * Reads the entry that a plan describes. The tensors belong to the enclosing scope.
 *
 * Errors   `Left(FormatFailure)` for a wrong checksum, malformed values, or another codec. No
 *          tensor is created then.
 */
export const assemble = (
  found: FoundPlan,
  bytesOfBlock: BytesOfBlock,
  options: TensorDictReadOptions,
): E.Either<FormatFailure, Entry> =>
  pipe(
    readEntry(found, { bytesOfBlock, options }),
    E.map((make) => scope(make)),
  )

const planOf = (bytes: Uint8Array): E.Either<FormatFailure, FilePlan> =>
  pipe(
    headerBytes(bytes.subarray(0, PREAMBLE_BYTES), bytes.length),
    E.chain((length) => parseTree(bytes.subarray(0, length), bytes.length)),
  )

/**
 * Reads one entry of a TensorDict file in memory, a leaf or a whole node. Only the header and the
 * bytes of that entry are read.
 *
 * Errors   those of `decodeTensorDict` for header and entry; `Left(FormatFailure)`, with the
 *          existing keys, for an unknown path.
 * Effects  creates tensors that belong to the enclosing scope.
 * Source   law 85.
 */
export const decodeTensorDictAt = (
  bytes: Uint8Array,
  path: readonly string[],
  options: TensorDictReadOptions = {},
): E.Either<FormatFailure, Entry> =>
  pipe(
    planOf(bytes),
    E.chain(({ headerBytes: start, tree }) =>
      pipe(
        findPlan(tree, path),
        E.chain((found) => assemble(found, ({ begin, end }) => bytes.subarray(start + begin, start + end), options)),
      ),
    ),
  )

/**
 * Reads the bytes of `encodeTensorDict`: equal in every bit, with keys in their order. `refine`
 * restores its type.
 *
 * Errors   `Left(FormatFailure)`, with the path, for a file that is truncated, damaged anywhere, of
 *          another version, or written with another codec; no tensor is created then. Never throws,
 *          and allocation is bounded by the length of the file and the size of its values.
 * Effects  creates tensors that belong to the enclosing scope.
 * Source   laws 83 and 86.
 *
 * @example
 * decodeTensorDict(new Uint8Array(3))._tag // 'Left'
 */
export const decodeTensorDict = (
  bytes: Uint8Array,
  options: TensorDictReadOptions = {},
): E.Either<FormatFailure, TensorDict> =>
  pipe(
    decodeTensorDictAt(bytes, [], options),
    E.map((root) => root as TensorDict), // the empty path leads to the root, which is a node
  )

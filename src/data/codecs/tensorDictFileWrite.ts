/**
 * Writing a TensorDict as one file: a header that locates everything, then the numbers and values.
 * `tensorDictFileHeader.ts` has the layout.
 */
import { crc32, type Json } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import { type Leaf, type Ragged, rowLengths } from '../tensorDict/leaf.js'
import { isTensorDict, type TensorDict, TensorDictError, type TensorDictProblem } from '../tensorDict/tensorDict.js'
import { encodeValue, PLAIN, type UnwritableValue, type ValueCodec } from './plainValues.js'
import { type FileInParts, joinParts } from './safetensors.js'
import { bytesOf } from './storage.js'
import {
  aligned,
  type Block,
  type EntryPlan,
  formatHeader,
  type LeafPlan,
  MAX_LEVELS,
  type NodePlan,
  NUMBER_BYTES,
  type NumberType,
} from './tensorDictFileHeader.js'

/** Codecs for values that are not plain. */
export interface TensorDictFileOptions {
  /**
   * Returns the codec of the Data or Meta leaf at a path, for each of its values. Without a codec,
   * values are written as plain values.
   */
  readonly codecAt?: (path: readonly string[]) => ValueCodec | undefined
}

/** The state of an encoding. */
interface Encoding {
  readonly codecAt: (path: readonly string[]) => ValueCodec | undefined
  readonly problems: TensorDictProblem[]
  readonly blocks: Uint8Array[]
  end: number
}

const addBlock = (encoding: Encoding, bytes: Uint8Array): Block => {
  const begin = aligned(encoding.end)
  encoding.blocks.push(bytes)
  encoding.end = begin + bytes.length
  return { begin, end: encoding.end, crc: crc32(bytes) }
}

const numbersOf = (type: NumberType, values: ArrayLike<number>): Float32Array | Int32Array | Uint8Array => {
  switch (type) {
    case 'float32':
      return values instanceof Float32Array ? values : Float32Array.from(values)
    case 'int32':
      return values instanceof Int32Array ? values : Int32Array.from(values)
    case 'bool':
      return Uint8Array.from(values, (value) => (value === 0 ? 0 : 1))
  }
}

const isNumberType = (type: string): type is NumberType => Object.hasOwn(NUMBER_BYTES, type)

const encodeTensor = (tensor: tf.Tensor, encoding: Encoding): LeafPlan | string => {
  const { dtype, shape } = tensor
  if (!isNumberType(dtype))
    return `a tensor of ${dtype}${dtype === 'string' ? '; put texts into data([...])' : ' has no place in a file'}`
  if (tensor.isDisposed) return 'a tensor that has been freed'
  return {
    kind: 'tensor',
    type: dtype,
    shape,
    values: addBlock(encoding, bytesOf(numbersOf(dtype, tensor.dataSync()))),
  }
}

/**
 * Returns the values between the first and the last offset, because rows may be part of a larger
 * array.
 */
const raggedValues = ({ values, offsets }: Ragged): ArrayLike<number> => {
  const [start, end] = [offsets[0]!, offsets[offsets.length - 1]!] // there is always one offset more than rows
  if (start === 0 && end === values.length) return values
  return ArrayBuffer.isView(values)
    ? (values as Float32Array).subarray(start, end)
    : Array.prototype.slice.call(values, start, end) // of either kind
}

const encodeRagged = (rows: Ragged, encoding: Encoding): LeafPlan => ({
  kind: 'ragged',
  type: rows.type,
  lengths: addBlock(encoding, bytesOf(Int32Array.from(rowLengths(rows)))),
  values: addBlock(encoding, bytesOf(numbersOf(rows.type, raggedValues(rows)))),
})

/** Converts a value of a leaf to JSON, through its codec if there is one. */
const throughCodec = (value: unknown, codec: ValueCodec | undefined): E.Either<readonly UnwritableValue[], Json> => {
  const plain = codec === undefined ? E.right(value) : codec.encode(value)
  if (E.isLeft(plain)) return E.left([{ path: [], reason: plain.left }])
  const unwritable = E.mapLeft((problems: readonly UnwritableValue[]) =>
    problems.map(({ path, reason }) => ({ path, reason: `${reason} cannot be written` })),
  )
  return unwritable(encodeValue(plain.right))
}

/** Converts the values of a leaf to JSON. Problems are added to the list. */
const encodeValues = (values: readonly unknown[], path: readonly string[], encoding: Encoding): readonly string[] => {
  const codec = encoding.codecAt(path)
  return values.map((value, i) => {
    const json = throughCodec(value, codec)
    if (E.isRight(json)) return JSON.stringify(json.right)
    const index = values.length === 1 ? [] : [String(i)]
    encoding.problems.push(
      ...json.left.map((each) => ({ path: [...path, ...index, ...each.path], reason: each.reason })),
    )
    return 'null'
  })
}

const textBlock = (text: string, encoding: Encoding): Block => addBlock(encoding, new TextEncoder().encode(text))

const encodeLeaf = (leaf: Leaf, path: readonly string[], encoding: Encoding): LeafPlan | string => {
  if (leaf instanceof tf.Tensor) return encodeTensor(leaf, encoding)
  const codec = encoding.codecAt(path)?.name ?? PLAIN
  switch (leaf._tag) {
    case 'Ragged':
      return encodeRagged(leaf, encoding)
    case 'Data': {
      const texts = encodeValues(leaf.items.toArray(), path, encoding)
      return { kind: 'data', codec, items: textBlock(`[${texts.join()}]`, encoding) }
    }
    case 'Meta': {
      const [text] = encodeValues([leaf.value], path, encoding)
      return { kind: 'meta', codec, value: textBlock(text!, encoding) }
    }
  }
}

const encodeNode = (node: TensorDict, path: readonly string[], encoding: Encoding): NodePlan => {
  const entries = node.entries
    .entrySeq()
    .toArray()
    .flatMap(([key, entry]): readonly (readonly [string, EntryPlan])[] => {
      const here = [...path, key]
      if (isTensorDict(entry) && here.length > MAX_LEVELS) {
        encoding.problems.push({ path: here.slice(0, 3), reason: `more than ${MAX_LEVELS} levels below` })
        return []
      }
      const plan = isTensorDict(entry) ? encodeNode(entry, here, encoding) : encodeLeaf(entry, here, encoding)
      if (typeof plan !== 'string') return [[key, plan]]
      encoding.problems.push({ path: here, reason: plan })
      return []
    })
  return { kind: 'node', batchShape: node.batchShape, entries }
}

/**
 * Encodes a TensorDict as a file in pieces, for writing without a second copy of the numbers. Equal
 * TensorDicts with keys in the same order give equal bytes.
 *
 * Errors   throws TensorDictError with the path of everything that cannot be written: tensors of
 *          texts or complex numbers, tensors that have been freed, values that are neither plain
 *          nor covered by a codec, more than 200 levels.
 * Effects  reads the tensors, which computes them; creates none. The pieces do not change when the
 *          tensors are freed.
 * Source   laws 83 and 84.
 */
export const tensorDictParts = (td: TensorDict, options: TensorDictFileOptions = {}): FileInParts => {
  const encoding: Encoding = { codecAt: options.codecAt ?? (() => undefined), problems: [], blocks: [], end: 0 }
  const tree = encodeNode(td, [], encoding)
  if (encoding.problems.length > 0) throw new TensorDictError('encodeTensorDict', [], { problems: encoding.problems })
  const header = formatHeader(tree, encoding.end)
  return {
    byteLength: header.length + encoding.end,
    *[Symbol.iterator]() {
      yield header
      let place = 0
      for (const block of encoding.blocks) {
        const begin = aligned(place)
        if (begin > place) yield new Uint8Array(begin - place)
        yield block
        place = begin + block.length
      }
    },
  }
}

/**
 * Encodes a TensorDict as the bytes of a file: all kinds of leaves, nested nodes, keys in their
 * order, every bit of every number.
 *
 * Errors   those of `tensorDictParts`.
 *
 * @example
 * decodeTensorDict(encodeTensorDict(TensorDict({ query: data(['2 + 2?']) }, [1]))).right.batchShape // [1]
 */
export const encodeTensorDict = (td: TensorDict, options: TensorDictFileOptions = {}): Uint8Array =>
  joinParts(tensorDictParts(td, options))

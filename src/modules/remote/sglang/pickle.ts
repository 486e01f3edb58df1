/** Tensors in SGLang's request format: a Python pickle in base64. */

import { joinBytes } from '../../../core/joinBytes.js'
import { requireWritable, storedArray } from '../../../data/codecs/safetensors.js'
import { elementCount, storageBytes, storedBytes } from '../../../data/codecs/storage.js'
import type { PlainArray } from '../../../data/generation.js'

/** The number format of tensors. 16-bit formats round to nearest, ties to even. */
export type TensorFloat = 'F32' | 'F16' | 'BF16'

/** `list`: pairs of name and tensor, for weights. `dict`: tensors by name, for adapters. */
export type PickleForm = 'list' | 'dict'

/** Bytes whose number is known before they are made. */
export interface SizedBytes {
  readonly byteLength: number
  /** Yields the bytes in order, newly made each time. A piece may be the caller's memory. */
  readonly pieces: () => Iterable<Uint8Array>
}

/** PyTorch's storage class of each number format. */
const STORAGE_CLASS: Readonly<Record<TensorFloat, string>> = {
  F32: 'FloatStorage',
  F16: 'HalfStorage',
  BF16: 'BFloat16Storage',
}

const encoder = new TextEncoder()

/** Encodes opcodes of one character each. */
const op = (characters: string): Uint8Array => encoder.encode(characters)

const opcode = (code: number): Uint8Array => Uint8Array.of(code)

const little = (bytes: 4 | 8, value: number): Uint8Array => {
  const view = new DataView(new ArrayBuffer(bytes))
  if (bytes === 4) view.setInt32(0, value, true)
  else view.setBigInt64(0, BigInt(value), true)
  return new Uint8Array(view.buffer)
}

/** Encodes BININT, or LONG1 for larger integers. */
const integer = (value: number): Uint8Array =>
  value < 2 ** 31 ? joinBytes([op('J'), little(4, value)]) : joinBytes([opcode(0x8a), opcode(8), little(8, value)])

/** Encodes BINUNICODE. */
const text = (value: string): Uint8Array => {
  const bytes = encoder.encode(value)
  return joinBytes([op('X'), little(4, bytes.length), bytes])
}

/** Encodes GLOBAL: a name in a Python module. */
const named = (module: string, name: string): Uint8Array => op(`c${module}\n${name}\n`)

const tuple = (values: readonly number[]): Uint8Array => joinBytes([op('('), ...values.map(integer), op('t')])

/** Encodes PROTO. */
const PROTOCOL_2 = Uint8Array.of(0x80, 2)
const PROTOCOL_5 = Uint8Array.of(0x80, 5)

/** The magic number at the start of each `torch.save` file, as LONG1. */
const TORCH_MAGIC = Uint8Array.of(0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19)

/**
 * Makes a `torch.save` file of one storage, in the format before zip files, up to its numbers:
 * magic number, version 1001, an empty system record, the storage as a persistent id, the list of
 * storages, the count of numbers.
 */
const storageHead = (float: TensorFloat, count: number): Uint8Array =>
  joinBytes([
    ...[PROTOCOL_2, TORCH_MAGIC, op('.')],
    ...[PROTOCOL_2, integer(1001), op('.')],
    ...[PROTOCOL_2, op('}.')],
    ...[PROTOCOL_2, op('('), text('storage'), named('torch', STORAGE_CLASS[float]), text('0'), text('cpu')],
    ...[integer(count), op('NtQ.')],
    ...[PROTOCOL_2, op(']'), text('0'), op('a.')],
    little(8, count),
  ])

/** Returns row-major strides. An axis of length 0 counts as 1, as in PyTorch. */
const stridesOf = (shape: readonly number[]): readonly number[] => {
  const strides: number[] = []
  let stride = 1
  for (const size of [...shape].reverse()) {
    strides.unshift(stride)
    stride *= Math.max(size, 1)
  }
  return strides
}

interface Frame {
  readonly head: Uint8Array
  /** Number of bytes of the numbers, between head and tail. */
  readonly bytes: number
  readonly tail: Uint8Array
}

/**
 * Makes the bytes around the numbers of one tensor:
 * `_rebuild_tensor_v2(_load_from_bytes(FILE), 0, shape, strides, False, OrderedDict())`.
 */
const frameOf = (shape: readonly number[], float: TensorFloat): Frame => {
  const count = elementCount(shape)! // checked by `requireWritable`
  const bytes = count * storageBytes(float)
  const file = storageHead(float, count)
  return {
    head: joinBytes([
      ...[named('torch._utils', '_rebuild_tensor_v2'), op('('), named('torch.storage', '_load_from_bytes')],
      ...[opcode(0x8e), little(8, file.length + bytes), file], // BINBYTES8
    ]),
    bytes,
    tail: joinBytes([
      ...[opcode(0x85), op('R')], // TUPLE1, REDUCE
      ...[integer(0), tuple(shape), tuple(stridesOf(shape)), opcode(0x89)], // NEWFALSE
      ...[named('collections', 'OrderedDict'), op(')R'), op('tR')],
    ]),
  }
}

export interface PickleOptions {
  readonly form: PickleForm
  readonly float: TensorFloat
}

/**
 * Encodes tensors as a Python pickle of protocol 5, equal to `pickle.dumps` of a list or a dict of
 * PyTorch tensors, without its memo.
 *
 * Shapes   any, row-major; empty tensors and scalars too.
 * Errors   throws RangeError that names all arrays whose shape does not match their numbers, and
 *          all names that UTF-8 cannot encode.
 * Effects  none. Pieces of 32-bit numbers are the caller's memory; those of 16 bits are made when
 *          read, 2^20 numbers at a time.
 * Cost     no copy of 32-bit numbers.
 * Source   Python's pickletools; PyTorch's `_rebuild_tensor_v2` and `_load_from_bytes`. Unlike
 *          `torch.frombuffer`, these are allowed by the restricted unpickler of both SGLang 0.5.10
 *          and 0.5.23, whose list of allowed names was closed in between.
 *
 * @example
 * pickledTensors(new Map(), { form: 'dict', float: 'F32' }).byteLength // 6
 */
export const pickledTensors = (
  tensors: ReadonlyMap<string, PlainArray>,
  { form, float }: PickleOptions,
): SizedBytes => {
  requireWritable('pickledTensors', tensors)
  const items = [...tensors].map(([name, { shape, data }]) => {
    const { head, bytes, tail } = frameOf(shape, float)
    return {
      head: joinBytes([text(name), head]),
      bytes,
      array: storedArray(float, shape, data),
      tail: form === 'list' ? joinBytes([tail, opcode(0x86)]) : tail, // TUPLE2
    }
  })
  const first = joinBytes([PROTOCOL_5, op(form === 'list' ? '](' : '}(')])
  const last = op(form === 'list' ? 'e.' : 'u.')
  const inside = items.reduce((sum, { head, bytes, tail }) => sum + head.length + bytes + tail.length, 0)
  return {
    byteLength: first.length + inside + last.length,
    *pieces() {
      yield first
      for (const { head, array, tail } of items) {
        yield head
        yield* storedBytes(array)
        yield tail
      }
      yield last
    },
  }
}

/**
 * The types of tensors in a GGUF file, and how the numbers of a block are restored.
 *
 * Every number is computed as in the reference (`gguf.quants` of the Python package `gguf`): the
 * products are exact in float64, and each result is rounded once to float32, so both agree in every
 * bit.
 */
import { widenHalf } from '@tandem-rl/base'

/** Restores the numbers of blocks: `target` has those of `count` blocks that begin at `bytes`. */
type Restore = (bytes: DataView, count: number, target: Float32Array) => void

/** A type of tensors: numbers are stored in blocks of equal size. */
export interface BlockType {
  /** Numbers in a block. */
  readonly numbers: number
  /** Bytes of a block. */
  readonly bytes: number
  readonly restore: Restore
}

const word = new Float32Array(1)
const wordBits = new Uint32Array(word.buffer)

/** Reads an IEEE half-precision number. */
const half = (view: DataView, at: number): number => {
  wordBits[0] = widenHalf(view.getUint16(at, true))
  return word[0]! // the same memory
}

const float: Restore = (view, count, target) => {
  for (let i = 0; i < count; i++) target[i] = view.getFloat32(4 * i, true)
}

const halfFloat: Restore = (view, count, target) => {
  for (let i = 0; i < count; i++) target[i] = half(view, 2 * i)
}

const brainFloat: Restore = (view, count, target) => {
  const bits = new Uint32Array(target.buffer, target.byteOffset, count)
  for (let i = 0; i < count; i++) bits[i] = view.getUint16(2 * i, true) << 16
}

/** A block of 32 numbers with a scale, and with a minimum or centred. */
interface SmallBlock {
  readonly bits: 4 | 5
  /** Bytes before the fifth bits and the nibbles: the scale, and the minimum where there is one. */
  readonly head: 2 | 4
}

/**
 * Numbers of 4 or 5 bits. The low nibbles of 16 bytes are the first 16 numbers of a block, the high
 * ones the other 16. `x = d q + m` with a minimum, and `x = d (q - 2^(bits - 1))` without one.
 */
const smallBlock =
  ({ bits, head }: SmallBlock): Restore =>
  (view, count, target) => {
    const nibbles = bits === 5 ? head + 4 : head
    const centre = head === 4 ? 0 : 2 ** (bits - 1)
    const size = nibbles + 16
    for (let block = 0; block < count; block++) {
      const at = block * size
      const scale = half(view, at)
      const least = head === 4 ? half(view, at + 2) : -0 // the sum keeps the sign of a zero
      const fifth = bits === 5 ? view.getUint32(at + head, true) : 0
      for (let i = 0; i < 16; i++) {
        const pair = view.getUint8(at + nibbles + i)
        const low = (pair & 15) | (((fifth >>> i) & 1) << 4)
        const high = (pair >> 4) | (((fifth >>> (i + 16)) & 1) << 4)
        target[32 * block + i] = scale * (low - centre) + least
        target[32 * block + 16 + i] = scale * (high - centre) + least
      }
    }
  }

/** `x = d q` with signed bytes. */
const byteBlock: Restore = (view, count, target) => {
  for (let block = 0; block < count; block++) {
    const at = 34 * block
    const scale = half(view, at)
    for (let i = 0; i < 32; i++) target[32 * block + i] = scale * view.getInt8(at + 2 + i)
  }
}

/** Returns the scale and the minimum of a group. Each has 6 bits, and 12 bytes hold 8 of both. */
const groupScales = (view: DataView, at: number, group: number): readonly [scale: number, least: number] => {
  const byte = (i: number): number => view.getUint8(at + i)
  if (group < 4) return [byte(group) & 63, byte(group + 4) & 63]
  return [(byte(group + 4) & 15) | ((byte(group - 4) >> 6) << 4), (byte(group + 4) >> 4) | ((byte(group) >> 6) << 4)]
}

/**
 * Blocks of 256 numbers in 8 groups: `x = d s q - m l` with the scale `s` and the minimum `l` of a
 * group. Of the 32 bytes of two groups, the low nibbles are the first, the high ones the second.
 */
const groupBlock =
  (bits: 4 | 5): Restore =>
  (view, count, target) => {
    const nibbles = bits === 5 ? 48 : 16
    const size = nibbles + 128
    for (let block = 0; block < count; block++) {
      const at = block * size
      const [scale, least] = [half(view, at), half(view, at + 2)]
      for (let group = 0; group < 8; group++) {
        const [steps, drop] = groupScales(view, at + 4, group)
        const shift = 4 * (group & 1)
        for (let i = 0; i < 32; i++) {
          const low = (view.getUint8(at + nibbles + 32 * (group >> 1) + i) >> shift) & 15
          const high = bits === 5 ? ((view.getUint8(at + 16 + i) >> group) & 1) << 4 : 0
          target[256 * block + 32 * group + i] = scale * steps * (low | high) - least * drop
        }
      }
    }
  }

/** Blocks of 256 numbers of 6 bits in 16 groups: `x = d s (q - 32)` with signed scales. */
const sixBits: Restore = (view, count, target) => {
  for (let block = 0; block < count; block++) {
    const at = 210 * block
    const scale = half(view, at + 208)
    for (let i = 0; i < 256; i++) {
      const [part, place] = [i >> 7, i & 127]
      const low = (view.getUint8(at + 64 * part + (place & 63)) >> (4 * (place >> 6))) & 15
      const high = (view.getUint8(at + 128 + 32 * part + (place & 31)) >> (2 * (place >> 5))) & 3
      const steps = view.getInt8(at + 192 + (i >> 4))
      target[256 * block + i] = scale * steps * ((low | (high << 4)) - 32)
    }
  }
}

/** Types by name. `id` is the number in the file. */
const TYPES = {
  F32: { id: 0, numbers: 1, bytes: 4, restore: float },
  F16: { id: 1, numbers: 1, bytes: 2, restore: halfFloat },
  BF16: { id: 30, numbers: 1, bytes: 2, restore: brainFloat },
  Q4_0: { id: 2, numbers: 32, bytes: 18, restore: smallBlock({ bits: 4, head: 2 }) },
  Q4_1: { id: 3, numbers: 32, bytes: 20, restore: smallBlock({ bits: 4, head: 4 }) },
  Q5_0: { id: 6, numbers: 32, bytes: 22, restore: smallBlock({ bits: 5, head: 2 }) },
  Q5_1: { id: 7, numbers: 32, bytes: 24, restore: smallBlock({ bits: 5, head: 4 }) },
  Q8_0: { id: 8, numbers: 32, bytes: 34, restore: byteBlock },
  Q4_K: { id: 12, numbers: 256, bytes: 144, restore: groupBlock(4) },
  Q5_K: { id: 13, numbers: 256, bytes: 176, restore: groupBlock(5) },
  Q6_K: { id: 14, numbers: 256, bytes: 210, restore: sixBits },
} as const satisfies Readonly<Record<string, BlockType & { readonly id: number }>>

/** The name of a type of tensors that can be read. */
export type GgufType = keyof typeof TYPES

/** All types that can be read. */
export const GGUF_TYPES = Object.keys(TYPES) as readonly GgufType[] // the keys of the record above

export const blockType = (type: GgufType): BlockType => TYPES[type]

/** Names of further types of the format, for messages. */
const OTHERS: Readonly<Record<number, string>> = {
  9: 'Q8_1',
  10: 'Q2_K',
  11: 'Q3_K',
  15: 'Q8_K',
  16: 'IQ2_XXS',
  17: 'IQ2_XS',
  18: 'IQ3_XXS',
  19: 'IQ1_S',
  20: 'IQ4_NL',
  21: 'IQ3_S',
  22: 'IQ2_S',
  23: 'IQ4_XS',
  24: 'I8',
  25: 'I16',
  26: 'I32',
  27: 'I64',
  28: 'F64',
  29: 'IQ1_M',
  34: 'TQ1_0',
  35: 'TQ2_0',
  39: 'MXFP4',
}

/** Returns the type of a number in a file, or a message that names another one. */
export const typeOfId = (id: number): GgufType | { readonly problem: string } =>
  GGUF_TYPES.find((type) => TYPES[type].id === id) ?? {
    problem: `the type ${OTHERS[id] ?? id} is not supported (supported: ${GGUF_TYPES.join(', ')})`,
  }

/**
 * Restores the numbers of whole blocks.
 *
 * Errors   throws RangeError for bytes that are not whole blocks, or a `target` of another size.
 * Source   `dequantize_row_*` of llama.cpp, and `gguf.quants` of the Python package gguf 0.19.
 *
 * @example
 * const numbers = new Float32Array(1)
 * restoreBlocks('F16', Uint8Array.of(0x00, 0x38), numbers)
 * numbers[0] // 0.5
 */
export const restoreBlocks = (type: GgufType, bytes: Uint8Array, target: Float32Array): void => {
  const { numbers, bytes: size, restore } = TYPES[type]
  const count = bytes.byteLength / size
  if (!Number.isInteger(count) || target.length !== count * numbers) {
    throw new RangeError(
      `restoreBlocks: ${type} has ${numbers} numbers in ${size} bytes, got ${target.length} in ${bytes.byteLength}`,
    )
  }
  restore(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), count, target)
}

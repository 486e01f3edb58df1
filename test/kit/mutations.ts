/** Damaged safetensors files: flipped bits, cuts, insertions, and edits of the header. */
import { child, keyFromSeed, uniforms } from '@tandem-rl/base'

const EDITS: readonly (readonly [RegExp, string])[] = [
  [/"F32"|"I64"|"U8"|"BF16"/, '"F4"'],
  [/"dtype"/, '"shape"'],
  [/\[\d+/, '[18446744073709551615'],
  [/\[\d+/, '[-1'],
  [/\[\d+/, '[1.0'],
  [/,\d+\]/, ',4]'],
  [/\[\]/, '[1]'],
  [/\{"/, '{"__metadata__":{"a":"b"},"'],
  [/\{"/, '{"__metadata__":{"a":1},"'],
  [/"data_offsets":\[\d+/, '"data_offsets":[1'],
  [/\}\}/, ',"x":null}}'],
  [/\}\}/, '},}'],
  [/":/, '\\ud800":'],
]

/** The header with one edit, and the length that belongs to it. */
const edited = (bytes: Uint8Array, choice: number): Uint8Array => {
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true))
  const [pattern, text] = EDITS[choice % EDITS.length]!
  const header = Buffer.from(
    Buffer.from(bytes.subarray(8, 8 + length))
      .toString()
      .replace(pattern, text),
  )
  const prefix = Buffer.alloc(8)
  prefix.writeBigUInt64LE(BigInt(header.length))
  return Buffer.concat([prefix, header, bytes.subarray(8 + length)])
}

/** Damages that may be done; `a` and `b` are any natural numbers. */
const DAMAGES: readonly ((bytes: Uint8Array, a: number, b: number) => Uint8Array)[] = [
  (bytes, a) => bytes.map((byte, i) => (i === (a >> 3) % bytes.length ? byte ^ (1 << (a & 7)) : byte)),
  (bytes, a) => bytes.map((byte, i) => (i === a % Math.min(bytes.length, 200) ? (byte + 1) & 255 : byte)),
  (bytes, a) => bytes.slice(0, a % bytes.length),
  (bytes, a, b) =>
    Buffer.concat([bytes.subarray(0, a % bytes.length), Buffer.of(b & 255), bytes.subarray(a % bytes.length)]),
  (bytes, a, b) => Buffer.concat([bytes.subarray(0, a % bytes.length), bytes.subarray((a % bytes.length) + (b % 16))]),
  edited,
]

/** `count` damaged copies of files, each with one to three damages. */
export const mutated = (
  originals: readonly Uint8Array[],
  { seed, count }: { readonly seed: number; readonly count: number },
): readonly Uint8Array[] => {
  const key = keyFromSeed(seed)
  return Array.from({ length: count }, (_, i) => {
    const [rounds, ...numbers] = Array.from(uniforms(child(key, i), 10), (u) => Math.floor(u * 2 ** 31))
    let bytes = originals[i % originals.length]!
    for (let round = 0; round <= rounds! % 3; round++) {
      const [kind, a, b] = numbers.slice(3 * round)
      const isFile = bytes.length > 16 // something to damage
      if (isFile) bytes = DAMAGES[kind! % DAMAGES.length]!(Uint8Array.from(bytes), a!, b!)
    }
    return bytes
  })
}

/** Whether a failure is one of those that only we refuse: see `parseHeader`. */
export const isKnownDifference = (reason: string): boolean =>
  /duplicate key|from 0 to 2\^53 - 1|more bytes than can be counted|dtype (F4|F6_E2M3|F6_E3M2|C64) is not|is not an object|'dtype' is not a text/.test(
    reason,
  )

/** The laws of codecs: laws 83 to 86. */
import { liveTensors, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { type Either, isRight } from 'fp-ts/lib/Either.js'
import { type NumberedLaw, numbered, require } from './law.js'

/** A conversion of values to bytes and back. */
export interface Codec<T> {
  readonly encode: (value: T) => Uint8Array
  readonly decode: (bytes: Uint8Array) => Either<{ readonly reason: string }, T>
  readonly equals: (a: T, b: T) => boolean
  /**
   * Result of a flipped bit. `detected`: the bytes are rejected or decode to the same value, as
   * with a checksum. `survived`: they may also decode to another value. Truncated bytes must always
   * be rejected.
   */
  readonly damage: 'detected' | 'survived'
  /** Decoding of single parts, if supported. */
  readonly parts?: CodecParts<T>
}

/** Decoding of single parts. The law kit treats them as opaque. */
export interface CodecParts<T> {
  /** Returns the names of all parts of a value. */
  readonly names: (value: T) => readonly (readonly string[])[]
  /** Returns a part of the value. */
  readonly get: (value: T, name: readonly string[]) => unknown
  /** Decodes a part from the bytes. */
  readonly decodeAt: (bytes: Uint8Array, name: readonly string[]) => Either<{ readonly reason: string }, unknown>
  readonly equals: (a: unknown, b: unknown) => boolean
}

/** A value that is built on demand, with its tensors in the enclosing scope. */
export interface CodecSample<T> {
  readonly build: () => T
}

const decoded = <T>(result: Either<{ readonly reason: string }, T>): T => {
  if (isRight(result)) return result.right
  throw new Error(`the encoded value is rejected: ${result.left.reason}`)
}

const sameBytes = (a: Uint8Array, b: Uint8Array): boolean =>
  a.length === b.length && a.every((byte, i) => byte === b[i])

/** Runs a check with a value, and frees all tensors. */
const withValue = <T>(sample: CodecSample<T>, check: (value: T) => void): void => {
  scope(() => {
    check(sample.build())
    return undefined // everything is freed
  })
}

const flipped = (bytes: Uint8Array, bit: number): Uint8Array => {
  const copy = Uint8Array.from(bytes)
  copy[bit >> 3]! ^= 1 << (bit & 7)
  return copy
}

const roundTrip = <T>({ encode, decode, equals }: Codec<T>, value: T): void => {
  const bytes = encode(value)
  const before = Uint8Array.from(bytes)
  require(equals(decoded(decode(bytes)), value), () => 'the decoded value differs from the encoded one')
  require(sameBytes(bytes, before), () => 'reading changed the bytes')
}

const determinism = <T>({ encode, decode }: Codec<T>, sample: CodecSample<T>, value: T): void => {
  const before = liveTensors().count
  const bytes = encode(value)
  require(liveTensors().count === before, () => `writing left ${liveTensors().count - before} tensors`)
  require(sameBytes(encode(sample.build()), bytes), () => 'equal values give different bytes')
  require(sameBytes(encode(decoded(decode(bytes))), bytes), () => 'encoding the decoded value gives different bytes')
}

const partsLaw = <T>({ encode, decode }: Codec<T>, parts: CodecParts<T>, value: T): void => {
  const bytes = encode(value)
  const whole = decoded(decode(bytes))
  for (const name of parts.names(value)) {
    const part = decoded(parts.decodeAt(bytes, name))
    require(parts.equals(part, parts.get(whole, name)), () =>
      `the part ${JSON.stringify(name)} differs from that of the whole`)
  }
}

const flip = <T>({ decode, equals, damage }: Codec<T>, value: T, bytes: Uint8Array): void => {
  const result = decode(bytes)
  if (damage === 'detected' && isRight(result)) {
    require(equals(result.right, value), () => 'a flipped bit was not detected: the bytes decode to another value')
  }
}

/**
 * Number of first bits. They are flipped as often as all others together, because headers are
 * there.
 */
const FIRST_BITS = 1024

const damageLaw = <T>(codec: Codec<T>, value: T, choices: readonly number[]): void => {
  const bytes = codec.encode(value)
  const bits = 8 * bytes.length
  const lengths = [0, bytes.length - 1, ...choices.map((n) => n % Math.max(1, bytes.length))]
  for (const length of lengths.filter((n) => n >= 0 && n < bytes.length)) {
    const isRefused = !isRight(codec.decode(bytes.slice(0, length)))
    require(isRefused, () => `the first ${length} of ${bytes.length} bytes are accepted`)
  }
  if (bits === 0) return
  for (const n of choices) {
    flip(codec, value, flipped(bytes, n % bits))
    flip(codec, value, flipped(bytes, n % Math.min(bits, FIRST_BITS)))
  }
}

/**
 * Returns laws 83 to 86 of a codec, for values drawn from `samples`:
 *
 * 83. Decoding returns an equal value, and does not change the bytes.
 * 84. Equal values give equal bytes, as does a decoded value. Encoding leaves no tensors.
 * 85. A part that is decoded alone equals that part of the whole. Only for codecs with `parts`.
 * 86. Truncated bytes are rejected. Bytes with a flipped bit are rejected or decode to the same
 *     value (or to another one, if `damage` allows it). Noise never makes the codec throw.
 *
 * @example
 * codecLaws({ encode: encodeTensorDict, decode: decodeTensorDict, equals, damage: 'detected' }, anyTensorDict()).length // 3
 */
export const codecLaws = <T>(codec: Codec<T>, samples: fc.Arbitrary<CodecSample<T>>): readonly NumberedLaw[] => {
  const { parts } = codec
  const always = (check: (value: T, sample: CodecSample<T>) => void) => () => {
    fc.assert(fc.property(samples, (sample) => withValue(sample, (value) => check(value, sample))))
  }
  const choices = fc.array(fc.nat(), { minLength: 6, maxLength: 6 })
  return [
    numbered(
      83,
      'what was written is read back equal',
      always((value) => roundTrip(codec, value)),
    ),
    numbered(
      84,
      'equal values give equal bytes',
      always((value, sample) => determinism(codec, sample, value)),
    ),
    ...(parts === undefined
      ? []
      : [
          numbered(
            85,
            'a part read alone is that part of the whole',
            always((value) => partsLaw(codec, parts, value)),
          ),
        ]),
    numbered(86, 'damaged bytes are refused', () => {
      fc.assert(
        fc.property(samples, choices, (sample, numbers) =>
          withValue(sample, (value) => damageLaw(codec, value, numbers)),
        ),
      )
      fc.assert(
        fc.property(fc.uint8Array({ maxLength: 200 }), (noise) => {
          scope(() => {
            codec.decode(noise)
            return undefined
          })
        }),
      )
    }),
  ]
}

import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { useEngine } from '../../../test/kit/engine.js'
import { type Codec, codecLaws } from '../src/codecLaws.js'
import { checkLaws } from '../src/law.js'

useEngine()

const texts = fc.string({ maxLength: 20 }).map((text) => ({ build: () => text }))

const refuse = (reason: string): E.Either<{ readonly reason: string }, never> => E.left({ reason })

/** Length, sum of the bytes in two forms, UTF-8: a small codec that notices damage. */
const sumOf = (bytes: Uint8Array): number => bytes.reduce((sum, byte, i) => (sum + byte * (2 * i + 1)) % 251, 7)

const good: Codec<string> = {
  damage: 'detected',
  equals: (a, b) => a === b,
  encode: (text) => {
    const body = new TextEncoder().encode(JSON.stringify(text))
    return Uint8Array.of(body.length, sumOf(body), ...body)
  },
  decode: (bytes) => {
    const body = bytes.subarray(2)
    if (bytes.length < 2 || bytes[0] !== body.length || bytes[1] !== sumOf(body)) return refuse('damaged')
    return E.tryCatch(
      () => String(JSON.parse(new TextDecoder().decode(body))),
      () => ({ reason: 'not JSON' }),
    )
  },
  parts: {
    names: (text) => [...text].map((_, i) => [String(i)]),
    get: (text, [i]) => [...text][Number(i)],
    decodeAt: (bytes, [i]) => E.Functor.map(good.decode(bytes), (text) => [...text][Number(i)]),
    equals: Object.is,
  },
}

describe('codecLaws of a good codec', () => {
  checkLaws(it, codecLaws(good, texts))

  it('are numbered, the third only if it has parts', () => {
    const { parts: _, ...whole } = good
    expect(codecLaws(good, texts).map(({ number }) => number)).toEqual([83, 84, 85, 86])
    expect(codecLaws(whole, texts).map(({ number }) => number)).toEqual([83, 84, 86])
  })
})

/** The numbers of the laws that a codec breaks. */
const broken = async (codec: Codec<string>): Promise<readonly number[]> => {
  const numbers: number[] = []
  for (const { number, check } of codecLaws(codec, texts)) {
    try {
      await check()
    } catch {
      numbers.push(number)
    }
  }
  return numbers
}

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text)
const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)

/** Knows how long it is, and nothing else. */
const lengthOnly: Pick<Codec<string>, 'encode' | 'decode'> = {
  encode: (text) => Uint8Array.of(utf8(text).length, ...utf8(text)),
  decode: (bytes) => (bytes[0] === bytes.length - 1 ? E.right(textOf(bytes.subarray(1))) : refuse('cut off')),
}

const { parts: goodParts } = good
let counter = 0

describe('codecLaws find', () => {
  it.each<[string, Codec<string>, readonly number[]]>([
    ['a value that is lost', { ...good, equals: () => false }, [83]],
    [
      'bytes that depend on more than the value',
      {
        ...good,
        encode: (text) => Uint8Array.of(...good.encode(text), counter++ & 255),
        decode: (bytes) => good.decode(bytes.subarray(0, -1)),
      },
      [84, 85], // reading parts does not know of the byte behind
    ],
    [
      'a tensor that writing leaves',
      {
        ...good,
        encode: (text) => {
          tf.scalar(1)
          return good.encode(text)
        },
      },
      [84],
    ],
    [
      'a part that is not that of the whole',
      { ...good, parts: { ...goodParts!, decodeAt: () => E.right('xy') } }, // the good codec has parts
      [85],
    ],
    [
      'a cut that goes unnoticed',
      { encode: utf8, decode: (bytes) => E.right(textOf(bytes)), equals: Object.is, damage: 'survived' },
      [86],
    ],
    ['a flipped bit that goes unnoticed', { ...lengthOnly, equals: Object.is, damage: 'detected' }, [86]],
    ['nothing if the codec promises less', { ...lengthOnly, equals: Object.is, damage: 'survived' }, []],
    [
      'an exception',
      {
        ...good,
        decode: (bytes) => {
          if (bytes.length < 2) throw new RangeError('crash')
          return good.decode(bytes)
        },
      },
      [86],
    ],
    [
      'bytes that reading changes',
      {
        ...good,
        decode: (bytes) => {
          const result = good.decode(bytes)
          if (E.isRight(result)) bytes[0] = 0
          return result
        },
      },
      [83, 84, 85],
    ],
  ])('%s', async (_, codec, laws) => {
    expect(await broken(codec)).toEqual(laws)
  })
})

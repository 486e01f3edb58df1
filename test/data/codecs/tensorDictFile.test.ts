import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crc32 as zlibCrc32 } from 'node:zlib'
import { crc32, orThrow } from '@tandem-rl/base'
import { anyHistory, anyTensorDict, checkLaws, codecLaws } from '@tandem-rl/testing'
import { History, message, sameHistory } from '@tandem-rl/text'
import { liveTensors, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { List, OrderedMap } from 'immutable'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ValueCodec } from '../../../src/data/codecs/plainValues.js'
import { readTensorDict, readTensorDictAt, writeTensorDict } from '../../../src/data/codecs/tensorDictFile.js'
import { decodeTensorDict, decodeTensorDictAt } from '../../../src/data/codecs/tensorDictFileRead.js'
import { encodeTensorDict, tensorDictParts } from '../../../src/data/codecs/tensorDictFileWrite.js'
import { equals } from '../../../src/data/tensorDict/compare.js'
import { toNested } from '../../../src/data/tensorDict/inspect.js'
import { type Data, data, meta, type Ragged, ragged } from '../../../src/data/tensorDict/leaf.js'
import {
  type Entry,
  find,
  isTensorDict,
  nodeOf,
  TensorDict,
  TensorDictError,
} from '../../../src/data/tensorDict/tensorDict.js'
import { countingFiles } from '../../kit/countingFiles.js'
import { useEngine } from '../../kit/engine.js'
import { anyAwkwardValue } from '../../kit/trajectories.js'

useEngine()

/** Every path, of nodes and of leaves. */
const pathsOf = (td: TensorDict, path: readonly string[] = []): readonly (readonly string[])[] => [
  path,
  ...td.entries
    .entrySeq()
    .toArray()
    .flatMap(([key, entry]) => (isTensorDict(entry) ? pathsOf(entry, [...path, key]) : [[...path, key]])),
]

/** The order of keys of every node: `equals` does not look at it. */
const keysOf = (td: TensorDict): unknown =>
  td.entries
    .entrySeq()
    .toArray()
    .map(([key, entry]) => [key, isTensorDict(entry) ? [entry.batchShape, keysOf(entry)] : null])

const sameOrder = (a: TensorDict, b: TensorDict): boolean =>
  equals(a, b) && JSON.stringify(keysOf(a)) === JSON.stringify(keysOf(b))

/** An entry by itself, whatever its batch shape, for comparison. */
const wrapped = (entry: unknown): TensorDict => nodeOf(OrderedMap([['entry', entry as Entry]]), []) // it came out of a TensorDict

describe('a TensorDict file', () => {
  checkLaws(
    it,
    codecLaws(
      {
        encode: encodeTensorDict,
        decode: decodeTensorDict,
        equals: sameOrder,
        damage: 'detected',
        parts: {
          names: pathsOf,
          get: find,
          decodeAt: decodeTensorDictAt,
          equals: (a, b) => (isTensorDict(a) && isTensorDict(b) ? sameOrder(a, b) : equals(wrapped(a), wrapped(b))),
        },
      },
      anyTensorDict(),
    ),
  )
})

/** One leaf of each kind, nodes of other batch shapes, an empty node. */
const example = (): TensorDict =>
  TensorDict(
    {
      '10': tf.tensor2d([
        [1, -0],
        [Number.NaN, Number.POSITIVE_INFINITY],
      ]),
      '9': tf.tensor1d([1, 0], 'bool'),
      __proto__x: meta({ seed: 1, name: 'run' }),
      tokens: ragged('int32', [[1, 2], []]),
      history: { prompt: data([History([message('user', 'Hello')]), History([])]) },
      inner: TensorDict({ count: tf.zeros([2, 3, 0], 'int32') }, [2, 3]),
      empty: {},
    },
    [2],
  )

const within = (check: () => void): void => {
  scope(() => {
    check()
    return undefined
  })
}

describe('encodeTensorDict and decodeTensorDict', () => {
  it('law 83: NaN keeps its payload, and zero its sign', () => {
    within(() => {
      const words = Uint32Array.of(0x7fc00001, 0xffc12345, 0x7f800001, 0x80000000, 1)
      const td = TensorDict(
        {
          x: tf.tensor1d(new Float32Array(words.buffer)),
          r: { ...ragged('float32', [[0]]), values: new Float32Array(words.buffer), offsets: Int32Array.of(0, 5) },
        },
        [],
      )
      const back = orThrow(decodeTensorDict(encodeTensorDict(td)))
      for (const key of ['x', 'r']) {
        const entry = find(back, [key])
        const { buffer, byteOffset } = Float32Array.prototype.subarray.call(
          entry instanceof tf.Tensor ? entry.dataSync() : (entry as Ragged).values, // both were written as float32
        )
        expect([...new Uint32Array(buffer, byteOffset, 5)]).toEqual([...words])
      }
    })
  })

  it('law 86: names of any kind are data, and keep their order', () => {
    within(() => {
      const names = ['b', '10', '9', '__proto__', 'a.b', '', 'constructor', '\ud800', '名前']
      const td = TensorDict(Object.fromEntries(names.map((name) => [name, meta(name)])), [])
      const back = orThrow(decodeTensorDict(encodeTensorDict(td)))
      expect([...back.entries.keys()]).toEqual([...td.entries.keys()])
      expect(toNested(back)).toEqual(toNested(td))
    })
  })

  it('keep plain values: histories, lists, records with marks, undefined, -0, NaN, halves of surrogate pairs', () => {
    const values = [
      [undefined, null, true, -0, Number.NaN, Number.NEGATIVE_INFINITY, 1e300, '\udfff"\\'],
      { $list: [1], $x: { $record: 2 }, nested: { $number: 'NaN' } },
      { $undefined: true },
      List([1, List([{ a: undefined }])]),
      History([message('assistant', 'x', { toolCalls: [{ name: 'f', arguments: { n: -0 } }] })]),
      JSON.parse('{"__proto__":{"a":1},"2":1,"1":2}') as unknown,
    ]
    const td = TensorDict({ values: data(values), all: meta(values) }, [values.length])
    const back = orThrow(decodeTensorDict(encodeTensorDict(td)))
    expect(equals(back, td)).toBe(true)
    expect(toNested(back).values).toEqual(toNested(td).values)
  })

  it('keep any history, as an immutable list of messages, and any value', () => {
    const law = fc.property(fc.array(anyHistory), anyAwkwardValue, (histories, value) => {
      const td = TensorDict({ h: data(histories), v: meta(value), list: data(histories.map(() => value)) }, [
        histories.length,
      ])
      const back = orThrow(decodeTensorDict(encodeTensorDict(td)))
      expect(equals(back, td)).toBe(true)
      expect(toNested(back)).toStrictEqual(toNested(td))
      const read = (find(back, ['h']) as Data<History>).items.toArray() // histories were written
      expect(read.every((each, i) => List.isList(each.messages) && sameHistory(each, histories[i]!))).toBe(true)
    })
    fc.assert(law)
  })

  it('write rows that are a part of a larger array as what they are', () => {
    const whole = { _tag: 'Ragged', type: 'int32', values: Int32Array.of(9, 1, 2, 9), offsets: [1, 2, 3] } as const
    const back = orThrow(decodeTensorDict(encodeTensorDict(TensorDict({ whole }, [2]))))
    expect(equals(back, TensorDict({ whole: ragged('int32', [[1], [2]]) }, [2]))).toBe(true)
  })

  it('refuse what has no place in a file, all of it at once, with the paths', () => {
    within(() => {
      const circle: Record<string, unknown> = {}
      circle.self = circle
      const freed = tf.tensor1d([1, 2])
      const td = TensorDict(
        {
          text: tf.tensor1d(['a', 'b']),
          complex: tf.complex(tf.zeros([2]), tf.zeros([2])),
          freed,
          inner: {
            maps: data([1, { at: [new Map()] }]),
            f: meta(() => 1),
            n: meta(2n ** 40_000n),
            s: meta({ [Symbol('x')]: 1 }),
          },
          circle: meta(circle),
          tensor: meta({ x: tf.scalar(1) }),
        },
        [2],
      )
      freed.dispose()
      let caught: unknown
      try {
        encodeTensorDict(td)
      } catch (error) {
        caught = error
      }
      expect(caught).toBeInstanceOf(TensorDictError)
      const { problems } = (caught as TensorDictError).details
      expect(problems!.map(({ path, reason }) => `${path.slice(0, 5).join('/')}: ${reason}`)).toEqual([
        'text: a tensor of string; put texts into data([...])',
        'complex: a tensor of complex64 has no place in a file',
        'freed: a tensor that has been freed',
        'inner/maps/1/at/0: an object of class Map cannot be written',
        'inner/f: a function cannot be written',
        'inner/n: a bigint of 10000 digits or more cannot be written',
        'inner/s: a record with keys that are symbols or hidden cannot be written',
        'circle/self: a value that contains itself cannot be written',
        expect.stringMatching(/^tensor\/x: an object of class .*Tensor.* cannot be written$/),
      ])
    })
  })

  it('refuse a tree that is too deep, and take one that is not', () => {
    const deep = (levels: number): TensorDict =>
      levels === 0 ? TensorDict({}, []) : TensorDict({ a: deep(levels - 1) }, [])
    expect(equals(orThrow(decodeTensorDict(encodeTensorDict(deep(200)))), deep(200))).toBe(true)
    expect(() => encodeTensorDict(deep(201))).toThrow(/more than 200 levels/)
  })

  it('share the memory of the bytes if they are asked to', () => {
    const bytes = encodeTensorDict(TensorDict({ r: ragged('int32', [[1, 2]]) }, [1]))
    const values = (options: { readonly memory?: 'copy' | 'share' }): Int32Array =>
      (find(orThrow(decodeTensorDict(bytes, options)), ['r']) as Ragged).values as Int32Array // int32 was written
    expect(values({ memory: 'share' }).buffer).toBe(bytes.buffer)
    expect(values({}).buffer).not.toBe(bytes.buffer)
  })

  it('begin every block at a multiple of 64 bytes, and come in pieces', () => {
    within(() => {
      const parts = tensorDictParts(example())
      let place = 0
      for (const part of parts) {
        if (part.length > 0 && !part.every((byte) => byte === 0)) expect(place % 64).toBe(0)
        place += part.length
      }
      expect(place).toBe(parts.byteLength)
      expect(Buffer.concat([...parts]).equals(encodeTensorDict(example()))).toBe(true)
    })
  })

  it('name the path where there is no entry, and the keys that there are', () => {
    within(() => {
      const bytes = encodeTensorDict(example())
      const reason = (path: readonly string[]) => E.swap(decodeTensorDictAt(bytes, path))
      expect(reason(['inner', 'none'])).toMatchObject({
        right: { reason: '"inner" > "none": no such entry; the keys are "count"' },
      })
      expect(reason(['9', 'x'])).toMatchObject({ right: { reason: '"9" > "x": no such entry; the keys are none' } })
    })
  })
})

describe("a codec for values of one's own", () => {
  const dates: ValueCodec = {
    name: 'date',
    encode: (value) => (value instanceof Date ? E.right(value.toISOString()) : E.left('no date')),
    decode: (plain) => (typeof plain === 'string' ? E.right(new Date(plain)) : E.left('not the text of a date')),
  }
  const codecAt = (path: readonly string[]): ValueCodec | undefined => (path.join('/') === 'when' ? dates : undefined)
  const td = TensorDict({ when: data([new Date(0), new Date(1e12)]), note: meta('x') }, [2])

  it('is used at its path, both ways', () => {
    const back = orThrow(decodeTensorDict(encodeTensorDict(td, { codecAt }), { codecAt }))
    expect(toNested(back)).toEqual(toNested(td))
  })

  it('is asked for by name when the file is read', () => {
    const reason = '"when": written with the codec "date", read with "plain"'
    expect(decodeTensorDict(encodeTensorDict(td, { codecAt }))).toMatchObject({ left: { reason } })
  })

  it('may refuse: a wrong call when writing, a failure when reading', () => {
    expect(() => encodeTensorDict(TensorDict({ when: data([1]) }, [1]), { codecAt })).toThrow(/at "when": no date/)
    const numbers = { ...dates, encode: () => E.right(1) }
    const bytes = encodeTensorDict(td, { codecAt: (path) => (codecAt(path) === undefined ? undefined : numbers) })
    expect(decodeTensorDict(bytes, { codecAt })).toMatchObject({ left: { reason: '"when": not the text of a date' } })
  })
})

describe('crc32', () => {
  it('is that of zlib', () => {
    const law = fc.property(fc.uint8Array({ maxLength: 120 }), (bytes) => {
      expect(crc32(bytes)).toBe(zlibCrc32(bytes))
    })
    fc.assert(law)
  })
})

describe('on disk', () => {
  let folder = ''
  const at = (name: string): string => join(folder, name)
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'tandem-td-'))
  })
  afterEach(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  /** Writes the example and forgets it. */
  const save = async (): Promise<void> => {
    const writing = scope(() => ({ run: writeTensorDict(at('x.td'), example()) }))
    orThrow(await writing.run())
  }

  it('the file holds the bytes of encodeTensorDict, also if the tensors are freed before it is written', async () => {
    await save()
    const expected = scope(() => ({ bytes: encodeTensorDict(example()) })).bytes
    expect((await readFile(at('x.td'))).equals(expected)).toBe(true)
    expect(await readdir(folder)).toEqual(['x.td'])
  })

  it('is read back whole, and the result owns its tensors', async () => {
    await save()
    const { files, seen } = countingFiles()
    const back = orThrow(await readTensorDict(at('x.td'), { files })())
    within(() => expect(sameOrder(back.value, example())).toBe(true))
    back.release()
    expect(seen).toEqual({ bytes: expect.any(Number), open: 0 })
  })

  it('law 85: an entry is read by its header and its own bytes alone', async () => {
    await save()
    const headerBytes = 32 + Number((await readFile(at('x.td'))).readBigUint64LE(16))
    for (const [path, bytes] of [
      [['10'], 16],
      [['9'], 2],
      [['tokens'], 16],
      [['inner'], 0],
      [['empty'], 0],
    ] as const) {
      const { files, seen } = countingFiles()
      const read = orThrow(await readTensorDictAt(at('x.td'), path, { files })())
      within(() => expect(equals(wrapped(read.value), wrapped(find(example(), path)))).toBe(true))
      read.release()
      expect(seen).toEqual({ bytes: headerBytes + bytes, open: 0 })
    }
  })

  it('that is malformed, or has no such entry, is a failure with its path; nothing stays open, no tensor is made', async () => {
    await save()
    const whole = await readFile(at('x.td'))
    const { count } = liveTensors()
    const { files, seen } = countingFiles()
    expect(await readTensorDictAt(at('x.td'), ['none'], { files })()).toMatchObject({
      left: { _tag: 'FormatFailure', where: at('x.td') },
    })
    for (const bytes of [new Uint8Array(3), whole.subarray(0, -1), Buffer.concat([whole, Buffer.of(0)])]) {
      await writeFile(at('x.td'), bytes)
      expect(await readTensorDict(at('x.td'), { files })()).toMatchObject({
        left: { format: 'TensorDict file', where: at('x.td') },
      })
    }
    const damaged = Buffer.from(whole)
    damaged[damaged.lastIndexOf('Hello')]! ^= 1
    await writeFile(at('x.td'), damaged)
    expect(await readTensorDict(at('x.td'), { files })()).toMatchObject({
      left: { reason: expect.stringContaining('checksum') },
    })
    expect(await readTensorDict(at('none'), { files })()).toMatchObject({ left: { code: 'ENOENT' } })
    expect(seen.open).toBe(0)
    expect(liveTensors().count).toBe(count)
  })
})

import { readFileSync } from 'node:fs'
import { orThrow } from '@tandem-rl/base'
import { openGguf, openGgufModel } from '@tandem-rl/gguf'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { type GgufTestTensor, ggufBytes } from './ggufBytes.js'
import { memoryFiles } from './memoryFiles.js'

const QWEN = readFileSync('packages/gguf/test/golden/models/gemma2.gguf')

const reasonOf = async (bytes: Uint8Array, path = 'a.gguf'): Promise<string> => {
  const { files, open } = memoryFiles({ [path]: bytes })
  const result = await openGguf(path, files)()
  if (E.isRight(result)) throw new Error('it was opened')
  expect(open()).toBe(0)
  return result.left.reason
}

const tensor = (name: string, given: Partial<GgufTestTensor> = {}): GgufTestTensor => ({
  name,
  sizes: [32, 2],
  type: 2,
  bytes: new Uint8Array(36),
  ...given,
})

describe('openGguf', () => {
  it('reads values of every type', async () => {
    const values = [
      ['u8', 0, 255],
      ['i8', 1, -1],
      ['u16', 2, 65_535],
      ['i16', 3, -2],
      ['u32', 4, 4_000_000_000],
      ['i32', 5, -3],
      ['f32', 6, 0.5],
      ['yes', 7, true],
      ['text', 8, 'é'],
      ['u64', 10, 2n ** 63n],
      ['i64', 11, -5n],
      ['f64', 12, 0.1],
      ['list', 9, [8, ['a', 'b']]],
      ['numbers', 9, [6, [1, 2.5]]],
      ['none', 9, [5, []]],
    ] as const
    const { files } = memoryFiles({ 'a.gguf': ggufBytes({ values }) })
    const { metadata } = orThrow(await openGguf('a.gguf', files)())
    expect(Object.fromEntries(metadata)).toEqual({
      ...Object.fromEntries(values.slice(0, 9).map(([key, , value]) => [key, value])),
      u64: 2n ** 63n,
      i64: -5,
      f64: 0.1,
      list: ['a', 'b'],
      numbers: [1, 2.5],
      none: [],
    })
  })

  it('reads a header that is longer than the first piece', async () => {
    const long = 'x'.repeat(3_000_000)
    const { files } = memoryFiles({ 'a.gguf': ggufBytes({ values: [['long', 8, long]], tensors: [tensor('t')] }) })
    const { metadata, entries } = orThrow(await openGguf('a.gguf', files)())
    expect(metadata.get('long')).toBe(long)
    expect(entries.get('t')!.shape).toEqual([2, 32])
  })

  it('joins the files of a split model, whichever of them is named', async () => {
    const part = (number: number, names: readonly string[]): Uint8Array =>
      ggufBytes({
        values: [
          ['split.no', 2, number],
          ['split.count', 2, 2],
          ['split.tensors.count', 5, 3],
          ...(number === 0 ? ([['general.name', 8, 'both']] as const) : []),
        ],
        tensors: names.map((name) => tensor(name)),
      })
    const { files, open } = memoryFiles({
      'm-00001-of-00002.gguf': part(0, ['a', 'b']),
      'm-00002-of-00002.gguf': part(1, ['c']),
    })
    for (const path of ['m-00001-of-00002.gguf', 'm-00002-of-00002.gguf']) {
      const model = orThrow(await openGguf(path, files)())
      expect([...model.entries.keys()].sort()).toEqual(['a', 'b', 'c'])
      expect(model.metadata.get('general.name')).toBe('both')
      expect(orThrow(await model.read('c')()).data).toHaveLength(64)
      orThrow(await model.close())
      expect(open()).toBe(0)
    }
    const alone = memoryFiles({ 'm-00001-of-00002.gguf': part(0, ['a', 'b']) })
    expect(E.isLeft(await openGguf('m-00001-of-00002.gguf', alone.files)())).toBe(true)
    expect(alone.open()).toBe(0)
    const twice = memoryFiles({
      'm-00001-of-00002.gguf': part(0, ['a', 'b']),
      'm-00002-of-00002.gguf': part(1, ['b']),
    })
    expect(await openGguf('m-00001-of-00002.gguf', twice.files)()).toMatchObject(
      E.left({ where: 'm-00002-of-00002.gguf', reason: 'tensor "b" is also in another file' }),
    )
    expect(twice.open()).toBe(0)
  })

  it.each([
    ['text that is not GGUF', new TextEncoder().encode('{"model": "no"}      '), /does not begin with GGUF/],
    ['an empty file', new Uint8Array(0), /ends in its header, at byte 0/],
    ['version 1', ggufBytes({ version: 1 }), /version 1 is not supported/],
    ['big-endian numbers', ggufBytes({ version: 3 << 24 }), /big-endian/],
    [
      'a key that occurs twice',
      ggufBytes({
        values: [
          ['a', 4, 1],
          ['a', 4, 2],
        ],
      }),
      /'a' occurs twice/,
    ],
    ['a tensor that occurs twice', ggufBytes({ tensors: [tensor('t'), tensor('t')] }), /"t" occurs twice/],
    ['a type of values that is not known', ggufBytes({ values: [['a', 13, 1]] }), /'a' has values of type 13/],
    ['a list of lists', ggufBytes({ values: [['a', 9, [9, []]]] }), /'a' is a list of lists/],
    ['a boolean of 2', ggufBytes({ values: [['a', 7, 2]] }), /'a' is a boolean of 2/],
    ['an alignment of 24', ggufBytes({ values: [['general.alignment', 4, 24]] }), /'general.alignment' is 24/],
    [
      'a type that cannot be restored',
      ggufBytes({ tensors: [tensor('t', { type: 10 })] }),
      /"t": the type Q2_K is not supported/,
    ],
    ['rows that are not whole blocks', ggufBytes({ tensors: [tensor('t', { sizes: [31] })] }), /rows of 31 numbers/],
    ['five axes', ggufBytes({ tensors: [tensor('t', { sizes: [32, 1, 1, 1, 1] })] }), /5 axes/],
    ['tensors that overlap', ggufBytes({ tensors: [tensor('t'), tensor('u', { offset: 32 })] }), /"t" and "u" overlap/],
    ['an offset between two places', ggufBytes({ tensors: [tensor('t', { offset: 8 })] }), /begins at 8/],
    [
      'data that the file does not have',
      ggufBytes({ tensors: [tensor('t', { sizes: [32, 1e6] })] }),
      /truncated or damaged/,
    ],
    ['a size beyond any file', ggufBytes({ tensors: [tensor('t', { sizes: [32, 2 ** 40] })] }), /truncated or damaged/],
    [
      'sizes with a product beyond any file',
      ggufBytes({ tensors: [tensor('t', { sizes: [2 ** 40, 2 ** 40] })] }),
      /has the shape/,
    ],
  ] as const)('refuses %s', async (_, bytes, reason) => {
    expect(await reasonOf(bytes)).toMatch(reason)
  })

  it('refuses a count that the file cannot have, without allocating it', async () => {
    const bytes = ggufBytes({ values: [['a', 9, [0, [1, 2, 3]]]] })
    new DataView(bytes.buffer).setBigUint64(24 + 8 + 1 + 4 + 4, 2n ** 40n, true) // the length of the list
    expect(await reasonOf(bytes)).toMatch(/'a' has 1099511627776 values/)
    new DataView(bytes.buffer).setBigUint64(24, 2n ** 63n, true) // the length of the key
    expect(await reasonOf(bytes)).toMatch(/larger than any file/)
  })

  it('ends a header at every place where a file is cut', async () => {
    const whole = new Uint8Array(QWEN)
    for (let length = 0; length < 2000; length += 7) {
      const { files, open } = memoryFiles({ 'a.gguf': whole.slice(0, length) })
      expect(E.isLeft(await openGguf('a.gguf', files)())).toBe(true)
      expect(open()).toBe(0)
    }
  })

  it('opens or refuses any change of a file, and closes what it refuses', async () => {
    const whole = new Uint8Array(QWEN)
    const change = fc.record({ at: fc.nat(3000), bytes: fc.uint8Array({ minLength: 1, maxLength: 8 }) })
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 4 }), async (changes) => {
        const bytes = whole.slice()
        for (const { at, bytes: given } of changes) bytes.set(given, at)
        const { files, open } = memoryFiles({ 'a.gguf': bytes })
        const model = await openGgufModel('a.gguf', files)()
        if (E.isRight(model)) {
          for (const name of model.right.shapes.keys()) await model.right.read(name)()
          orThrow(await model.right.close())
        }
        expect(open()).toBe(0)
      }),
      { numRuns: 200 },
    )
  })

  it('names a tensor that it does not have', async () => {
    const { files } = memoryFiles({ 'a.gguf': ggufBytes({ tensors: [tensor('t')] }) })
    const { read } = orThrow(await openGguf('a.gguf', files)())
    expect(() => read('u')).toThrow(/there is no tensor "u"/)
  })

  it('passes on a failure of the disk', async () => {
    const { files } = memoryFiles({})
    expect(await openGguf('a.gguf', files)()).toMatchObject(E.left({ _tag: 'FileFailure' }))
  })
})

import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { PlainArray } from '../../../../src/data/generation.js'
import { base64, base64Length } from '../../../../src/modules/remote/sglang/base64.js'
import { type PickleForm, pickledTensors, type TensorFloat } from '../../../../src/modules/remote/sglang/pickle.js'

interface Case extends Readonly<Record<PickleForm, string>> {
  readonly float: TensorFloat
  readonly tensors: Readonly<Record<string, { readonly shape: readonly number[]; readonly values: readonly number[] }>>
}

const golden: { readonly cases: readonly Case[] } = JSON.parse(
  readFileSync(new URL('../../../golden/sglangPickle.json', import.meta.url), 'utf8'),
)

const tensorsOf = ({ tensors }: Case): ReadonlyMap<string, PlainArray> =>
  new Map(
    Object.entries(tensors).map(([name, { shape, values }]) => [name, { shape, data: Float32Array.from(values) }]),
  )

const cases = golden.cases.flatMap((each) => (['list', 'dict'] as const).map((form) => ({ each, form })))

const piecesOf = fc.array(fc.uint8Array({ maxLength: 7 }), { maxLength: 6 })

describe('pickledTensors', () => {
  it.each(cases)('gives the bytes that PyTorch has loaded: a $form of $each.float', ({ each, form }) => {
    const sized = pickledTensors(tensorsOf(each), { form, float: each.float })
    expect(base64(sized)).toBe(each[form])
  })

  it('reports the number of bytes, and returns the same ones each time', () => {
    const shapes = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 3 })
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), shapes),
        fc.constantFrom<PickleForm>('list', 'dict'),
        fc.constantFrom<TensorFloat>('F32', 'F16', 'BF16'),
        (named, form, float) => {
          const tensors = new Map(
            Object.entries(named).map(([name, shape]) => {
              const data = new Float32Array(shape.reduce((product, size) => product * size, 1))
              return [`t${name}`, { shape, data }]
            }),
          )
          const sized = pickledTensors(tensors, { form, float })
          const first = Buffer.concat([...sized.pieces()])
          expect(first.length).toBe(sized.byteLength)
          expect(Buffer.concat([...sized.pieces()])).toEqual(first)
        },
      ),
    )
  })

  it('refuses a shape that is not that of the numbers, with every problem', () => {
    const tensors = new Map([
      ['a', { shape: [2], data: new Float32Array(3) }],
      ['b', { shape: [-1], data: new Float32Array(1) }],
    ])
    expect(() => pickledTensors(tensors, { form: 'list', float: 'F32' })).toThrow(/"a": 3 elements.*"b": 1 elements/)
  })
})

describe('base64', () => {
  it('is what Node writes, wherever the pieces end', () => {
    fc.assert(
      fc.property(piecesOf, (pieces) => {
        const all = Buffer.concat(pieces)
        expect(base64({ byteLength: all.length, pieces: () => pieces })).toBe(all.toString('base64'))
        expect(base64Length(all.length)).toBe(all.toString('base64').length)
      }),
    )
  })

  it('throws if other bytes come than were promised', () => {
    const of = (byteLength: number) => () => base64({ byteLength, pieces: () => [Uint8Array.of(1, 2)] })
    expect(of(1)).toThrow('expected 1 bytes, got 2')
    expect(of(3)).toThrow('expected 3 bytes, got 2')
  })
})

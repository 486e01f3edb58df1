/**
 * Files that the reference implementation made, and what it says about broken ones.
 * `test/golden/generate/safetensors.py` made both.
 */
import { readFileSync } from 'node:fs'
import { orThrow } from '@tandem-rl/base'
import { describe, expect, it } from 'vitest'
import { decodeSafetensors, encodeSafetensors } from '../../../src/data/codecs/safetensors.js'

const read = (name: string): Buffer => readFileSync(`test/golden/safetensors/${name}`)

interface Verdict {
  readonly title: string
  readonly file: string
  readonly accepted: boolean
  readonly difference?: string
}

const { files } = JSON.parse(read('verdicts.json').toString()) as { readonly files: readonly Verdict[] }
const { tensors } = JSON.parse(read('types.json').toString()) as {
  readonly tensors: Readonly<Record<string, { dtype: string; shape: readonly number[]; values: readonly string[] }>>
}

/** As Python prints it: -0.0 differs from 0. */
const shown = (value: number | bigint): string => (Object.is(value, -0) ? '-0' : String(value))

describe('a file of every type, made by the reference', () => {
  const bytes = read('types.safetensors')
  const { arrays, metadata } = orThrow(decodeSafetensors(bytes))

  it.each(Object.entries(tensors))('%s has its type, shape and numbers', (name, { dtype, shape, values }) => {
    const { type, shape: actual, data } = arrays.get(name)!
    expect({ type, shape: actual }).toEqual({ type: dtype, shape })
    const expected = values.map((text) =>
      data instanceof BigInt64Array || data instanceof BigUint64Array ? BigInt(text) : Number(text),
    )
    expect(Array.from<number | bigint, string>(data, shown)).toEqual(expected.map(shown))
  })

  it('has no other tensors, but one whose name needs escapes', () => {
    expect([...arrays.keys()].sort()).toEqual([...Object.keys(tensors), '名前 "quoted"\n'].sort())
  })

  it('is written back to the same bytes', () => {
    expect(Buffer.from(encodeSafetensors(arrays, { metadata })).equals(bytes)).toBe(true)
  })
})

describe('a file of which the reference has an opinion', () => {
  it.each(files.map((row) => [row.title, row] as const))('%s', (_, { file, accepted, difference }) => {
    const result = decodeSafetensors(Buffer.from(file, 'base64'))
    if (difference !== undefined) expect(accepted, 'a difference is about a file that the reference reads').toBe(true)
    expect(result._tag).toBe(accepted && difference === undefined ? 'Right' : 'Left')
    if (result._tag === 'Left') expect(result.left.reason).not.toBe('')
  })
})

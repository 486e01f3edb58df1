import { collectJsonLines, memoryBytes, describe as sentence } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { collectJson } from '../../../src/data/datasets/json.js'
import { leftOf, rightOf } from '../../kit/results.js'

const schema = z.object({ question: z.string(), level: z.number().int() })
const bytes = (text: string | Uint8Array) =>
  memoryBytes(typeof text === 'string' ? new TextEncoder().encode(text) : text, 'rows.json')
const read = (text: string | Uint8Array, maxBytes?: number) =>
  collectJson(bytes(text), { schema, ...(maxBytes !== undefined && { maxBytes }) })

const anyRows = fc.array(fc.record({ question: fc.string({ unit: 'binary' }), level: fc.integer() }))

describe('collectJson', () => {
  it('reads an array as JSON Lines reads its rows, whatever white space is around them', async () => {
    const law = fc.asyncProperty(anyRows, fc.constantFrom('', ' ', '\r\n\t', '\uFEFF'), async (rows, before) => {
      const lines = rows.map((row) => `${JSON.stringify(row)}\n`).join('')
      const asLines = await collectJsonLines(bytes(lines), { schema })()
      expect(await read(`${before}${JSON.stringify(rows, undefined, 1)}\n`)()).toEqual(asLines)
      expect(await read(lines)()).toEqual(asLines) // JSON Lines under the name .json
    })
    await fc.assert(law, { numRuns: 50 })
  })

  it('names every bad row of an array up to 100, counted from 1', async () => {
    const failure = await leftOf(read('[{"question":"a","level":1},{"question":2,"level":2},{"level":3}]'))
    expect(sentence(failure)).toMatch(/^rows.json, row 2: question: .*\(also row 3: question: /)
    const many = await leftOf(read(JSON.stringify(Array.from({ length: 500 }, () => 1))))
    expect(many).toMatchObject({ _tag: 'RowFailure', unit: 'row', others: expect.objectContaining({ length: 99 }) })
  })

  it.each([
    ['a cut file', '[{"question":"a","level":1},', /not JSON/],
    ['bytes that are not UTF-8', Uint8Array.of(0x5b, 0xff, 0x5d), /not UTF-8/],
    ['one object', '{\n"rows": []\n}', /line 1: not JSON/],
  ])('refuses %s', async (_, text, reason) => {
    expect(sentence(await leftOf(read(text)))).toMatch(reason)
  })

  it('refuses a row with an integer that a number would round', async () => {
    const text = '[{"question":"a","level":1},{"question":"a","level":12345678901234567890}]'
    const reason = expect.stringMatching(/^level: 12345678901234567890 is not a safe integer/)
    expect(await leftOf(read(text))).toMatchObject({ row: 2, reason })
  })

  it('refuses an array that is too large, and names the formats that have no such limit', async () => {
    const failure = await leftOf(read('[{"question":"a","level":1}]', 10))
    expect(sentence(failure)).toMatch(/an array of 28 bytes, more than the 10 .*: write it as JSON Lines or Parquet/)
    expect(E.isRight(await read('{"question":"a","level":1}', 10)())).toBe(true) // lines are read one by one
  })

  it('reads an empty array and an empty file as no rows', async () => {
    expect(await rightOf(read('[]'))).toEqual([])
    expect(await rightOf(read(''))).toEqual([])
  })
})

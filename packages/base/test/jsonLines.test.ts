import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { parseJsonLines } from '../src/jsonLines.js'

const schema = z.object({ question: z.string(), level: z.number().int() })
const parse = (text: string) => parseJsonLines(text, { schema, source: 'a.jsonl' })
const row = (level: number): string => JSON.stringify({ question: 'How many?', level })
const failureOf = (text: string) => {
  const result = parse(text)
  if (E.isRight(result)) throw new Error('the text was accepted')
  return result.left
}

const anyRows = fc.array(fc.record({ question: fc.string({ unit: 'binary' }), level: fc.integer() }))

describe('parseJsonLines', () => {
  it('reads back what was written, whatever the line ends', () => {
    fc.assert(
      fc.property(anyRows, fc.constantFrom('\n', '\r\n'), fc.boolean(), fc.boolean(), (rows, end, last, mark) => {
        const lines = rows.map((value) => JSON.stringify(value))
        const text = `${mark ? '\uFEFF' : ''}${lines.join(end)}${last ? end : ''}`
        expect(parse(text)).toEqual(E.right(rows))
      }),
    )
  })

  it('skips lines of white space, and counts them', () => {
    expect(parse(`\n${row(1)}\n \t\r\n${row(2)}\n\n`)).toMatchObject(E.right([{ level: 1 }, { level: 2 }]))
    expect(failureOf(`\n${row(1)}\n \t\r\n{"question":1}`).row).toBe(4)
  })

  it('names the line of the first bad row, wherever it is', () => {
    fc.assert(
      fc.property(fc.nat(20), fc.nat(20), (before, after) => {
        const good = (count: number): readonly string[] => Array.from({ length: count }, (_, i) => row(i))
        const text = [...good(before), '{"question":', ...good(after), 'nonsense'].join('\n')
        expect(failureOf(text)).toMatchObject({ _tag: 'RowFailure', source: 'a.jsonl', row: before + 1 })
      }),
    )
  })

  it.each([
    ['{"question": "a"', /^not JSON: /],
    ['{"question": "a"} {"level": 1}', /^not JSON: /],
    ['{"question": "a"}', /^level: .*number/],
    ['{"question": 3, "level": 1.5}', /^question: .*string.*; level: .*int/],
    ['"a"', /expected object/],
    ['null', /expected object/],
  ])('says what is wrong with %s', (text, reason) => {
    expect(failureOf(text).reason).toMatch(reason)
  })

  it.each([
    ['{"id": 12345678901234567890}', 'id: 12345678901234567890 is not a safe integer: write it as a string'],
    ['{"a": [{"b": 9007199254740993}]}', 'a.0.b: 9007199254740993 is not a safe integer: write it as a string'],
    ['-9007199254740993', '-9007199254740993 is not a safe integer: write it as a string'],
    ['{"x": 1e400}', 'the number 1e400 is too large at character 6'],
  ])('refuses the row %s, whose number would be another one', (line, reason) => {
    const read = parseJsonLines(`{}\n${line}\n`, { schema: z.unknown(), source: 'a.jsonl' })
    expect(read).toMatchObject({ left: { row: 2, reason } })
  })

  it('reads large numbers that are exact, and digits in texts', () => {
    const rows = [9007199254740992, 1e20, -0.1234567890123456, 1.5e300, '12345678901234567890', 'x 1e400']
    const text = rows.map((row) => JSON.stringify(row)).join('\n')
    expect(parseJsonLines(text, { schema: z.unknown(), source: 'a.jsonl' })).toEqual({ _tag: 'Right', right: rows })
  })

  it('has no rows in an empty text', () => {
    expect(parse('')).toEqual(E.right([]))
    expect(parse('\uFEFF\r\n')).toEqual(E.right([]))
  })

  it('splits lines at line feeds only', () => {
    const text = `{"question":"one\u2028line\u0085still","level":1}`
    expect(parse(text)).toEqual(E.right([{ question: 'one\u2028line\u0085still', level: 1 }]))
  })
})

import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { isJsonArray, isJsonNumber, isJsonObject, parseStrictJson, type StrictJson } from '../src/strictJson.js'

/** As `JSON.parse` gives it. */
const plain = (value: StrictJson): unknown => {
  if (isJsonNumber(value)) return Number(value.source)
  if (isJsonArray(value)) return value.map(plain)
  return isJsonObject(value) ? Object.fromEntries([...value].map(([key, item]) => [key, plain(item)])) : value
}

const nativelyParsed = (text: string): E.Either<string, unknown> =>
  E.tryCatch(() => JSON.parse(text) as unknown, String)

describe('parseStrictJson', () => {
  it('agrees with JSON.parse on JSON with and without blanks', () => {
    const law = fc.property(
      fc.jsonValue({ stringUnit: 'binary' }),
      fc.constantFrom(undefined, 1, '\t'),
      (value, blanks) => {
        const text = JSON.stringify(value, undefined, blanks)
        expect(E.Functor.map(parseStrictJson(text), plain)).toEqual(nativelyParsed(text))
      },
    )
    fc.assert(law)
  })

  it('refuses whatever JSON.parse refuses, and nothing else but what its description says', () => {
    const pieces = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"a"',
      '"',
      '\\',
      '1',
      '-',
      '0',
      '.5',
      'e3',
      ' ',
      'true',
      'null',
      'nul',
      '\n',
    )
    const law = fc.property(fc.array(pieces, { maxLength: 8 }), (parts) => {
      const [ours, theirs] = [parseStrictJson(parts.join('')), nativelyParsed(parts.join(''))]
      if (E.isLeft(theirs)) expect(ours._tag).toBe('Left')
      else if (E.isLeft(ours)) expect(ours.left).toMatch(/duplicate key/)
      else expect(plain(ours.right)).toEqual(theirs.right)
    })
    fc.assert(law, { numRuns: 2000 })
  })

  it('keeps the order of keys and the text of numbers', () => {
    const parsed = parseStrictJson('{"b":1.0,"10":-0,"9":18446744073709551615}')
    const pairs = E.isRight(parsed) && isJsonObject(parsed.right) ? [...parsed.right] : []
    expect(pairs.map(([key, value]) => [key, isJsonNumber(value) ? value.source : value])).toEqual([
      ['b', '1.0'],
      ['10', '-0'],
      ['9', '18446744073709551615'],
    ])
  })

  it.each([
    ['{"a":1,"a":1}', 'duplicate key "a" at character 10'],
    ['{"a":1,"\\u0061":1}', 'duplicate key "a" at character 15'],
    ['"\\ud800"', 'half of a surrogate pair at character 0'],
    ['1e999', 'a number out of range at character 0'],
    ['[1', "no ',' or ']' at character 2"],
    ['{"a" 1}', "no ':' at character 5"],
    ['{"a":1', "no ',' or '}' at character 6"],
    ['{1:2}', 'no key at character 1'],
    ['1 2', 'unexpected text after the end at character 2'],
    ['"a', 'a string without an end at character 0'],
    [`${'['.repeat(128)}1${']'.repeat(128)}`, 'more than 127 levels at character 127'],
    ['', 'no JSON value at character 0'],
  ])('says of %s what is wrong and where', (text, problem) => {
    expect(parseStrictJson(text)).toEqual(E.left(problem))
  })
})

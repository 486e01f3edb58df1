import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sentences } from '../../../../src/envs/rewards/ifEval/punkt.js'
import {
  escaped,
  foldCase,
  isBlankText,
  isLower,
  isUpper,
  occurrences,
  splitSpaces,
  stripEnd,
  stripText,
} from '../../../../src/envs/rewards/ifEval/pythonText.js'
import { wordTokens } from '../../../../src/envs/rewards/ifEval/wordTokens.js'

const anyText = fc.string({ unit: 'binary', maxLength: 60 })
const pieces = fc.constantFrom(
  'Dr.',
  'U.S.',
  'The',
  'e.g.',
  '1.',
  'A.',
  '. ',
  '? ',
  '...',
  ' ',
  '\n',
  '"',
  ')',
  '(',
  "can't",
  '--',
  ',',
  'x',
  'é',
  '😀',
  '\ud800',
)
const prose = fc.array(pieces, { maxLength: 30 }).map((parts) => parts.join(''))
const texts = fc.oneof(anyText, prose)

describe('white space is that of Python', () => {
  it.each([
    '\t',
    '\n',
    '\v',
    '\f',
    '\r',
    '\x1c',
    '\x1f',
    ' ',
    '\x85',
    '\xa0',
    '\u1680',
    '\u2003',
    '\u2028',
    '\u202f',
    '\u3000',
  ])('%j is', (space) => {
    expect([stripText(`${space}a${space}`), isBlankText(space), splitSpaces(`a${space}b`)]).toEqual([
      'a',
      true,
      ['a', 'b'],
    ])
  })

  it.each(['\ufeff', '\u200b', '\u180e', '\0'])('%j is not', (sign) => {
    expect([stripText(`${sign}a`), isBlankText(sign), splitSpaces(`a${sign}b`)]).toEqual([
      `${sign}a`,
      false,
      [`a${sign}b`],
    ])
  })
})

describe('case', () => {
  it.each([
    ['ABC', true, false],
    ['A1-', true, false],
    ['abc', false, true],
    ['Abc', false, false],
    ['12', false, false],
    ['', false, false],
    ['ǅ', false, false],
    ['ÉT', true, false],
    ['ªa', false, true],
  ])('of %j: upper %s, lower %s', (text, upper, lower) => {
    expect([isUpper(text), isLower(text)]).toEqual([upper, lower])
  })

  it('does not matter once it is folded, and folding keeps every character in its place', () => {
    expect(foldCase('STRAẞE ΣΊΣΥΦΟΣ \u212a İıſ')).toBe(foldCase('straße σίσυφος k iis'))
    fc.assert(
      fc.property(anyText, (text) => {
        expect([...foldCase(text)]).toHaveLength([...text].length)
        expect(foldCase(foldCase(text))).toBe(foldCase(text))
      }),
    )
  })
})

it('an escaped text is a pattern of itself', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      expect(new RegExp(`^(?:${escaped(text)})$`, 'u').test(text)).toBe(true)
    }),
  )
})

it('occurrences do not overlap, and are all there are', () => {
  expect(occurrences('aaaa', 'aa')).toEqual([0, 2])
  expect(occurrences('abab', 'c')).toEqual([])
})

describe('sentences', () => {
  it('are pieces of the text, in order, with nothing but white space between them', () => {
    fc.assert(
      fc.property(texts, (text) => {
        const rest = sentences(text).reduce((left, sentence) => {
          const at = left.indexOf(sentence)
          expect(at).toBeGreaterThanOrEqual(0)
          expect(isBlankText(left.slice(0, at))).toBe(true)
          return left.slice(at + sentence.length)
        }, text)
        expect(isBlankText(rest)).toBe(true)
      }),
    )
  })

  it('are none in a blank text, and end with no white space', () => {
    expect(sentences(' \n')).toEqual([])
    fc.assert(
      fc.property(texts, (text) => {
        for (const sentence of sentences(text)) expect(stripEnd(sentence)).toBe(sentence)
      }),
    )
  })
})

it('words have no white space in them, and leave no letter out', () => {
  const letters = (text: string): string => text.replace(/\P{L}/gu, '')
  fc.assert(
    fc.property(texts, (text) => {
      const words = wordTokens(text)
      expect(words.every((word) => word !== '' && splitSpaces(word).length === 1)).toBe(true)
      expect(letters(words.join(''))).toBe(letters(text))
    }),
  )
})

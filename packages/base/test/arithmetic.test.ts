/**
 * Arithmetic from text: what it gives, what it refuses, and that no text makes it work without
 * bounds.
 */
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import {
  type Arithmetic,
  type ArithmeticOptions,
  exactValue,
  floatValue,
  literalsOf,
  parseArithmetic,
} from '../src/arithmetic.js'
import { decimalOf, type Rational, rational } from '../src/rational.js'

const exact = (text: string, options: ArithmeticOptions = {}): string =>
  pipe(
    parseArithmetic(text, options),
    E.chain((tree) => exactValue(tree)),
    E.match(
      ({ kind, reason }) => `${kind}: ${reason}`,
      ({ numerator, denominator }) => `${numerator}${denominator === 1n ? '' : `/${denominator}`}`,
    ),
  )

const float = (text: string): number | string =>
  pipe(
    parseArithmetic(text),
    E.chain(floatValue),
    E.getOrElseW(({ kind, reason }) => `${kind}: ${reason}`),
  )

/**
 * A term in the language of this test, fully parenthesized, with its value computed apart from the
 * reader.
 */
interface Term {
  readonly text: string
  readonly value: Rational | undefined
}

const combined = (operator: string, a: Rational, b: Rational): Rational | undefined => {
  switch (operator) {
    case '+':
      return rational(a.numerator * b.denominator + b.numerator * a.denominator, a.denominator * b.denominator)
    case '-':
      return rational(a.numerator * b.denominator - b.numerator * a.denominator, a.denominator * b.denominator)
    case '*':
      return rational(a.numerator * b.numerator, a.denominator * b.denominator)
    default:
      return b.numerator === 0n ? undefined : rational(a.numerator * b.denominator, a.denominator * b.numerator)
  }
}

const term: fc.Arbitrary<Term> = fc.letrec<{ term: Term }>((tie) => ({
  term: fc.oneof(
    { maxDepth: 5, depthSize: 'small' },
    fc.nat(999).map((n) => ({ text: String(n), value: rational(BigInt(n)) })),
    fc.tuple(tie('term'), fc.constantFrom('+', '-', '*', '/'), tie('term')).map(([a, operator, b]) => ({
      text: `(${a.text}) ${operator}(${b.text})`,
      value: a.value && b.value && combined(operator, a.value, b.value),
    })),
  ),
})).term

describe('arithmetic that a model wrote', () => {
  it.each([
    ['2 + 3 * 4', '14'],
    ['(2 + 3) * 4', '20'],
    ['10 - 4 - 3', '3'],
    ['100 / 5 / 2', '10'],
    ['2 ^ 3 ^ 2', '512'],
    ['-2 ^ 2', '-4'],
    ['(-2) ^ 2', '4'],
    ['2 ^ -2', '1/4'],
    ['-3 * -4', '12'],
    ['7 % 3', '1'],
    ['-7 % 3', '2'],
    ['7 % -3', '-2'],
    ['0.1 + 0.2', '3/10'],
    ['.5 * 4', '2'],
    ['1 / 3 + 1 / 6', '1/2'],
    ['0 ^ 0', '1'],
    ['(-1) ^ 99999999999999999999', '-1'],
    ['6 × 7 − 84 ÷ 2', '0'],
    ['6 ⋅ 7 – 84 ∕ 2 ＋ 1 ∗ 3', '3'],
    ['\n12\t*\u00a03 ', '36'],
    ['+5', '5'],
  ])('%j is %s', (text, value) => {
    expect(exact(text)).toBe(value)
  })

  it.each([
    ['', 'syntax: expected a number or "(", found the end'],
    ['2 +', 'syntax: expected a number or "(", found the end'],
    ['2 * (3 + 4', 'syntax: expected ")" or an operator, found the end'],
    ['2 3', 'syntax: expected an operator, found "3" at character 3'],
    ['2 + x', 'syntax: expected a number or "(", found "x" at character 5'],
    ['1,000', 'syntax: expected an operator, found "," at character 2'],
    ['1.2.3', 'syntax: expected an operator, found ".3" at character 4'],
    ['.', 'syntax: expected a number or "(", found "." at character 1'],
    ['2 ** 3', 'syntax: expected a number or "(", found "*" at character 4'],
    ['()', 'syntax: expected a number or "(", found ")" at character 2'],
    ['1)', 'syntax: expected an operator, found ")" at character 2'],
    ['\ud800', 'syntax: expected a number or "(", found "\\ud800" at character 1'],
    ['1 + 😀', 'syntax: expected a number or "(", found "😀" at character 5'],
    ['globalThis', 'syntax: expected a number or "(", found "g" at character 1'],
    ['1 / 0', 'undefined: a quotient by 0'],
    ['1 % (2 - 2)', 'undefined: a remainder by 0'],
    ['0 ^ -1', 'undefined: a quotient by 0'],
    ['2 ^ 0.5', 'undefined: a power whose exponent is not an integer'],
    ['9 ^ 9 ^ 9 ^ 9', 'size: a value has more than 300 digits'],
    ['2 ^ (-99999999999999999999)', 'size: a value has more than 300 digits'],
    ['10 ^ 300', 'size: a value has more than 300 digits'],
    [`${'('.repeat(500)}1${')'.repeat(499)}`, 'size: more than 100 parentheses, signs and powers inside one another'],
    ['-'.repeat(1000), 'size: more than 100 parentheses, signs and powers inside one another'],
    ['1'.repeat(1001), 'size: 1001 characters, more than 1000'],
  ])('%j is refused: %s', (text, problem) => {
    expect(exact(text)).toBe(problem)
  })

  it('takes only the operators, numbers and signs that are allowed', () => {
    const countdown: ArithmeticOptions = { operators: ['+', '-', '*', '/'], numbers: 'integer', signs: 'refuse' }
    expect(exact('(3 + 4) * 2 / 7 - 1', countdown)).toBe('1')
    expect(exact('2 ^ 3', countdown)).toBe('syntax: expected + or - or * or /, found "^" at character 3')
    expect(exact('2 * 3 % 4', countdown)).toBe('syntax: expected + or - or * or /, found "%" at character 7')
    expect(exact('2 * 1.5', countdown)).toBe('syntax: expected an integer, found "1.5" at character 5')
    expect(exact('2 * -3', countdown)).toBe('syntax: expected a number or "(", found "-" at character 5')
  })

  it('law: has the value that the parenthesized term has', () => {
    fc.assert(
      fc.property(term, ({ text, value }) => {
        const expected = value === undefined ? 'undefined: a quotient by 0' : undefined
        const got = exact(text, { maxLength: 1e6 })
        if (expected !== undefined) expect(got).toBe(expected)
        else expect(got).toBe(`${value!.numerator}${value!.denominator === 1n ? '' : `/${value!.denominator}`}`)
      }),
    )
  })

  it('law: without parentheses it has the value that the same text has in JavaScript', () => {
    const chain = fc.array(fc.tuple(fc.constantFrom('+', '-', '*', '/'), fc.integer({ min: 1, max: 99 })), {
      maxLength: 12,
    })
    fc.assert(
      fc.property(fc.nat(99), chain, (first, rest) => {
        const text = [first, ...rest.map(([operator, n]) => `${operator} ${n}`)].join(' ')
        expect(float(text)).toBe(new Function(`return ${text}`)() as number) // the text is of digits and operators
      }),
    )
  })

  it('law: no text makes it throw, or give a number beyond the limit', () => {
    const characters = fc.string({ unit: fc.constantFrom(...'0123456789.+-*/%^() ×'), maxLength: 60 })
    fc.assert(
      fc.property(fc.oneof(characters, fc.string({ unit: 'binary' })), (text) => {
        const tree = parseArithmetic(text)
        if (E.isLeft(tree)) return
        const value = exactValue(tree.right, { maxDigits: 40 })
        if (E.isRight(value)) expect(String(value.right.numerator).length).toBeLessThanOrEqual(41)
        floatValue(tree.right)
      }),
      { numRuns: 200 },
    )
  })

  it('names the numbers of a term in their order, however long it is', () => {
    const numbers = Array.from({ length: 40_000 }, (_, i) => String(i % 10))
    const read = parseArithmetic(numbers.join('+'), { maxLength: 1e6 })
    expect(E.map(literalsOf)(read)).toEqual(E.right(numbers))
    expect(E.chain((tree: Arithmetic) => exactValue(tree))(read)).toEqual(E.right(rational(180_000n)))
    expect(E.map(literalsOf)(parseArithmetic('-(1.5 - 2) * 3'))).toEqual(E.right(['1.5', '2', '3']))
  })

  it('in floating point, has roots, and says what is no real number or too large', () => {
    expect(float('2 ^ 0.5')).toBe(Math.SQRT2)
    expect(float('(-2) ^ 0.5')).toBe('undefined: a value that is not a real number')
    expect(float('10 ^ 400')).toMatch(/^size: a value is beyond 1\.79/)
    expect(float('1 / (3 - 3)')).toBe('undefined: a quotient by 0')
    expect(float('0 ^ (-2)')).toBe('undefined: a quotient by 0')
    expect(float('5 % 0')).toBe('undefined: a remainder by 0')
    expect(float('-7 % 3')).toBe(2)
  })

  it('refuses a depth that the stack would not bear', () => {
    expect(() => parseArithmetic('1', { maxDepth: 1e6 })).toThrow(RangeError)
  })
})

describe('rational', () => {
  it('law: decimals are within half of the last place, and a half goes away from zero', () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 1, max: 1e6 }), fc.nat(12), (a, b, places) => {
        const shown = decimalOf(rational(BigInt(a), BigInt(b)), places)
        expect(shown).toMatch(/^-?\d+(\.\d*[1-9])?$/)
        const [whole = '', part = ''] = shown.split('.')
        const scaled = BigInt(whole + part.padEnd(places, '0'))
        const distance = 2n * (scaled * BigInt(b) - BigInt(a) * 10n ** BigInt(places))
        expect(distance <= BigInt(b) && distance >= -BigInt(b)).toBe(true)
      }),
    )
    expect(decimalOf(rational(-1n, 8n), 2)).toBe('-0.13')
    expect(decimalOf(rational(-1n, 1000n), 2)).toBe('0')
    expect(decimalOf(rational(5n, 2n), 0)).toBe('3')
  })

  it('refuses the denominator 0', () => {
    expect(() => rational(1n, 0n)).toThrow('denominator of 1 must not be 0')
  })
})

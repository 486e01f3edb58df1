import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sameAnswer } from '../../../../src/envs/rewards/math/sameAnswer.js'
import { anySpelling } from '../../../kit/spellings.js'

interface Pair {
  readonly a: string
  readonly b: string
  readonly mathVerify: boolean
  readonly isEquiv: boolean
}

const PAIRS = (JSON.parse(readFileSync('test/golden/mathAnswers.json', 'utf8')) as { readonly pairs: readonly Pair[] })
  .pairs // by its generator

/**
 * Intended differences from math-verify: our verdict, and the reason for that of math-verify.
 */
const OURS: readonly (readonly [a: string, b: string, ours: boolean, why: string])[] = [
  ['0.\\overline{3}', '\\frac{1}{3}', true, 'it does not read repeating decimals'],
  ['0.1\\overline{6}', '\\frac{1}{6}', true, 'it does not read repeating decimals'],
  ['12.5\\%', '12.5', true, 'it takes 50% for 50 but not 12.5% for 12.5; is_equiv takes both'],
  ['5\\text{ cm}', '5\\text{ m}', false, 'both checkers drop every unit, also where the two are different'],
  ['\\sqrt{-4}', '2i', true, 'it takes i for a variable'],
  ['e^{i\\pi}', '-1', true, 'it takes i for a variable'],
  ['i^2', '-1', true, 'it takes i for a variable'],
  ['(1+i)^2', '2i', true, 'it takes i for a variable'],
  ['\\frac{1}{1+i}', '\\frac{1-i}{2}', true, 'it takes i for a variable'],
  ['6.02\\times 10^{23}', '602\\times 10^{21}', true, 'it compares them in floating point'],
  ['n!', 'n(n-1)!', false, 'it knows the recurrence of the factorial; we know factorials of numbers only'],
  ['\\sin 30^\\circ', '\\frac{1}{2}', true, 'it drops the degree sign inside of a function too'],
  ['2516_8', '2516_9', false, 'it drops what stands below a number: the base'],
  ['5.', '5', true, 'it does not read a number that ends with a point'],
]

const oursOf = ({ a, b }: Pair): boolean | undefined => OURS.find(([x, y]) => x === a && y === b)?.[2]

/** Adversarial texts: all are read in bounded time, and none throws. */
const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc
    .array(
      fc.constantFrom(
        ...['\\frac', '\\sqrt', '{', '}', '(', ')', '[', ']', '1', '2', '10', 'x', 'y', '+', '-', '*', '/', '^', '_'],
        ...[
          ',',
          ';',
          '=',
          '<',
          '\\le',
          '\\text{cm}',
          '%',
          '^\\circ',
          '\\pi',
          'e',
          'i',
          '\\pm',
          '\\cup',
          '\\infty',
          '|',
        ],
        ...['\\{', '\\}', '!', '\\sin', '\\log', '\\begin{pmatrix}', '\\end{pmatrix}', '&', '\\\\', ' ', 'and', 'word'],
      ),
      { maxLength: 30 },
    )
    .map((pieces) => pieces.join('')),
)

describe('sameAnswer', () => {
  it('has a table of more than 200 pairs, of which a third are unequal', () => {
    expect(PAIRS.length).toBeGreaterThan(240)
    expect(PAIRS.filter(({ mathVerify }) => !mathVerify).length).toBeGreaterThan(PAIRS.length / 4)
    for (const [a, b] of OURS) expect(PAIRS.some((pair) => pair.a === a && pair.b === b)).toBe(true)
  })

  it.each(PAIRS.map((pair) => [pair.a, pair.b, oursOf(pair) ?? pair.mathVerify, pair] as const))(
    '%s and %s: %s, as math-verify says or for a reason',
    (a, b, expected, pair) => {
      expect(sameAnswer(a, b)).toBe(expected)
      expect(sameAnswer(b, a)).toBe(expected)
      if (oursOf(pair) === undefined) expect(pair.isEquiv && !expected).toBe(false) // whatever MATH's own rule calls equal is equal
    },
  )

  it('finds what sympy makes of 200 random expressions equal to them, and nothing that is added to it', () => {
    const { rows } = JSON.parse(readFileSync('test/golden/mathExpressions.json', 'utf8')) as {
      readonly rows: readonly (readonly [string, string, string])[]
    } // by its generator
    const wrong = rows.filter(
      ([a, same, other]) => !sameAnswer(a, same) || !sameAnswer(same, a) || sameAnswer(a, other),
    )
    expect([rows.length, wrong]).toEqual([200, []])
  })

  it('every answer of the table is itself', () => {
    for (const text of PAIRS.flatMap(({ a, b }) => [a, b])) expect([text, sameAnswer(text, text)]).toEqual([text, true])
  })

  it('is symmetric, and reflexive but for what says nothing, whatever the texts are', () => {
    fc.assert(
      fc.property(anyText, anyText, (a, b) => {
        expect(sameAnswer(a, b)).toBe(sameAnswer(b, a))
        if (/[A-Za-z0-9]/.test(a) && !/\\/.test(a)) expect(sameAnswer(a, a)).toBe(true)
      }),
      { numRuns: 500 },
    )
  })

  const fractions = fc.tuple(fc.integer({ min: -999, max: 999 }), fc.integer({ min: 1, max: 60 }))
  const spellings = ([n, d]: readonly [number, number], k: number): readonly string[] => [
    `\\frac{${n}}{${d}}`,
    `${n}/${d}`,
    `\\dfrac{${k * n}}{${k * d}}`,
    `-\\frac{${-n}}{${d}}`,
    `${n}\\cdot ${d}^{-1}`,
    `x = \\left(\\frac{${n}}{${d}}\\right)`,
    `\\$${n}/${d}\\text{ m}`,
    `\\boxed{${n}\\div${d}}`,
  ]

  it('a number in any markup, with any minus, currency and grouping, is the number and no other', () => {
    const law = fc.property(anySpelling(1), fc.integer({ min: 1, max: 9 }), ({ number, text }, other) => {
      expect(sameAnswer(text, String(number))).toBe(true)
      expect(sameAnswer(text, String(number + other))).toBe(false)
    })
    fc.assert(law, { numRuns: 500 })
  })

  it.each(['mathbf', 'boldsymbol', 'bm', 'textbf', 'text', 'emph', 'underline', 'mathrm', 'mathtt'])(
    'the style \\%s changes no number, but makes another variable of a letter if it is a style of mathematics',
    (style) => {
      const styled = (text: string): string => `\\${style}{${text}}`
      for (const number of ['5', '-3.5', '\\frac{1}{2}', '1,000', '(5, 3)', '2\\pi', '12\\%'])
        expect([number, sameAnswer(styled(number), number)]).toEqual([number, true])
      expect(sameAnswer(styled('\\frac12'), '12')).toBe(false)
      expect(sameAnswer(styled('5'), '6')).toBe(false)
      if (/^(?:mathbf|boldsymbol|bm)$/.test(style)) expect(sameAnswer(styled('v'), 'v')).toBe(false)
    },
  )

  it.each([
    ['{\\bf 5}', '5'],
    ['\\mathbf 5', '5'],
    ['\\large 5', '5'],
    ['\u00bd', '\\frac12'],
    ['2\u00be', '2\\frac34'],
  ])('%j is %j', (a, b) => {
    expect(sameAnswer(a, b)).toBe(true)
  })

  it('two spellings of fractions are equal exactly where the fractions are', () => {
    fc.assert(
      fc.property(fractions, fractions, fc.integer({ min: 1, max: 9 }), fc.nat(), fc.nat(), (a, b, k, i, j) => {
        const [x, y] = [spellings(a, k), spellings(b, k)]
        expect(sameAnswer(x[i % x.length]!, y[j % y.length]!)).toBe(a[0] * b[1] === b[0] * a[1])
        expect(sameAnswer(x[i % x.length]!, x[j % x.length]!)).toBe(true)
      }),
    )
  })

  it('a product of linear factors is what comes of multiplying it out, and nothing else', () => {
    const digit = fc.integer({ min: -9, max: 9 }).filter((n) => n !== 0)
    fc.assert(
      fc.property(digit, digit, digit, digit, (a, b, c, d) => {
        const product = `(${a}x+${b})(${c}x+${d})`
        const expanded = (constant: number) => `${a * c}x^2 + ${a * d + b * c}x + ${constant}`
        expect(sameAnswer(product, expanded(b * d))).toBe(true)
        expect(sameAnswer(product, expanded(b * d + 1))).toBe(false)
      }),
    )
  })

  it('a denominator with a root is rationalized', () => {
    const number = fc.integer({ min: 2, max: 30 })
    fc.assert(
      fc.property(number, number, fc.integer({ min: 2, max: 20 }), (a, b, c) => {
        fc.pre(a * a !== b)
        expect(sameAnswer(`\\frac{${c}}{${a}+\\sqrt{${b}}}`, `\\frac{${c}(${a}-\\sqrt{${b}})}{${a * a - b}}`)).toBe(
          true,
        )
        expect(sameAnswer(`\\frac{${c}}{${a}+\\sqrt{${b}}}`, `\\frac{${c}(${a}+\\sqrt{${b}})}{${a * a - b}}`)).toBe(
          false,
        )
      }),
    )
  })

  it('lists and sets are equal in any order, tuples in theirs', () => {
    const numbers = fc.uniqueArray(fc.integer({ min: -50, max: 50 }), { minLength: 2, maxLength: 5 })
    fc.assert(
      fc.property(numbers, (items) => {
        const turned = [...items].reverse()
        expect(sameAnswer(items.join(', '), turned.join(', '))).toBe(true)
        expect(sameAnswer(`\\{${items.join(',')}\\}`, turned.join(', '))).toBe(true)
        expect(sameAnswer(`(${items.join(', ')})`, `(${turned.join(', ')})`)).toBe(false)
        expect(sameAnswer(items.join(', '), items.slice(1).join(', '))).toBe(false)
      }),
    )
  })

  it.each([
    ['thousands in brackets are values', '(1,000)', '1000', false],
    ['an interval is no other for an end more', '[1,2]', '[1,2)', false],
    ['an equation of two names is no value', 'x+y=3', '3', false],
    ['words are no products of letters', 'seat', 'east', false],
    ['nothing is equal to what has no value', '1/0', '2/0', false],
    ['numbers beyond floating point are not mixed up', '10^{400}+1', '10^{400}', false],
    ['powers that cannot be written down are equal as texts alone', '9^{9^{9}}', '9^{9^{8}}', false],
    ['a unit has one spelling or another', '5 square centimeters', '5\\text{ cm}^2', true],
    ['speeds are units too', '10\\text{ km/h}', '10 km/h', true],
    ['mixed numbers in plain text', '-2 1/2', '-2.5', true],
    ['unicode signs', '−√2 ÷ 2', '-\\frac{\\sqrt2}{2}', true],
    ['words of mathematics in plain text', '2sqrt(3) + pi', '\\pi+2\\sqrt{3}', true],
    ['the solutions of an inequality in two parts', 'x<-1 \\text{ or } x>1', '(-\\infty,-1)\\cup(1,\\infty)', true],
    ['an answer that belongs to a set', 'x\\in[0,1]', '0\\le x\\le 1', true],
    ['a vector in two notations', '\\langle 1,2\\rangle', '\\begin{pmatrix}1\\\\2\\end{pmatrix}', true],
    ['a range of signs', '\\pm 1, 3', '3, -1, 1', true],
    ['functions of sums', '\\ln(x+1)', '\\ln(1+x)', true],
    ['the absolute value is not the value', '|x|', 'x', false],
    ['a computation that is right', '2^{10}=1024', '1024', true],
    ['a computation that is wrong', '2^{10}=1000', '1000', false],
    ['an equation of three sides that are not the same', 'x=3=4', '4', false],
    ['an exact value with what it is about', '\\sqrt2\\approx 1.414', '\\sqrt{2}', true],
    ['letters in one text', '\\text{A, B}', 'B, A', true],
    ['emphasis', '**42**', '42', true],
    ['a command without braces', '\\frac{270}7\\text{ degrees}', '\\frac{270}{7}', true],
    ['a point in equations', 'x=2, y=3', '(2,3)', true],
    ['thousands with a thin blank', '32,\\! 349', '32349', true],
    ['a relation in ASCII', 'x>=3', 'x \\ge 3', true],
    ['another relation in ASCII', 'x<=3', 'x \\le 3', true],
    ['what is not equal in ASCII', 'x != 3', 'x \\ne 3', true],
    ['the factorial before an equals sign', '5!=120', '120', true],
    ['a pair that is named', '(p,q)=(3,2)', '(3,2)', true],
    ['a pair that is named, and its values', '(p, q) = (3,2)', 'q=2, p=3', true],
    ['three that are named', '(a,b,c)=(1,2,3)', '(1,2,3)', true],
    ['pairs, each of them named', '(1,2), (3,4)', '(x,y)=(1,2) or (x,y)=(3,4)', true],
    ['a segment', '|AB|=1', '1', true],
    ['a segment in large bars', '\\left|AB\\right|=1', '1', true],
    ['several boxes', '\\boxed{1} and \\boxed{2}', '1, 2', true],
    ['an angle', '\\angle ABC=30^\\circ', '30^\\circ', true],
    ['the measure of an angle', 'm\\angle A = 60', '60^\\circ', true],
    ['a large number in words', '2.5 million', '2500000', true],
    ['dozens', '3 dozen eggs', '36', true],
    ['an area in words', '5 cm squared', '5\\text{ cm squared}', true],
    ['an answer in a sentence', 'The answer is 5', '5', true],
    ['infinity less infinity', '\\infty-\\infty', '0', false],
    ['infinity by infinity', '\\infty/\\infty', '1', false],
    ['no times infinity', '0\\cdot\\infty', '0', false],
    ['infinity to the power of 0', '\\infty^0', '1', false],
    ['infinity in a sum', '\\infty-\\infty+3', '3', false],
    ['infinity in an inequality', 'x<\\infty-\\infty', 'x<0', false],
    ['the two infinities', '-\\infty', '\\infty', false],
    ['a pole less itself', '\\ln 0-\\ln 0', '0', false],
    ['a pole by itself', '\\log 0 / \\log 0', '1', false],
    ['a pole of the tangent', '\\tan 90^\\circ-\\tan 90^\\circ', '0', false],
    ['what is outside of a domain', '\\arcsin 2-\\arcsin 2', '0', false],
    ['a closed interval and its ends', '[1,2]', '1 or 2', false],
    ['a closed interval and a list', '[1,2]', '1, 2', false],
    ['a half-open interval and a list', '(1,2]', '1,2', false],
    ['a pair and one of two', '(1,2)', '1 or 2', false],
    ['a pair and two signs', '(1,-1)', '\\pm 1', false],
    ['a vector and one of two', '\\langle 1,2\\rangle', '1 or 2', false],
    ['an interval and a set', '[1,2]', '\\{1,2\\}', false],
    ['names in another order', '(x,y)=(3,2)', '(y,x)=(3,2)', false],
    ['values under other names', '(x,y)=(3,2)', 'y=3, x=2', false],
    ['a named pair in another order', '(p,q)=(3,2)', '(2,3)', false],
    ['a named pair and one of two', '(p,q)=(3,2)', '3 or 2', false],
    ['an absolute value that is no segment', '|x|=1', '1', false],
    ['the factorial and what is not equal', '5!=120', '5 \\ne 120', false],
    ['what is not equal to the number', 'x != 3', '3', false],
    ['what is less', 'less than 5', '5', false],
    ['what is not', 'not 5', '5', false],
    ['what is not, in LaTeX', '\\text{not }5', '5', false],
    ['the sign in a word', 'negative 5', '5', false],
    ['a sign in another word', 'minus 5', '5', false],
    ['twice a number', 'twice 5', '5', false],
    ['a number and more', '5\\text{ or greater}', '5', false],
    ['a wrong number', '5 is wrong', '5', false],
    ['a large number and a small one', '5 million', '5', false],
    ['dozens and units', '5 dozen', '5', false],
    ['the square in a word', '5 squared', '5', false],
    ['parts in a word', '5 halves', '5', false],
    ['a remainder', '5 modulo 7', '5', false],
    ['base 10 and e are two', '\\log 2', '\\ln 2', false],
  ])('%s: %s and %s', (_, a, b, expected) => {
    expect(sameAnswer(a, b)).toBe(expected)
    expect(sameAnswer(b, a)).toBe(expected)
  })

  it.each([
    ['deep groups', `${'{'.repeat(400)}1${'}'.repeat(400)}`],
    ['deep brackets', `${'('.repeat(400)}1${')'.repeat(400)}`],
    ['deep fractions', '\\frac1'.repeat(150)],
    ['deep roots', `${'\\sqrt'.repeat(150)}2`],
    ['a tower of powers', `${'9^'.repeat(300)}9`],
    ['a huge number', '9'.repeat(990)],
    ['a huge exponent', '1e9999'],
    ['a power of a sum', `${'(a+b+c+d+e+f)^{99}'.repeat(40)}`],
    ['factorials of factorials', '9!!!!!!'],
    ['a long list', Array.from({ length: 300 }, (_, i) => i % 10).join(', ')],
    ['a sum of roots of large numbers', Array.from({ length: 60 }, (_, i) => `\\sqrt{${10 ** 12 + i}}`).join('+')],
    ['an open environment', '\\begin{pmatrix}'.repeat(60)],
    ['minus signs', `${'-'.repeat(900)}1`],
    ['lone surrogates', '\ud800\udc00\ud800'],
  ])('reads %s in bounded time, and takes it for nothing else', (_, text) => {
    expect(sameAnswer(text, '7919')).toBe(false)
    expect(sameAnswer('7919', text)).toBe(false)
  })
})

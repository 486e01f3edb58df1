/**
 * Arithmetic in untrusted text: parsed into a tree and evaluated exactly or in floating point.
 * Nothing can run as code, and the work is bounded for every text.
 */
import * as E from 'fp-ts/lib/Either.js'
import { floorOf, type Rational, rational } from './rational.js'

type Operator = '+' | '-' | '*' | '/' | '%' | '^'

/** A term. `at` is its position in the text; for an operation, the position of the operator. */
export type Arithmetic =
  /** Digits as they are written. */
  | { readonly _tag: 'Literal'; readonly text: string; readonly at: number }
  | { readonly _tag: 'Negation'; readonly of: Arithmetic; readonly at: number }
  | {
      readonly _tag: 'Operation'
      readonly operator: Operator
      readonly left: Arithmetic
      readonly right: Arithmetic
      readonly at: number
    }

/**
 * `syntax`: the text is not arithmetic; `size`: it exceeds a limit; `undefined`: it has no value,
 * such as a quotient by 0.
 */
export interface ArithmeticFailure {
  readonly _tag: 'ArithmeticFailure'
  readonly kind: 'syntax' | 'size' | 'undefined'
  readonly reason: string
}

export interface ArithmeticOptions {
  /** Operators that are allowed between two terms. Default: all. */
  readonly operators?: readonly Operator[]
  /** Default `decimal`: digits may contain or follow a decimal point. */
  readonly numbers?: 'integer' | 'decimal'
  /** With `allow`, a term may have a `-` or `+` in front. Default `allow`. */
  readonly signs?: 'allow' | 'refuse'
  /** The maximum number of UTF-16 units of the text. Default 1,000. */
  readonly maxLength?: number
  /** The maximum nesting of parentheses, signs and powers, at most 1,000. Default 100. */
  readonly maxDepth?: number
}

type Result<T> = E.Either<ArithmeticFailure, T>

const failed = (kind: ArithmeticFailure['kind'], reason: string): E.Either<ArithmeticFailure, never> =>
  E.left({ _tag: 'ArithmeticFailure', kind, reason })

const ALL: readonly Operator[] = ['+', '-', '*', '/', '%', '^']

/** Typographic signs for the operators. */
const SAME: ReadonlyMap<string, string> = new Map([
  ...[...'×·⋅∗'].map((sign) => [sign, '*'] as const),
  ...[...'÷∕'].map((sign) => [sign, '/'] as const),
  ...[...'−–﹣－'].map((sign) => [sign, '-'] as const),
  ['＋', '+'],
])

interface Token {
  readonly text: string
  readonly at: number
}

const TOKEN = /\s*(?:(\d+(?:\.\d+)?|\.\d+)|(.)|$)/suy

const tokensOf = (text: string): readonly Token[] => {
  const pattern = new RegExp(TOKEN)
  const tokens: Token[] = []
  while (pattern.lastIndex < text.length) {
    const [, digits, sign] = pattern.exec(text)! // it matches any text
    const found = digits ?? sign
    if (found !== undefined) tokens.push({ text: SAME.get(found) ?? found, at: pattern.lastIndex - found.length })
  }
  return tokens
}

/** The precedence of an operator. A sign has that of a product, so that `-2^2` is `-(2^2)`. */
const STRENGTH: Readonly<Record<Operator, number>> = { '+': 1, '-': 1, '*': 2, '/': 2, '%': 2, '^': 3 }
const SIGN = 2

const isOperator = (text: string): text is Operator => Object.hasOwn(STRENGTH, text)

interface Reading {
  readonly tokens: readonly Token[]
  readonly operators: readonly Operator[]
  readonly numbers: NonNullable<ArithmeticOptions['numbers']>
  readonly signs: NonNullable<ArithmeticOptions['signs']>
  readonly maxDepth: number
}

/** The position of the parser. */
interface Place {
  readonly next: number
  readonly depth: number
}

type Part = Result<{ readonly tree: Arithmetic; readonly next: number }>

/** Formats a token for messages, with unprintable characters escaped. */
const shown = (token: Token | undefined): string =>
  token === undefined ? 'the end' : `${JSON.stringify(token.text)} at character ${token.at + 1}`

const readTerm = (reading: Reading, { next, depth }: Place): Part => {
  const token = reading.tokens[next]
  if (depth > reading.maxDepth) {
    return failed('size', `more than ${reading.maxDepth} parentheses, signs and powers inside one another`)
  }
  if (token === undefined) return failed('syntax', 'expected a number or "(", found the end')
  if (/^[.\d]/.test(token.text) && token.text !== '.') {
    return reading.numbers === 'integer' && token.text.includes('.')
      ? failed('syntax', `expected an integer, found ${shown(token)}`)
      : E.right({ tree: { _tag: 'Literal', ...token }, next: next + 1 })
  }
  if (token.text === '(') {
    const inner = readSum(reading, { next: next + 1, depth: depth + 1 }, 0)
    if (E.isLeft(inner)) return inner
    const close = reading.tokens[inner.right.next]
    return close?.text === ')'
      ? E.right({ tree: inner.right.tree, next: inner.right.next + 1 })
      : failed('syntax', `expected ")" or an operator, found ${shown(close)}`)
  }
  if ((token.text === '-' || token.text === '+') && reading.signs === 'allow') {
    const inner = readSum(reading, { next: next + 1, depth: depth + 1 }, SIGN)
    if (E.isLeft(inner) || token.text === '+') return inner
    return E.right({ tree: { _tag: 'Negation', of: inner.right.tree, at: token.at }, next: inner.right.next })
  }
  return failed('syntax', `expected a number or "(", found ${shown(token)}`)
}

/** Reads a term, and the operations after it whose operators bind more tightly than `above`. */
const readSum = (reading: Reading, place: Place, above: number): Part => {
  const first = readTerm(reading, place)
  if (E.isLeft(first)) return first
  let { tree: left, next } = first.right
  for (;;) {
    const token = reading.tokens[next]
    if (token === undefined || !isOperator(token.text) || STRENGTH[token.text] <= above) break
    const operator = token.text
    if (!reading.operators.includes(operator)) {
      return failed('syntax', `expected ${reading.operators.join(' or ')}, found ${shown(token)}`)
    }
    // A power is right-associative: operators of the same precedence belong to its exponent.
    const isPower = operator === '^'
    const inner = { next: next + 1, depth: isPower ? place.depth + 1 : place.depth }
    const right = readSum(reading, inner, isPower ? STRENGTH[operator] - 1 : STRENGTH[operator])
    if (E.isLeft(right)) return right
    left = { _tag: 'Operation', operator, left, right: right.right.tree, at: token.at }
    next = right.right.next
  }
  return E.right({ tree: left, next })
}

/**
 * Parses sums, differences, products, quotients, remainders and powers of numbers, with parentheses
 * and signs. `^` binds most tightly and is right-associative, then signs, then `* / %`, then `+ -`.
 * The signs × · ÷ − are read as * * / -. White space is allowed between terms.
 *
 * Errors   `Left(ArithmeticFailure)`: `syntax` with the expected and the actual text, `size` beyond
 *          the limits of length and depth. Throws RangeError for a `maxDepth` above 1,000, which
 *          could overflow the stack.
 * Cost     O(length).
 *
 * @example
 * parseArithmetic('2 * (3 + 4').left.reason // 'expected ")" or an operator, found the end'
 */
export const parseArithmetic = (text: string, options: ArithmeticOptions = {}): Result<Arithmetic> => {
  const { operators = ALL, numbers = 'decimal', signs = 'allow', maxLength = 1000, maxDepth = 100 } = options
  if (!(maxDepth >= 0 && maxDepth <= 1000)) {
    throw new RangeError(`parseArithmetic: maxDepth must be between 0 and 1000, got ${maxDepth}`)
  }
  if (text.length > maxLength) return failed('size', `${text.length} characters, more than ${maxLength}`)
  const tokens = tokensOf(text)
  const read = readSum({ tokens, operators, numbers, signs, maxDepth }, { next: 0, depth: 0 }, 0)
  if (E.isLeft(read)) return read
  const rest = tokens[read.right.next]
  return rest === undefined ? E.right(read.right.tree) : failed('syntax', `expected an operator, found ${shown(rest)}`)
}

/**
 * Returns the operations down the left side of a tree, innermost first, and the first term. It is
 * iterative, because sums may be long.
 */
const leftSide = (tree: Arithmetic): LeftSide => {
  const steps: Operation[] = []
  let first = tree
  while (first._tag === 'Operation') {
    steps.push(first)
    first = first.left
  }
  return { first, steps: steps.reverse() }
}

type Operation = Extract<Arithmetic, { readonly _tag: 'Operation' }>

interface LeftSide {
  readonly first: Exclude<Arithmetic, Operation>
  readonly steps: readonly Operation[]
}

/**
 * Returns the numbers of a term as they are written, from left to right.
 *
 * @example
 * literalsOf(parseArithmetic('12 - (3 + 12)').right) // ['12', '3', '12']
 */
export const literalsOf = (tree: Arithmetic): readonly string[] => {
  const { first, steps } = leftSide(tree)
  const begun = first._tag === 'Literal' ? [first.text] : literalsOf(first.of)
  return [...begun, ...steps.flatMap(({ right }) => literalsOf(right))]
}

/** The operations on one kind of value. */
interface Values<T> {
  readonly read: (digits: string) => Result<T>
  readonly negate: (of: T) => T
  readonly combine: (operator: Operator, left: T, right: T) => Result<T>
}

const evaluate = <T>(values: Values<T>, tree: Arithmetic): Result<T> => {
  const { first, steps } = leftSide(tree)
  let value = first._tag === 'Negation' ? E.map(values.negate)(evaluate(values, first.of)) : values.read(first.text)
  for (const { operator, right } of steps) {
    if (E.isLeft(value)) return value
    const other = evaluate(values, right)
    if (E.isLeft(other)) return other
    value = values.combine(operator, value.right, other.right)
  }
  return value
}

const bitsOf = (n: bigint): number => 4 * n.toString(16).length

const raised = (base: Rational, exponent: number): Rational => {
  const [up, down] = [base.numerator ** BigInt(Math.abs(exponent)), base.denominator ** BigInt(Math.abs(exponent))]
  return exponent < 0 ? rational(down, up) : { numerator: up, denominator: down }
}

const exactly = (operator: Exclude<Operator, '^'>, left: Rational, right: Rational): Rational => {
  const [a, b] = [left.numerator, left.denominator]
  const [c, d] = [right.numerator, right.denominator]
  switch (operator) {
    case '+':
      return rational(a * d + c * b, b * d)
    case '-':
      return rational(a * d - c * b, b * d)
    case '*':
      return rational(a * c, b * d)
    case '/':
      return rational(a * d, b * c)
    case '%': {
      const times = floorOf(rational(a * d, b * c))
      return rational(a * d - times * c * b, b * d)
    }
  }
}

const readExactly = (digits: string): Rational => {
  const [whole = '', part = ''] = digits.split('.')
  return rational(BigInt(whole + part), 10n ** BigInt(part.length))
}

const zeroProblem = (operator: Operator): Result<never> =>
  failed('undefined', operator === '%' ? 'a remainder by 0' : 'a quotient by 0')

/**
 * Computes the value as a fraction in lowest terms. `a % b` is `a - b * floor(a / b)`, which has
 * the sign of `b`; exponents are integers; `0 ^ 0` is 1.
 *
 * Errors   `Left(ArithmeticFailure)`: `undefined` for a quotient or remainder by 0, and for an
 *          exponent that is not an integer; `size` for a value or an intermediate value with more
 *          digits than `maxDigits` (default 300) in its numerator or denominator.
 * Cost     O(operations · digits²).
 *
 * @example
 * exactValue(parseArithmetic('0.1 + 0.2').right).right // { numerator: 3n, denominator: 10n }
 */
export const exactValue = (
  tree: Arithmetic,
  { maxDigits = 300 }: { readonly maxDigits?: number } = {},
): Result<Rational> => {
  const limit = 10n ** BigInt(maxDigits)
  const tooLarge = failed('size', `a value has more than ${maxDigits} digits`)
  const within = (value: Rational): Result<Rational> =>
    value.numerator < limit && value.numerator > -limit && value.denominator < limit ? E.right(value) : tooLarge
  const power = (base: Rational, exponent: Rational): Result<Rational> => {
    if (exponent.denominator !== 1n) return failed('undefined', 'a power whose exponent is not an integer')
    if (base.numerator === 0n && exponent.numerator < 0n) return zeroProblem('/')
    if (exponent.numerator === 0n) return E.right(rational(1n))
    const isUnit = base.denominator === 1n && base.numerator <= 1n && base.numerator >= -1n
    if (isUnit) return E.right(exponent.numerator % 2n === 0n ? rational(base.numerator ** 2n) : base)
    const bits = Math.max(bitsOf(base.numerator), bitsOf(base.denominator)) - 4
    const times = Number(exponent.numerator) // far beyond the limit if it is not exact
    if (Math.abs(times) * Math.max(bits, 1) > 4 * maxDigits) return tooLarge
    return within(raised(base, times))
  }
  return evaluate<Rational>(
    {
      read: (digits) => within(readExactly(digits)),
      negate: ({ numerator, denominator }) => ({ numerator: -numerator, denominator }),
      combine: (operator, left, right) => {
        if (operator === '^') return power(left, right)
        const isQuotient = operator === '/' || operator === '%'
        return isQuotient && right.numerator === 0n ? zeroProblem(operator) : within(exactly(operator, left, right))
      },
    },
    tree,
  )
}

const inFloats = (operator: Operator, left: number, right: number): number => {
  switch (operator) {
    case '+':
      return left + right
    case '-':
      return left - right
    case '*':
      return left * right
    case '/':
      return left / right
    case '%':
      return left - right * Math.floor(left / right)
    case '^':
      return left ** right
  }
}

/**
 * Computes the value in floating point, like a calculator: powers may have any exponent. `a % b` is
 * `a - b * floor(a / b)`.
 *
 * Errors   `Left(ArithmeticFailure)`: `undefined` for a quotient or remainder by 0 and for a value
 *          that is not a real number; `size` for a value that is too large.
 *
 * @example
 * floatValue(parseArithmetic('2 ^ 0.5').right).right // 1.4142135623730951
 */
export const floatValue = (tree: Arithmetic): Result<number> => {
  const within = (value: number): Result<number> => {
    if (Number.isNaN(value)) return failed('undefined', 'a value that is not a real number')
    return Number.isFinite(value) ? E.right(value) : failed('size', `a value is beyond ${Number.MAX_VALUE}`)
  }
  return evaluate<number>(
    {
      read: (digits) => within(Number(digits)),
      negate: (value) => -value,
      combine: (operator, left, right) => {
        const byZero = right === 0 && (operator === '/' || operator === '%')
        const isPole = operator === '^' && left === 0 && right < 0
        return byZero || isPole ? zeroProblem(isPole ? '/' : operator) : within(inFloats(operator, left, right))
      },
    },
    tree,
  )
}

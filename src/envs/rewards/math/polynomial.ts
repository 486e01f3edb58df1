/**
 * Sums of products of powers with exact coefficients. A power may have a rational exponent: `3
 * x^(1/2)`, and `#2^(1/2)` is the square root of 2.
 *
 * Roots of primes, i, pi, e and variables (which are assumed positive) are treated as independent,
 * so two polynomials are equal exactly if their terms are.
 */
import { floorOf, type Rational, rational } from '@tandem-rl/base'

/** Thrown when an exact computation exceeds its limit of terms, digits or steps. */
export class TooLarge extends Error {
  constructor() {
    super('an expression that is too large to be computed exactly')
    this.name = 'TooLarge'
  }
}

/** The remaining steps of a computation. */
export interface TermBudget {
  readonly spend: (steps: number) => void
}

/** Makes a budget. Its `spend` throws TooLarge when the steps are used up. */
export const termBudget = (steps: number): TermBudget => {
  let left = steps
  return {
    spend: (used) => {
      left -= used
      if (left < 0) throw new TooLarge()
    },
  }
}

/** Maximum bits of a numerator or denominator. */
const MOST_BITS = 1600
const LIMIT = 1n << BigInt(MOST_BITS)

export const ZERO: Rational = rational(0n)
export const UNIT: Rational = rational(1n)

const bounded = (value: Rational): Rational => {
  if (value.numerator > LIMIT || value.numerator < -LIMIT || value.denominator > LIMIT) throw new TooLarge()
  return value
}

export const plus = (a: Rational, b: Rational): Rational =>
  bounded(rational(a.numerator * b.denominator + b.numerator * a.denominator, a.denominator * b.denominator))

export const times = (a: Rational, b: Rational): Rational =>
  bounded(rational(a.numerator * b.numerator, a.denominator * b.denominator))

/** Errors: throws RangeError for 0. */
export const inverse = ({ numerator, denominator }: Rational): Rational => rational(denominator, numerator)

/**
 * Returns an integer power. Throws TooLarge if it has too many digits, and RangeError for a
 * negative power of 0.
 */
const raised = (base: Rational, exponent: bigint): Rational => {
  const size = exponent < 0n ? -exponent : exponent
  const bits = Math.max(base.numerator.toString(2).length, base.denominator.toString(2).length) - 1
  const isUnit = base.denominator === 1n && base.numerator >= -1n && base.numerator <= 1n
  if (!isUnit && size * BigInt(bits) > BigInt(MOST_BITS)) throw new TooLarge()
  const power = isUnit && size > 1n ? 2n - (size % 2n) : size // 0, 1 and -1: only whether it is even counts
  const value = bounded(rational(base.numerator ** power, base.denominator ** power))
  return exponent < 0n ? inverse(value) : value
}

/** Exponents by base; no exponent is 0. */
type Powers = ReadonlyMap<string, Rational>

export interface Term {
  readonly coefficient: Rational
  readonly powers: Powers
}

/** Terms by the text of their powers; no coefficient is 0. */
export type Polynomial = ReadonlyMap<string, Term>

const textOfRational = ({ numerator, denominator }: Rational): string =>
  denominator === 1n ? `${numerator}` : `${numerator}/${denominator}`

const textOfPowers = (powers: Powers): string =>
  [...powers]
    .map(([base, exponent]) => `${base}^${textOfRational(exponent)}`)
    .sort()
    .join(' ')

/** Returns a canonical text: equal polynomials have equal texts. */
export const textOfPolynomial = (polynomial: Polynomial): string =>
  [...polynomial]
    .map(([key, { coefficient }]) => `${textOfRational(coefficient)} ${key}`)
    .sort()
    .join(' + ')

const fromTerms = (terms: readonly Term[]): Polynomial => {
  const sum = new Map<string, Term>()
  for (const term of terms) {
    const key = textOfPowers(term.powers)
    const before = sum.get(key)
    const coefficient = before === undefined ? term.coefficient : plus(before.coefficient, term.coefficient)
    if (coefficient.numerator === 0n) sum.delete(key)
    else sum.set(key, { coefficient, powers: term.powers })
  }
  return sum
}

export const constantPolynomial = (value: Rational): Polynomial =>
  fromTerms([{ coefficient: value, powers: new Map() }])

/**
 * Returns a term of powers in reduced form: whole powers of a number become part of the
 * coefficient, and i^2 becomes -1.
 */
export const termOf = (powers: Powers, coefficient: Rational = UNIT): Term => {
  const kept = new Map<string, Rational>()
  let factor = coefficient
  for (const [base, exponent] of powers) {
    if (base.startsWith('#')) {
      const whole = floorOf(exponent)
      factor = times(factor, raised(rational(BigInt(base.slice(1))), whole))
      const rest = plus(exponent, rational(-whole))
      if (rest.numerator !== 0n) kept.set(base, rest)
    } else if (base === 'i' && exponent.denominator === 1n) {
      const quarter = ((exponent.numerator % 4n) + 4n) % 4n
      if (quarter >= 2n) factor = times(factor, rational(-1n))
      if (quarter % 2n === 1n) kept.set(base, UNIT)
    } else if (exponent.numerator !== 0n) kept.set(base, exponent)
  }
  return { coefficient: factor, powers: kept }
}

export const variable = (name: string): Polynomial =>
  fromTerms([{ coefficient: UNIT, powers: new Map([[name, UNIT]]) }])

export const sumOf = (a: Polynomial, b: Polynomial, budget: TermBudget): Polynomial => {
  budget.spend(a.size + b.size)
  return fromTerms([...a.values(), ...b.values()])
}

const termProduct = (a: Term, b: Term): Term => {
  const powers = new Map(a.powers)
  for (const [base, exponent] of b.powers) powers.set(base, plus(powers.get(base) ?? ZERO, exponent))
  return termOf(powers, times(a.coefficient, b.coefficient))
}

export const productOf = (a: Polynomial, b: Polynomial, budget: TermBudget): Polynomial => {
  budget.spend(a.size * b.size)
  return fromTerms([...a.values()].flatMap((x) => [...b.values()].map((y) => termProduct(x, y))))
}

export const powerOf = (base: Polynomial, exponent: number, budget: TermBudget): Polynomial => {
  const [only] = base.values()
  if (only !== undefined && base.size === 1) {
    const powers = new Map([...only.powers].map(([name, power]) => [name, times(power, rational(BigInt(exponent)))]))
    return fromTerms([termOf(powers, raised(only.coefficient, BigInt(exponent)))])
  }
  if (exponent > 100) throw new TooLarge()
  return Array.from({ length: exponent }, () => base).reduce(
    (product, factor) => productOf(product, factor, budget),
    constantPolynomial(UNIT),
  )
}

/** Returns the term of a polynomial with exactly one. */
export const onlyTerm = (polynomial: Polynomial): Term | undefined =>
  polynomial.size === 1 ? [...polynomial.values()][0] : undefined

/** Returns the value of a constant polynomial. */
export const rationalValue = (polynomial: Polynomial): Rational | undefined => {
  if (polynomial.size === 0) return ZERO
  const term = onlyTerm(polynomial)
  return term !== undefined && term.powers.size === 0 ? term.coefficient : undefined
}

export const polynomialOf = (term: Term): Polynomial => fromTerms([term])

export const samePolynomial = (a: Polynomial, b: Polynomial): boolean => textOfPolynomial(a) === textOfPolynomial(b)

/** The exact value of an expression, as a quotient of polynomials. */
import { floorOf, type Rational, rational } from '@tandem-rl/base'
import {
  constantPolynomial,
  inverse,
  onlyTerm,
  type Polynomial,
  plus,
  polynomialOf,
  powerOf,
  productOf,
  rationalValue,
  samePolynomial,
  sumOf,
  type Term,
  type TermBudget,
  TooLarge,
  termBudget,
  termOf,
  textOfPolynomial,
  times,
  UNIT,
  variable,
  ZERO,
} from './polynomial.js'
import { anyNode, type MathTree, type TreeOf } from './tree.js'

/** A quotient of polynomials. */
export interface Exact {
  readonly over: Polynomial
  /** Not 0. */
  readonly under: Polynomial
  /**
   * True if equal values always have equal quotients: no part is a function, a root of a sum or a
   * power with a variable exponent, which are treated as unknowns.
   */
  readonly isComplete: boolean
}

/** Thrown for an expression without a value: a quotient by 0, or parts that are not numbers. */
class NoValue extends Error {}

/** Maximum number of steps for one expression. */
const STEPS = 20_000

const whole = (over: Polynomial, isComplete = true): Exact => ({ over, under: constantPolynomial(UNIT), isComplete })

/** Returns a quotient in which a denominator of one term is moved into the numerator. */
const quotientOf = ({ over, under, isComplete }: Exact, budget: TermBudget): Exact => {
  if (under.size === 0) throw new NoValue()
  const term = onlyTerm(under)
  if (term === undefined) return { over, under, isComplete }
  const powers = new Map([...term.powers].map(([base, exponent]) => [base, times(exponent, rational(-1n))]))
  const factor = polynomialOf(termOf(powers, inverse(term.coefficient)))
  return { over: productOf(over, factor, budget), under: constantPolynomial(UNIT), isComplete }
}

const add = (a: Exact, b: Exact, budget: TermBudget): Exact =>
  quotientOf(
    {
      over: sumOf(productOf(a.over, b.under, budget), productOf(b.over, a.under, budget), budget),
      under: productOf(a.under, b.under, budget),
      isComplete: a.isComplete && b.isComplete,
    },
    budget,
  )

const multiply = (a: Exact, b: Exact, budget: TermBudget): Exact =>
  quotientOf(
    {
      over: productOf(a.over, b.over, budget),
      under: productOf(a.under, b.under, budget),
      isComplete: a.isComplete && b.isComplete,
    },
    budget,
  )

const inverted = ({ over, under, isComplete }: Exact, budget: TermBudget): Exact =>
  quotientOf({ over: under, under: over, isComplete }, budget)

const numberValue = ({ over, under }: Exact): Rational | undefined => {
  const [a, b] = [rationalValue(over), rationalValue(under)]
  return a === undefined || b === undefined ? undefined : times(a, inverse(b))
}

const textOfExact = ({ over, under }: Exact): string => `${textOfPolynomial(over)} / ${textOfPolynomial(under)}`

/** Returns an unknown for an expression: two are equal if their parts are written alike. */
const opaque = (name: string, parts: readonly Exact[]): Exact =>
  whole(variable(`${name}(${parts.map(textOfExact).join('; ')})`), false)

const LARGEST_FACTOR = 1000n

/**
 * Returns prime factors with their exponents. `isComplete` is false if the rest of a large number
 * may be composite.
 */
const factorsOf = (number: bigint): { readonly powers: ReadonlyMap<bigint, bigint>; readonly isComplete: boolean } => {
  const powers = new Map<bigint, bigint>()
  let rest = number
  for (let factor = 2n; factor <= LARGEST_FACTOR && factor * factor <= rest; factor += factor === 2n ? 1n : 2n) {
    while (rest % factor === 0n) {
      powers.set(factor, (powers.get(factor) ?? 0n) + 1n)
      rest /= factor
    }
  }
  if (rest > 1n) powers.set(rest, (powers.get(rest) ?? 0n) + 1n)
  return { powers, isComplete: rest <= LARGEST_FACTOR * LARGEST_FACTOR }
}

/** Returns a positive number to a rational power, as a product of powers of primes. */
const rootOf = (value: Rational, exponent: Rational): Exact => {
  const [over, under] = [factorsOf(value.numerator), factorsOf(value.denominator)]
  const powers = new Map<string, Rational>()
  for (const [sign, { powers: found }] of [[1n, over] as const, [-1n, under] as const]) {
    for (const [prime, count] of found) {
      const key = `#${prime}`
      powers.set(key, plus(powers.get(key) ?? ZERO, times(exponent, rational(sign * count))))
    }
  }
  return whole(polynomialOf(termOf(powers)), over.isComplete && under.isComplete)
}

/**
 * Returns a term to a power that is not an integer. An even root of a negative number contains i;
 * an odd root is negative.
 */
const termRoot = ({ coefficient, powers }: Term, exponent: Rational, budget: TermBudget): Exact | undefined => {
  const isNegative = coefficient.numerator < 0n
  if (powers.has('i') || (isNegative && exponent.denominator % 2n === 0n && exponent.denominator !== 2n))
    return undefined
  const size = isNegative ? times(coefficient, rational(-1n)) : coefficient
  const scaled = new Map([...powers].map(([base, power]) => [base, times(power, exponent)]))
  const sign: Term =
    !isNegative || (exponent.denominator !== 2n && exponent.numerator % 2n === 0n)
      ? termOf(new Map())
      : exponent.denominator === 2n
        ? termOf(new Map([['i', rational(exponent.numerator)]]))
        : termOf(new Map(), rational(-1n))
  const rest = whole(productOf(polynomialOf(sign), polynomialOf(termOf(scaled)), budget))
  return multiply(rootOf(size, exponent), rest, budget)
}

const LARGEST_POWER = 10_000n

const power = (base: Exact, exponent: Exact, budget: TermBudget): Exact => {
  const value = numberValue(exponent)
  if (value === undefined) return opaque('power', [base, exponent])
  if (value.numerator === 0n) return whole(constantPolynomial(UNIT))
  const size = value.numerator < 0n ? -value.numerator : value.numerator
  if (size > LARGEST_POWER) throw new TooLarge()
  const positive = value.numerator < 0n ? inverted(base, budget) : base
  if (value.denominator === 1n) {
    const [over, under] = [positive.over, positive.under].map((part) => powerOf(part, Number(size), budget))
    return quotientOf({ over: over!, under: under!, isComplete: base.isComplete }, budget)
  }
  const exact = rational(size, value.denominator)
  if (positive.over.size === 0) return whole(constantPolynomial(ZERO))
  const term = onlyTerm(positive.over)
  const root = term !== undefined && positive.under.size === 1 ? termRoot(term, exact, budget) : undefined
  if (root !== undefined) return { ...root, isComplete: root.isComplete && base.isComplete }
  return opaque('power', [positive, whole(constantPolynomial(exact))])
}

const factorial = (n: bigint): bigint => (n <= 1n ? 1n : n * factorial(n - 1n))

const LARGEST_FACTORIAL = 100n

/** Evaluates functions of numbers whose value is an exact number. */
const exactCall = (name: string, values: readonly Rational[]): Rational | undefined => {
  const [a, b] = values
  if (a === undefined) return undefined
  const isCount = (x: Rational): boolean =>
    x.denominator === 1n && x.numerator >= 0n && x.numerator <= LARGEST_FACTORIAL
  if (name === 'abs') return a.numerator < 0n ? times(a, rational(-1n)) : a
  if (name === 'floor') return rational(floorOf(a))
  if (name === 'ceil') return rational(-floorOf(times(a, rational(-1n))))
  if (name === 'factorial' && isCount(a)) return rational(factorial(a.numerator))
  if (name === 'binom' && b !== undefined && isCount(a) && isCount(b)) {
    if (b.numerator > a.numerator) return ZERO
    return rational(factorial(a.numerator), factorial(b.numerator) * factorial(a.numerator - b.numerator))
  }
  return undefined
}

const call = ({ name, of }: TreeOf<'Call'>, budget: TermBudget): Exact => {
  const parts = of.map((part) => compute(part, budget))
  if (name === 'root') return power(parts[0]!, inverted(parts[1]!, budget), budget)
  const values = parts.map(numberValue)
  const known = values.filter((value) => value !== undefined)
  const value = known.length === values.length ? exactCall(name, known) : undefined
  return value === undefined ? opaque(name, parts) : whole(constantPolynomial(value))
}

const compute = (tree: MathTree, budget: TermBudget): Exact => {
  budget.spend(1)
  const part = (of: MathTree): Exact => compute(of, budget)
  switch (tree._tag) {
    case 'Number':
      return whole(constantPolynomial(tree.value))
    case 'Symbol':
    case 'Constant':
      return whole(variable(tree.name))
    case 'Sum':
      return tree.terms.map(part).reduce((a, b) => add(a, b, budget))
    case 'Product':
      return tree.factors.map(part).reduce((a, b) => multiply(a, b, budget))
    case 'Quotient':
      return multiply(part(tree.over), inverted(part(tree.under), budget), budget)
    case 'Power':
      return power(part(tree.base), part(tree.exponent), budget)
    case 'Call':
      return call(tree, budget)
    case 'Percent':
      return multiply(part(tree.of), whole(constantPolynomial(rational(1n, 100n))), budget)
    case 'Degrees':
      return multiply(
        part(tree.of),
        multiply(whole(variable('pi')), whole(constantPolynomial(rational(1n, 180n))), budget),
        budget,
      )
    default:
      throw new NoValue()
  }
}

const isInfinity = (tree: MathTree): boolean => tree._tag === 'Constant' && tree.name === 'infinity'

/** Returns `true` if an expression computes with infinity, except infinity and its negative. */
const reckonsWithInfinity = (tree: MathTree): boolean => {
  if (!anyNode(tree, isInfinity) || isInfinity(tree)) return false
  const [sign, of] = tree._tag === 'Product' && tree.factors.length === 2 ? tree.factors : []
  return !(sign?._tag === 'Number' && sign.value.numerator === -1n && sign.value.denominator === 1n && isInfinity(of!))
}

const computed = (tree: MathTree): Exact | undefined => {
  if (reckonsWithInfinity(tree)) return undefined
  try {
    return compute(tree, termBudget(STEPS))
  } catch (error) {
    if (error instanceof NoValue || error instanceof TooLarge) return undefined
    throw error
  }
}

/**
 * Caches the values of trees that are still in use, because items of lists are compared with many
 * others.
 */
const known = new WeakMap<MathTree, { readonly exact: Exact | undefined }>()

/**
 * Computes the exact value of an expression. Returns `undefined` if it has none, is not numeric, or
 * is too large to compute.
 *
 * Cost     bounded: by steps, and by digits of a coefficient.
 */
export const exactOf = (tree: MathTree): Exact | undefined => {
  const before = known.get(tree) ?? { exact: computed(tree) }
  known.set(tree, before)
  return before.exact
}

/**
 * Returns true if two quotients are equal: `a/b = c/d` if `ad = cb`. Returns undefined if the
 * products are too large.
 */
export const sameExact = (a: Exact, b: Exact): boolean | undefined => {
  const budget = termBudget(STEPS)
  try {
    return samePolynomial(productOf(a.over, b.under, budget), productOf(b.over, a.under, budget))
  } catch (error) {
    if (error instanceof TooLarge) return undefined
    throw error
  }
}

/** Returns the number that an expression equals, if it is one. */
export const rationalOf = (tree: MathTree): Rational | undefined => {
  const exact = exactOf(tree)
  return exact === undefined ? undefined : numberValue(exact)
}

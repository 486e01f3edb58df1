/**
 * Evaluates an expression at a point in floating point. Values are complex; functions take only
 * real numbers.
 */
import { rationalOf } from './exact.js'
import type { MathTree, TreeOf } from './tree.js'

export interface Complex {
  readonly re: number
  readonly im: number
}

/** The value of each variable. */
export type Point = ReadonlyMap<string, number>

const real = (re: number): Complex => ({ re, im: 0 })
const isReal = ({ re, im }: Complex): boolean => Math.abs(im) <= 1e-13 * Math.abs(re)

const plus = (a: Complex, b: Complex): Complex => ({ re: a.re + b.re, im: a.im + b.im })
const times = (a: Complex, b: Complex): Complex => ({ re: a.re * b.re - a.im * b.im, im: a.re * b.im + a.im * b.re })

const over = (a: Complex, b: Complex): Complex | undefined => {
  const size = b.re * b.re + b.im * b.im
  if (size === 0) return undefined
  const { re, im } = times(a, { re: b.re, im: -b.im })
  return { re: re / size, im: im / size }
}

const exp = ({ re, im }: Complex): Complex =>
  im === 0 ? real(Math.exp(re)) : { re: Math.exp(re) * Math.cos(im), im: Math.exp(re) * Math.sin(im) }

/** The principal power of a base that is not 0. */
const principal = (base: Complex, exponent: Complex): Complex => {
  if (base.im === 0 && base.re > 0 && exponent.im === 0) return real(base.re ** exponent.re)
  const log = { re: Math.log(Math.hypot(base.re, base.im)), im: Math.atan2(base.im, base.re) }
  return exp(times(log, exponent))
}

const integerPower = (base: Complex, exponent: number): Complex | undefined => {
  if (base.im === 0) return real(base.re ** exponent)
  const size = Math.abs(exponent)
  if (size > 1000) return undefined
  let product = real(1)
  for (let i = 0; i < size; i++) product = times(product, base)
  return exponent < 0 ? over(real(1), product) : product
}

/** Functions of one real number. */
const FUNCTIONS: Readonly<Record<string, (x: number) => number>> = {
  sin: Math.sin,
  cos: Math.cos,
  tan: Math.tan,
  cot: (x) => 1 / Math.tan(x),
  sec: (x) => 1 / Math.cos(x),
  csc: (x) => 1 / Math.sin(x),
  arcsin: Math.asin,
  arccos: Math.acos,
  arctan: Math.atan,
  sinh: Math.sinh,
  cosh: Math.cosh,
  tanh: Math.tanh,
  ln: (x) => (x > 0 ? Math.log(x) : Number.NaN),
  lg: (x) => (x > 0 ? Math.log10(x) : Number.NaN),
  floor: Math.floor,
  ceil: Math.ceil,
}

/**
 * The point and domain of an evaluation. `real` excludes points at which a root or logarithm has a
 * negative argument.
 */
interface Where {
  readonly point: Point
  readonly domain: 'real' | 'complex'
}

const power = (tree: { readonly base: MathTree; readonly exponent: MathTree }, where: Where): Complex | undefined => {
  const [base, exponent] = [valueAt(tree.base, where), valueAt(tree.exponent, where)]
  if (base === undefined || exponent === undefined) return undefined
  if (base.re === 0 && base.im === 0) return exponent.re > 0 ? real(0) : exponent.re === 0 ? real(1) : undefined
  if (exponent.im === 0 && Number.isInteger(exponent.re)) return integerPower(base, exponent.re)
  if (!isReal(base) || base.re > 0) return principal(base, exponent)
  const fraction = rationalOf(tree.exponent)
  if (fraction !== undefined && fraction.denominator % 2n === 1n) {
    const sign = fraction.numerator % 2n === 0n ? 1 : -1
    return real(sign * Math.abs(base.re) ** exponent.re)
  }
  return where.domain === 'real' ? undefined : principal(base, exponent)
}

const sizeOf = ({ re, im }: Complex): number => Math.hypot(re, im)

const logarithm = (of: readonly number[]): number => {
  const [x = Number.NaN, base = 10] = of
  return x > 0 && base > 0 ? Math.log(x) / Math.log(base) : Number.NaN
}

const call = ({ name, of }: TreeOf<'Call'>, where: Where): Complex | undefined => {
  if (name === 'root') return power({ base: of[0]!, exponent: { _tag: 'Quotient', over: ONE, under: of[1]! } }, where)
  const values = of.map((part) => valueAt(part, where))
  const [first] = values
  if (first === undefined) return undefined
  if (name === 'abs') return real(sizeOf(first))
  if (name === 'exp') return exp(first)
  const numbers = values.map((value) => (value !== undefined && isReal(value) ? value.re : Number.NaN))
  if (name === 'log') return real(logarithm(numbers))
  if (name === 'max' || name === 'min') return real(Math[name](...numbers))
  const f = Object.hasOwn(FUNCTIONS, name) ? FUNCTIONS[name] : undefined
  return f === undefined ? undefined : real(f(numbers[0]!))
}

const ONE: MathTree = { _tag: 'Number', value: { numerator: 1n, denominator: 1n } }

const CONSTANTS: Readonly<Record<TreeOf<'Constant'>['name'], Complex | undefined>> = {
  pi: real(Math.PI),
  e: real(Math.E),
  i: { re: 0, im: 1 },
  infinity: undefined,
}

const folded = (
  parts: readonly MathTree[],
  where: Where,
  f: (a: Complex, b: Complex) => Complex,
): Complex | undefined => {
  const [first, ...rest] = parts.map((part) => valueAt(part, where))
  return rest.reduce((a, b) => (a === undefined || b === undefined ? undefined : f(a, b)), first)
}

const valueAt = (tree: MathTree, where: Where): Complex | undefined => {
  switch (tree._tag) {
    case 'Number':
      return real(Number(tree.value.numerator) / Number(tree.value.denominator))
    case 'Symbol': {
      const value = where.point.get(tree.name)
      return value === undefined ? undefined : real(value)
    }
    case 'Constant':
      return CONSTANTS[tree.name]
    case 'Sum':
      return folded(tree.terms, where, plus)
    case 'Product':
      return folded(tree.factors, where, times)
    case 'Quotient': {
      const [a, b] = [valueAt(tree.over, where), valueAt(tree.under, where)]
      return a === undefined || b === undefined ? undefined : over(a, b)
    }
    case 'Power':
      return power(tree, where)
    case 'Call':
      return call(tree, where)
    case 'Percent':
      return folded([tree.of, ONE], where, (a) => times(a, real(0.01)))
    case 'Degrees':
      return folded([tree.of, ONE], where, (a) => times(a, real(Math.PI / 180)))
    default:
      return undefined
  }
}

/** Returns the value of an expression at a point; undefined if it has no finite value there. */
export const evaluateTree = (tree: MathTree, where: Where): Complex | undefined => {
  const value = valueAt(tree, where)
  return value !== undefined && Number.isFinite(value.re) && Number.isFinite(value.im) ? value : undefined
}

/** Returns true if two values are equal up to rounding. */
export const close = (a: Complex, b: Complex): boolean =>
  sizeOf({ re: a.re - b.re, im: a.im - b.im }) <= 1e-10 * Math.max(sizeOf(a), sizeOf(b)) + 1e-13

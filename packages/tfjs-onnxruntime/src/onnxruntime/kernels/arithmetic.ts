/** Arithmetic that ONNX lacks or rounds differently, composed of several operations. */
import type { OutputSpec, Value } from '../graph.js'
import type { OnnxType } from '../library.js'
import type { Emitter, KernelRule, RuleTable } from '../rule.js'
import { ARITHMETIC, castValue, composed, pair, unary } from './elementwise.js'

/** Operations on values of one output shape, for writing formulas. */
const algebra = (emitter: Emitter, shape: readonly number[], type: OnnxType) => {
  const output: OutputSpec = { shape, type }
  const test: OutputSpec = { shape, type: 'bool' }
  const number = (x: Value | number): Value => (typeof x === 'number' ? emitter.fixed(x, type) : x)
  const binary =
    (name: string, made: OutputSpec) =>
    (a: Value | number, b: Value | number): Value =>
      emitter.emit(name, [number(a), number(b)], made)
  return {
    apply: (name: string, x: Value): Value => emitter.emit(name, [x], output),
    add: binary('Add', output),
    sub: binary('Sub', output),
    mul: binary('Mul', output),
    div: binary('Div', output),
    equal: binary('Equal', test),
    less: binary('Less', test),
    and: (a: Value, b: Value): Value => emitter.emit('And', [a, b], test),
    or: (a: Value, b: Value): Value => emitter.emit('Or', [a, b], test),
    xor: (a: Value, b: Value): Value => emitter.emit('Xor', [a, b], test),
    not: (a: Value): Value => emitter.emit('Not', [a], test),
    test: (name: string, x: Value): Value => emitter.emit(name, [x], test),
    where: (condition: Value, yes: Value | number, no: Value | number): Value =>
      emitter.emit('Where', [condition, number(yes), number(no)], output),
    binary: (name: string, a: Value, b: Value, attributes = {}): Value =>
      emitter.emit(name, [a, b], output, { attributes }),
  }
}

/** Computes the sign: -1, 0 or 1; NaN has the sign 0, as in tfjs. */
const sign = (emitter: Emitter, x: Value): Value => {
  const { less, where } = algebra(emitter, x.shape, x.type)
  return where(less(x, 0), -1, where(less(0, x), 1, 0))
}

/**
 * Computes `exp(x) - 1`. Near zero it is `2 tanh(x/2) / (1 - tanh(x/2))`, the same value without
 * the loss of digits.
 */
const expm1 = (emitter: Emitter, x: Value): Value => {
  const { apply, sub, mul, div, less, where } = algebra(emitter, x.shape, 'float32')
  const half = apply('Tanh', mul(x, 0.5))
  const near = div(mul(half, 2), sub(1, half))
  return where(less(apply('Abs', x), 0.5), near, sub(apply('Exp', x), 1))
}

/**
 * Computes `log(1 + x)`. With u = 1 + x rounded, `log(u) * x / (u - 1)` corrects for the rounding
 * (Kahan's formula).
 */
const log1p = (emitter: Emitter, x: Value): Value => {
  const { apply, add, sub, mul, div, equal, where, or, test } = algebra(emitter, x.shape, 'float32')
  const u = add(x, 1)
  const logarithm = apply('Log', u)
  const corrected = mul(logarithm, div(x, sub(u, 1)))
  return where(equal(u, 1), x, where(or(test('IsInf', logarithm), test('IsInf', x)), logarithm, corrected))
}

/** Computes the angle of the point (b, a), with the signs of zeros and the infinities as in C. */
const atan2: KernelRule = (emitter, inputs) => {
  const operands = pair(emitter, inputs.a!, inputs.b!, ['float32'])
  if (operands === undefined) return undefined
  const { shape } = operands
  const { apply, add, sub, div, equal, less, and, or, where, test } = algebra(emitter, shape, 'float32')
  const wide = (x: Value): Value => emitter.emit('Expand', [x, emitter.integers(shape)], { shape, type: 'float32' })
  const [y, x] = [wide(operands.a), wide(operands.b)]
  const isNegative = (v: Value): Value => or(less(v, 0), and(equal(v, 0), less(div(1, v), 0))) // also -0
  const infinite = and(test('IsInf', y), test('IsInf', x))
  const zero = and(equal(y, 0), equal(x, 0))
  // The quotient of two infinities or two zeros is NaN: an infinity counts as 1 here, and zero
  // divided by zero as 0.
  const steep = where(infinite, 1, where(zero, 0, div(apply('Abs', y), apply('Abs', x))))
  const acute = apply('Atan', steep)
  const angle = where(isNegative(x), sub(Math.PI, acute), acute)
  const signed = where(isNegative(y), apply('Neg', angle), angle)
  return where(or(test('IsNaN', x), test('IsNaN', y)), add(x, y), signed)
}

/**
 * Computes the remainder with the sign of the divisor. A remainder by the int32 0 is 0, as in tfjs.
 * (The processor traps on divisors 0 and -1, so they are replaced.)
 */
const mod: KernelRule = (emitter, inputs) => {
  const operands = pair(emitter, inputs.a!, inputs.b!, ARITHMETIC)
  if (operands === undefined) return undefined
  const { a, b, shape } = operands
  const { add, sub, equal, less, xor, where, binary } = algebra(emitter, shape, a.type)
  if (a.type === 'int32') {
    const divisor = algebra(emitter, b.shape, 'int32')
    const trivial = divisor.or(divisor.equal(b, 0), divisor.equal(b, -1))
    return where(trivial, 0, binary('Mod', a, divisor.where(trivial, 1, b)))
  }
  const remainder = binary('Mod', a, b, { fmod: 1 })
  const moved = add(where(equal(remainder, 0), 0, add(remainder, b)), sub(b, b)) // b - b: NaN where b is infinite, as in tfjs
  return where(xor(less(a, 0), less(b, 0)), moved, remainder)
}

/**
 * Computes `floor(a / b)` of int32 operands. A quotient by 0 is 0, and -2^31 / -1 wraps, as in
 * tfjs. (The processor traps on both, so these divisors are replaced.)
 */
const floorDivideIntegers = (emitter: Emitter, a: Value, b: Value, shape: readonly number[]): Value => {
  const { sub, mul, div, equal, less, and, not, xor, where } = algebra(emitter, shape, 'int32')
  const divisor = algebra(emitter, b.shape, 'int32')
  const [zero, minusOne] = [divisor.equal(b, 0), divisor.equal(b, -1)]
  const safe = divisor.where(divisor.or(zero, minusOne), 1, b)
  const quotient = div(a, safe) // rounds toward zero
  const rest = sub(a, mul(quotient, safe))
  const down = and(not(equal(rest, 0)), xor(less(rest, 0), less(safe, 0)))
  const floor = where(down, sub(quotient, 1), quotient)
  return where(zero, 0, where(minusOne, sub(0, a), floor))
}

/** Computes `floor(a / b)`, int32 like every floorDiv of tfjs. */
const floorDivide: KernelRule = (emitter, inputs) => {
  const operands = pair(emitter, inputs.a!, inputs.b!, ARITHMETIC)
  if (operands === undefined) return undefined
  const { a, b, shape } = operands
  if (a.type === 'int32') return floorDivideIntegers(emitter, a, b, shape)
  const { apply, div } = algebra(emitter, shape, 'float32')
  return castValue(emitter, apply('Floor', div(a, b)), 'int32')
}

const bitwiseAnd: KernelRule = (emitter, inputs) => {
  const operands = pair(emitter, inputs.a!, inputs.b!, ['int32'])
  if (operands === undefined) return undefined
  return emitter.emit('BitwiseAnd', [operands.a, operands.b], { shape: operands.shape, type: 'int32' })
}

const property = (build: (x: Value, formula: ReturnType<typeof algebra>) => Value): KernelRule =>
  composed((emitter, x) => build(x, algebra(emitter, x.shape, 'float32')))

export const arithmeticRules: RuleTable = {
  Atan2: atan2,
  Atanh: unary('Atanh'),
  BitwiseAnd: bitwiseAnd,
  Expm1: composed(expm1),
  FloorDiv: floorDivide,
  IsFinite: property((x, { test, or, not }) => not(or(test('IsInf', x), test('IsNaN', x)))),
  IsInf: property((x, { test }) => test('IsInf', x)),
  Log1p: composed(log1p),
  Mod: mod,
  Sign: composed(sign, ARITHMETIC),
}

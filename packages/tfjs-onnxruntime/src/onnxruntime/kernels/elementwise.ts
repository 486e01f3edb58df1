/**
 * Kernels that work element by element: unary, binary with broadcasting, comparisons, selection,
 * casts.
 */
import type { Value } from '../graph.js'
import { ELEMENT_TYPE, sameShape } from '../graph.js'
import type { OnnxType } from '../library.js'
import { broadcastShape, type Emitter, isFloat, type KernelRule, numberAttribute, type RuleTable } from '../rule.js'

/** Creates a unary kernel that is one ONNX operation. */
export const unary =
  (name: string, types: readonly OnnxType[] = ['float32']): KernelRule =>
  (emitter, { x }) => {
    const value = emitter.valueOf(x!)
    if (value === undefined || !types.includes(value.type)) return undefined
    return emitter.emit(name, [value], value)
  }

/** Creates a unary kernel composed of several operations. */
export const composed =
  (build: (emitter: Emitter, x: Value) => Value, types: readonly OnnxType[] = ['float32']): KernelRule =>
  (emitter, { x }) => {
    const value = emitter.valueOf(x!)
    return value !== undefined && types.includes(value.type) ? build(emitter, value) : undefined
  }

export const ARITHMETIC: readonly OnnxType[] = ['float32', 'int32']

/**
 * Returns two operands of one of `types` with the shape of both broadcast together; undefined if
 * tfjs must handle them.
 */
export const pair = (
  emitter: Emitter,
  a: Parameters<Emitter['valueOf']>[0],
  b: Parameters<Emitter['valueOf']>[0],
  types: readonly OnnxType[],
): { readonly a: Value; readonly b: Value; readonly shape: readonly number[] } | undefined => {
  const [left, right] = [emitter.valueOf(a), emitter.valueOf(b)]
  if (left === undefined || right === undefined || left.type !== right.type || !types.includes(left.type))
    return undefined
  const shape = broadcastShape(left.shape, right.shape)
  return shape === undefined ? undefined : { a: left, b: right, shape }
}

const binary =
  (name: string, types: readonly OnnxType[] = ARITHMETIC): KernelRule =>
  (emitter, inputs) => {
    const operands = pair(emitter, inputs.a!, inputs.b!, types)
    if (operands === undefined) return undefined
    return emitter.emit(name, [operands.a, operands.b], { shape: operands.shape, type: operands.a.type })
  }

const comparison =
  (name: string, negated: 'negated' | 'as is' = 'as is'): KernelRule =>
  (emitter, inputs) => {
    const operands = pair(emitter, inputs.a!, inputs.b!, ['float32', 'int32', 'bool'])
    if (operands === undefined) return undefined
    const output = { shape: operands.shape, type: 'bool' } as const
    // ONNX orders only numbers.
    const comparable = (x: Value): Value => (x.type === 'bool' && name !== 'Equal' ? castValue(emitter, x, 'int32') : x)
    const result = emitter.emit(name, [comparable(operands.a), comparable(operands.b)], output)
    return negated === 'negated' ? emitter.emit('Not', [result], output) : result
  }

const square = (emitter: Emitter, x: Value): Value => emitter.emit('Mul', [x, x], x)

const select: KernelRule = (emitter, { condition, t, e }) => {
  const [c, yes, no] = [emitter.valueOf(condition!), emitter.valueOf(t!), emitter.valueOf(e!)]
  if (c === undefined || yes === undefined || no === undefined || yes.type !== no.type || c.type !== 'bool')
    return undefined
  // A condition of rank 1 selects whole rows of values of higher rank.
  const rowwise = c.shape.length === 1 && yes.shape.length > 1 && !sameShape(c.shape, yes.shape)
  const aligned = rowwise ? [...c.shape, ...yes.shape.slice(1).map(() => 1)] : c.shape
  const spread = rowwise ? emitter.emit('Reshape', [c, emitter.integers(aligned)], { shape: aligned, type: 'bool' }) : c
  if (yes.type !== 'bool') return emitter.emit('Where', [spread, yes, no], yes)
  const [one, other] = [castValue(emitter, yes, 'int32'), castValue(emitter, no, 'int32')] // ONNX's Where does not support bool
  return castValue(emitter, emitter.emit('Where', [spread, one, other], one), 'bool')
}

/** Converts a value to a type; a value of that type is returned unchanged. */
export const castValue = (emitter: Emitter, value: Value, type: OnnxType): Value =>
  value.type === type
    ? value
    : emitter.emit('Cast', [value], { shape: value.shape, type }, { attributes: { to: ELEMENT_TYPE[type] } })

const cast: KernelRule = (emitter, { x }, { dtype }) => {
  const value = emitter.valueOf(x!)
  if (value === undefined || (dtype !== 'float32' && dtype !== 'int32' && dtype !== 'bool')) return undefined
  return castValue(emitter, value, dtype)
}

const clip: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined || !isFloat(value)) return undefined
  const [low, high] = [numberAttribute(attributes, 'clipValueMin'), numberAttribute(attributes, 'clipValueMax')]
  return emitter.emit('Clip', [value, emitter.scalar(low, value.type), emitter.scalar(high, value.type)], value)
}

const addMany: KernelRule = (emitter, inputs) => {
  const values = Object.values(inputs).map((info) => (info === undefined ? undefined : emitter.valueOf(info)))
  const [first] = values
  if (first === undefined || !ARITHMETIC.includes(first.type)) return undefined
  if (!values.every((v): v is Value => v !== undefined && v.type === first.type)) return undefined
  return values.reduce((sum, v) => emitter.emit('Add', [sum, v], first))
}

export const elementwiseRules: RuleTable = {
  Abs: unary('Abs', ARITHMETIC),
  Acos: unary('Acos'),
  Acosh: unary('Acosh'),
  Asin: unary('Asin'),
  Asinh: unary('Asinh'),
  Atan: unary('Atan'),
  Ceil: unary('Ceil'),
  Cos: unary('Cos'),
  Cosh: unary('Cosh'),
  Erf: unary('Erf'),
  Exp: unary('Exp'),
  Floor: unary('Floor'),
  IsNan: (emitter, { x }) => {
    const value = emitter.valueOf(x!)
    if (value === undefined || !isFloat(value)) return undefined
    return emitter.emit('IsNaN', [value], { shape: value.shape, type: 'bool' })
  },
  Log: unary('Log'),
  LogicalNot: unary('Not', ['bool']),
  Neg: unary('Neg', ARITHMETIC),
  Reciprocal: unary('Reciprocal'),
  Round: unary('Round'),
  Rsqrt: composed((emitter, x) => emitter.emit('Reciprocal', [emitter.emit('Sqrt', [x], x)], x)),
  Sigmoid: unary('Sigmoid'),
  Sin: unary('Sin'),
  Sinh: unary('Sinh'),
  Sqrt: unary('Sqrt'),
  Square: composed(square, ARITHMETIC),
  Tan: unary('Tan'),
  Tanh: unary('Tanh'),

  Add: binary('Add'),
  AddN: addMany,
  Maximum: binary('Max'),
  Minimum: binary('Min'),
  Multiply: binary('Mul'),
  Pow: binary('Pow', ['float32']),
  RealDiv: binary('Div', ['float32']),
  SquaredDifference: (emitter, inputs, attributes) => {
    const difference = binary('Sub')(emitter, inputs, attributes)
    return difference === undefined ? undefined : square(emitter, difference as Value) // `binary` returns one value
  },
  Sub: binary('Sub'),

  Equal: comparison('Equal'),
  Greater: comparison('Greater'),
  GreaterEqual: comparison('GreaterOrEqual'),
  Less: comparison('Less'),
  LessEqual: comparison('LessOrEqual'),
  LogicalAnd: binary('And', ['bool']),
  LogicalOr: binary('Or', ['bool']),
  NotEqual: comparison('Equal', 'negated'),

  Cast: cast,
  ClipByValue: clip,
  Select: select,
}

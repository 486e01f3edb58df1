/** Activation functions of neural networks and their gradients. */
import type { Value } from '../graph.js'
import {
  type Emitter,
  isFloat,
  type KernelAttributes,
  type KernelRule,
  numberAttribute,
  type RuleTable,
} from '../rule.js'
import { composed, pair, unary } from './elementwise.js'

const booleans = (value: Value): { readonly shape: readonly number[]; readonly type: 'bool' } => ({
  shape: value.shape,
  type: 'bool',
})

/** Compares each element with zero: true if it is below. NaN is not. */
const isNegative = (emitter: Emitter, x: Value): Value =>
  emitter.emit('Less', [x, emitter.fixed(0, x.type)], booleans(x))

/**
 * Computes `x` where it is not negative, otherwise `slope * x`; `slope` broadcasts, also beyond the
 * shape of x.
 */
const leaky = (emitter: Emitter, x: Value, slope: Value, shape: readonly number[]): Value => {
  const output = { shape, type: x.type }
  return emitter.emit('Where', [isNegative(emitter, x), emitter.emit('Mul', [x, slope], output), x], output)
}

/** Computes `max(0, x)`; NaN stays. */
const relu = (emitter: Emitter, x: Value): Value => emitter.emit('Max', [x, emitter.fixed(0, x.type)], x)

/** Computes `min(max(0, x), 6)`; NaN stays. */
const relu6 = (emitter: Emitter, x: Value): Value =>
  emitter.emit('Clip', [x, emitter.fixed(0, x.type), emitter.fixed(6, x.type)], x)

const elu = (emitter: Emitter, x: Value): Value => emitter.emit('Elu', [x], x)

const leakyRelu: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined || !isFloat(value)) return undefined
  return leaky(emitter, value, emitter.scalar(numberAttribute(attributes, 'alpha'), 'float32'), value.shape)
}

const prelu: KernelRule = (emitter, { x, alpha }) => {
  const operands = pair(emitter, x!, alpha!, ['float32'])
  return operands === undefined ? undefined : leaky(emitter, operands.a, operands.b, operands.shape)
}

/**
 * Computes the gradient of elu from its result: `dy` where y is not negative, otherwise `dy * (y +
 * 1)`.
 */
const eluGradient: KernelRule = (emitter, { dy, y }) => {
  const [gradient, result] = [emitter.valueOf(dy!), emitter.valueOf(y!)]
  if (gradient === undefined || result === undefined || !isFloat(gradient) || !isFloat(result)) return undefined
  const slope = emitter.emit('Add', [result, emitter.fixed(1, 'float32')], result)
  const below = emitter.emit('Mul', [gradient, slope], result)
  // `y >= 0` is false of NaN, as in tfjs.
  const above = emitter.emit('GreaterOrEqual', [result, emitter.fixed(0, 'float32')], booleans(result))
  return emitter.emit('Where', [above, gradient, below], result)
}

/** Computes 1 above zero, `alpha` elsewhere, NaN of NaN. */
const step: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined || !isFloat(value)) return undefined
  const above = emitter.emit('Greater', [value, emitter.fixed(0, 'float32')], booleans(value))
  const low = emitter.scalar(numberAttribute(attributes, 'alpha'), 'float32')
  const steps = emitter.emit('Where', [above, emitter.fixed(1, 'float32'), low], value)
  return emitter.emit('Where', [emitter.emit('IsNaN', [value], booleans(value)), value, steps], value)
}

/**
 * Applies the activation of tfjs's fused kernels, by the attributes `activation` and
 * `leakyreluAlpha`; `slope` is the weight tensor of prelu. Returns undefined for a name without an
 * ONNX form.
 */
export const emitActivation = (
  emitter: Emitter,
  x: Value,
  slope: Value | undefined,
  attributes: KernelAttributes,
): Value | undefined => {
  switch (attributes.activation) {
    case undefined:
    case null:
    case 'linear':
      return x
    case 'sigmoid':
      return emitter.emit('Sigmoid', [x], x)
    case 'relu':
      return relu(emitter, x)
    case 'relu6':
      return relu6(emitter, x)
    case 'elu':
      return elu(emitter, x)
    case 'leakyrelu':
      return leaky(emitter, x, emitter.scalar(numberAttribute(attributes, 'leakyreluAlpha'), 'float32'), x.shape)
    case 'prelu':
      return slope === undefined ? undefined : leaky(emitter, x, slope, x.shape)
    default:
      return undefined
  }
}

export const activationRules: RuleTable = {
  Elu: composed(elu),
  EluGrad: eluGradient,
  LeakyRelu: leakyRelu,
  Prelu: prelu,
  Relu: composed(relu, ['float32', 'int32']),
  Relu6: composed(relu6, ['float32', 'int32']),
  Selu: unary('Selu'),
  Softplus: unary('Softplus'),
  Step: step,
}

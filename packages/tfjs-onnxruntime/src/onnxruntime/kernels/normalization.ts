/** Normalization over a batch, and over neighboring channels. */
import { sameShape, type Value } from '../graph.js'
import {
  type Emitter,
  isFloat,
  type KernelAttributes,
  type KernelRule,
  numberAttribute,
  type RuleTable,
} from '../rule.js'

/**
 * Computes `(x - mean) * scale / sqrt(variance + epsilon) + offset`; the parameters have x's shape,
 * or that of its last axis.
 */
const batchNorm: KernelRule = (emitter, inputs, attributes) => {
  const x = emitter.valueOf(inputs.x!)
  if (x === undefined || !isFloat(x) || x.shape.length === 0) return undefined
  const given = [inputs.mean, inputs.variance, inputs.scale, inputs.offset].map((info) =>
    info == null ? undefined : emitter.valueOf(info),
  )
  const fits = given.every(
    (v) => v === undefined || (isFloat(v) && (sameShape(v.shape, x.shape) || sameShape(v.shape, x.shape.slice(-1)))),
  )
  const [mean, variance, scale, offset] = given
  if (mean === undefined || variance === undefined || !fits) return undefined
  const epsilon = emitter.scalar(numberAttribute(attributes, 'varianceEpsilon'), 'float32')
  const deviation = emitter.emit('Sqrt', [emitter.emit('Add', [variance, epsilon], variance)], variance)
  const centered = emitter.emit('Sub', [x, mean], x)
  const scaled = scale === undefined ? centered : emitter.emit('Mul', [centered, scale], x)
  const normal = emitter.emit('Div', [scaled, deviation], x)
  return offset === undefined ? normal : emitter.emit('Add', [normal, offset], x)
}

/**
 * The parameters of one local response normalization: `y = x * (bias + alpha * sum of x^2 over
 * neighbors)^-beta`.
 */
interface Response {
  /** `[channels, channels]`: 1 where the distance of two channels is at most `depthRadius`. */
  readonly neighbors: Value
  readonly alpha: Value
  readonly bias: Value
  readonly beta: number
}

const responseOf = (emitter: Emitter, channels: number, attributes: KernelAttributes): Response => {
  const radius = numberAttribute(attributes, 'depthRadius')
  const data = Float32Array.from({ length: channels ** 2 }, (_, i) =>
    Math.abs(Math.floor(i / channels) - (i % channels)) <= radius ? 1 : 0,
  )
  return {
    neighbors: { ...emitter.fixed(0, 'float32'), data, shape: [channels, channels] },
    alpha: emitter.scalar(numberAttribute(attributes, 'alpha'), 'float32'),
    bias: emitter.scalar(numberAttribute(attributes, 'bias'), 'float32'),
    beta: numberAttribute(attributes, 'beta'),
  }
}

/** Sums over neighboring channels. */
const around = (emitter: Emitter, x: Value, { neighbors }: Response): Value => emitter.emit('MatMul', [x, neighbors], x)

const normOf = (emitter: Emitter, x: Value, response: Response): Value => {
  const sums = around(emitter, emitter.emit('Mul', [x, x], x), response)
  return emitter.emit('Add', [emitter.emit('Mul', [sums, response.alpha], x), response.bias], x)
}

const responseNorm: KernelRule = (emitter, inputs, attributes) => {
  const x = emitter.valueOf(inputs.x!)
  if (x === undefined || !isFloat(x)) return undefined
  const response = responseOf(emitter, x.shape.at(-1)!, attributes)
  const power = emitter.emit('Pow', [normOf(emitter, x, response), emitter.scalar(-response.beta, 'float32')], x)
  return emitter.emit('Mul', [x, power], x)
}

/** Computes `dx = dy norm^-beta - 2 alpha beta x (sum of dy y / norm over neighbors)`. */
const responseNormGradient: KernelRule = (emitter, inputs, attributes) => {
  const [x, y, dy] = [emitter.valueOf(inputs.x!), emitter.valueOf(inputs.y!), emitter.valueOf(inputs.dy!)]
  if (x === undefined || y === undefined || dy === undefined) return undefined
  if (!isFloat(x) || !isFloat(y) || !isFloat(dy)) return undefined
  const response = responseOf(emitter, x.shape.at(-1)!, attributes)
  const norm = normOf(emitter, x, response)
  const direct = emitter.emit('Mul', [dy, emitter.emit('Pow', [norm, emitter.scalar(-response.beta, 'float32')], x)], x)
  const pulls = around(emitter, emitter.emit('Div', [emitter.emit('Mul', [dy, y], x), norm], x), response)
  const factor = emitter.scalar(2 * numberAttribute(attributes, 'alpha') * response.beta, 'float32')
  const indirect = emitter.emit('Mul', [emitter.emit('Mul', [x, pulls], x), factor], x)
  return emitter.emit('Sub', [direct, indirect], x)
}

export const normalizationRules: RuleTable = {
  FusedBatchNorm: batchNorm,
  LRN: responseNorm,
  LRNGrad: responseNormGradient,
}

/** Matrix products and the functions that are usually applied to their results. */
import * as tf from '@tensorflow/tfjs-core'
import type { Value } from '../graph.js'
import type { Emitter, KernelRule, RuleTable } from '../rule.js'
import { broadcastShape, flagAttribute, isFloat, numberAttribute } from '../rule.js'
import { emitActivation } from './activation.js'
import { castValue } from './elementwise.js'

interface MatMulFlags {
  readonly transposeA: boolean
  readonly transposeB: boolean
  /** The factor of the product. */
  readonly alpha: number
}

/**
 * Computes `alpha * op(a) op(b)`. Two matrices use Gemm, which reads transposed operands at full
 * speed; batches use onnxruntime's FusedMatMul, which does the same for them.
 *
 * Errors   throws if shapes do not fit, naming both.
 */
const matMulValue = (emitter: Emitter, a: Value, b: Value, flags: MatMulFlags): Value => {
  const rankA = a.shape.length
  const rankB = b.shape.length
  const rows = a.shape[flags.transposeA ? rankA - 1 : rankA - 2]
  const columns = b.shape[flags.transposeB ? rankB - 2 : rankB - 1]
  const inner = [
    a.shape[flags.transposeA ? rankA - 2 : rankA - 1],
    b.shape[flags.transposeB ? rankB - 1 : rankB - 2],
  ] as const
  const batch = broadcastShape(a.shape.slice(0, -2), b.shape.slice(0, -2))
  if (batch === undefined || rows === undefined || columns === undefined || inner[0] !== inner[1]) {
    const marks = [flags.transposeA ? ' transposed' : '', flags.transposeB ? ' transposed' : '']
    throw new Error(`matMul: [${a.shape.join()}]${marks[0]} and [${b.shape.join()}]${marks[1]} do not fit`)
  }
  const output = { shape: [...batch, rows, columns], type: a.type }
  const [transA, transB] = [flags.transposeA ? 1 : 0, flags.transposeB ? 1 : 0]
  if (rankA === 2 && rankB === 2) {
    return emitter.emit('Gemm', [a, b], output, { attributes: { transA, transB, alpha: { float: flags.alpha } } })
  }
  if (transA === 0 && transB === 0 && flags.alpha === 1) return emitter.emit('MatMul', [a, b], output)
  return emitter.emit('FusedMatMul', [a, b], output, {
    domain: 'com.microsoft',
    attributes: { transA, transB, alpha: { float: flags.alpha } },
  })
}

const matMul: KernelRule = (emitter, inputs, attributes) => {
  const [a, b] = [emitter.valueOf(inputs.a!), emitter.valueOf(inputs.b!)]
  if (a === undefined || b === undefined || !isFloat(a) || !isFloat(b)) return undefined
  const transposeA = flagAttribute(attributes, 'transposeA')
  const transposeB = flagAttribute(attributes, 'transposeB')
  return matMulValue(emitter, a, b, { transposeA, transposeB, alpha: 1 })
}

/** Computes a product with optional bias and an activation, tfjs's `_FusedMatMul`. */
const fusedMatMul: KernelRule = (emitter, inputs, attributes) => {
  const product = matMul(emitter, inputs, attributes) as Value | undefined // `matMul` returns one value
  if (product === undefined) return undefined
  const bias = inputs.bias === undefined ? undefined : emitter.valueOf(inputs.bias)
  const sum = bias === undefined ? product : emitter.emit('Add', [product, bias], product)
  const weights = inputs.preluActivationWeights
  return emitActivation(emitter, sum, weights === undefined ? undefined : emitter.valueOf(weights), attributes)
}

/**
 * Computes the softmax along the last axis, the only one that tfjs allows. (tfjs composes
 * `logSoftmax` of other kernels.)
 */
const softmax: KernelRule = (emitter, { logits }) => {
  const value = emitter.valueOf(logits!)
  if (value === undefined || !isFloat(value) || value.shape.length === 0) return undefined
  return emitter.emit('Softmax', [value], value, { attributes: { axis: -1 } })
}

/** Computes sums of products by an equation such as `ij,jk->ik`. */
const einsum: KernelRule = (emitter, inputs, attributes) => {
  const tensors = Object.values(inputs) as tf.Tensor[] // tfjs reads their shapes only
  const values = tensors.map((info) => emitter.valueOf(info))
  const type = values[0]?.type
  const fits = values.every((v): v is Value => v !== undefined && v.type === type && v.type !== 'bool')
  const { equation } = attributes
  if (!fits || typeof equation !== 'string') return undefined
  const { allDims, idDims } = tf.backend_util.decodeEinsumEquation(equation, values.length)
  tf.backend_util.checkEinsumDimSizes(allDims.length, idDims, tensors)
  const sizes = new Map<string, number>()
  for (const [i, letters] of idDims.entries()) {
    for (const [axis, letter] of letters.entries()) sizes.set(allDims[letter]!, values[i]!.shape[axis]!)
  }
  const written = equation.replace(/\s/g, '')
  const shape = [...written.slice(written.indexOf('->') + 2)].map((letter) => sizes.get(letter)!)
  return emitter.emit('Einsum', values, { shape, type: values[0]!.type }, { attributes: { equation: written } })
}

export const linearRules: RuleTable = {
  BatchMatMul: matMul,
  Einsum: einsum,
  Softmax: softmax,
  _FusedMatMul: fusedMatMul,
}

/** This project's own kernels for the functions in `engine/ops`. */
export const fusedRules: RuleTable = {
  /** `alpha * op(a) op(b)` for a and b of equal rank. */
  ScaledMatMul: (emitter, inputs, attributes) => {
    const [a, b] = [emitter.valueOf(inputs.a!), emitter.valueOf(inputs.b!)]
    if (a === undefined || b === undefined || !isFloat(a) || !isFloat(b)) return undefined
    const transposeA = flagAttribute(attributes, 'transposeA')
    const transposeB = flagAttribute(attributes, 'transposeB')
    return matMulValue(emitter, a, b, { transposeA, transposeB, alpha: numberAttribute(attributes, 'alpha') })
  },
  /** `x op(weight) + bias` of matrices. */
  Linear: (emitter, inputs, attributes) => {
    const [x, weight, bias] = [inputs.x!, inputs.weight!, inputs.bias!].map((info) => emitter.valueOf(info))
    if (x === undefined || weight === undefined || bias === undefined) return undefined
    if (![x, weight, bias].every(isFloat)) return undefined
    const transB = flagAttribute(attributes, 'transposeB') ? 1 : 0
    const [rows, inner] = x.shape
    const [outputs, expected] = [weight.shape[1 - transB], weight.shape[transB]]
    if (x.shape.length !== 2 || weight.shape.length !== 2 || inner !== expected || bias.shape.join() !== `${outputs}`) {
      throw new Error(
        `linear: [${x.shape.join()}], [${weight.shape.join()}] and bias [${bias.shape.join()}] do not fit`,
      )
    }
    return emitter.emit(
      'Gemm',
      [x, weight, bias],
      { shape: [rows!, outputs!], type: x.type },
      { attributes: { transB } },
    )
  },
  /** `x * weight / sqrt(mean(x^2) + epsilon)` along the last axis. */
  RmsNorm: (emitter, inputs, attributes) => {
    const [x, weight] = [emitter.valueOf(inputs.x!), emitter.valueOf(inputs.weight!)]
    if (x === undefined || weight === undefined || !isFloat(x) || !isFloat(weight)) return undefined
    return emitter.emit('SimplifiedLayerNormalization', [x, weight], x, {
      attributes: { axis: -1, epsilon: { float: numberAttribute(attributes, 'epsilon') } },
    })
  },
  /** `(x - mean) / sqrt(variance + epsilon) * weight + bias` along the last axis. */
  LayerNorm: (emitter, inputs, attributes) => {
    const [x, weight, bias] = [
      emitter.valueOf(inputs.x!),
      emitter.valueOf(inputs.weight!),
      emitter.valueOf(inputs.bias!),
    ]
    if (x === undefined || weight === undefined || bias === undefined) return undefined
    if (!isFloat(x) || !isFloat(weight) || !isFloat(bias)) return undefined
    return emitter.emit('LayerNormalization', [x, weight, bias], x, {
      attributes: { axis: -1, epsilon: { float: numberAttribute(attributes, 'epsilon') } },
    })
  },
  /** `x * sigmoid(x)` */
  Silu: (emitter, inputs) => {
    const x = emitter.valueOf(inputs.x!)
    if (x === undefined || !isFloat(x)) return undefined
    return emitter.emit('QuickGelu', [x], x, { domain: 'com.microsoft', attributes: { alpha: { float: 1 } } })
  },
  /** Rotates pairs of features by angles looked up by position; see `engine/ops/rotary.ts`. */
  RotaryEmbedding: (emitter, inputs) => {
    const [x, positions] = [emitter.valueOf(inputs.x!), emitter.valueOf(inputs.positions!)]
    const [cos, sin] = [emitter.valueOf(inputs.cos!), emitter.valueOf(inputs.sin!)]
    if (x === undefined || positions === undefined || cos === undefined || sin === undefined) return undefined
    const places = castValue(emitter, positions, 'int64')
    return emitter.emit('RotaryEmbedding', [x, places, cos, sin], x, { domain: 'com.microsoft' })
  },
}

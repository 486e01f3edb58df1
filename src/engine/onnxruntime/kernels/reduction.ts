/** Kernels that reduce axes, and scans along an axis. */

import type { Value } from '../graph.js'
import type { OnnxType } from '../library.js'
import type { Emitter, KernelAttributes, KernelRule, RuleTable } from '../rule.js'
import { flagAttribute, integersAttribute, isFloat, normalizeAxes, numberAttribute } from '../rule.js'
import { castValue } from './elementwise.js'

interface Folding {
  readonly axes: readonly number[]
  readonly reduced: 'drop' | 'keep'
}

const isNaNValue = (emitter: Emitter, value: Value): Value =>
  emitter.emit('IsNaN', [value], { shape: value.shape, type: 'bool' })

/** Reduces over `axes`; the reduced axes are dropped, or kept with size 1. */
const reduceValue = (emitter: Emitter, name: string, value: Value, options: Folding): Value => {
  const axes = normalizeAxes(options.axes, value.shape.length)
  const keep = options.reduced === 'keep'
  const shape = keep
    ? value.shape.map((n, i) => (axes.includes(i) ? 1 : n))
    : value.shape.filter((_, i) => !axes.includes(i))
  if (axes.length === 0) return value // ONNX would reduce everything; tfjs reduces nothing
  return emitter.emit(
    name,
    [value, emitter.integers(axes)],
    { shape, type: value.type },
    { attributes: { keepdims: keep ? 1 : 0 } },
  )
}

/** Returns the axes and the mode of a call. Without axes, all are reduced. */
const foldingOf = (value: Value, attributes: KernelAttributes, axesName: 'axis' | 'reductionIndices'): Folding => ({
  axes: attributes[axesName] == null ? value.shape.map((_, i) => i) : integersAttribute(attributes, axesName),
  reduced: flagAttribute(attributes, 'keepDims') ? 'keep' : 'drop',
})

const reduction =
  (name: string, types: readonly OnnxType[]): KernelRule =>
  (emitter, { x }, attributes) => {
    const value = emitter.valueOf(x!)
    if (value === undefined || !types.includes(value.type)) return undefined
    return reduceValue(emitter, name, value, foldingOf(value, attributes, 'axis'))
  }

/**
 * Implements Max and Min: NaN if an element is NaN. onnxruntime's own may skip a NaN, depending on
 * its position; the sum of the absolute values is NaN exactly if an element is.
 */
const extreme =
  (name: 'ReduceMax' | 'ReduceMin', axesName: 'axis' | 'reductionIndices'): KernelRule =>
  (emitter, { x }, attributes) => {
    const value = emitter.valueOf(x!)
    if (value === undefined || value.type === 'bool') return undefined
    const folding = foldingOf(value, attributes, axesName)
    const found = reduceValue(emitter, name, value, folding)
    if (!isFloat(value) || found === value) return found
    const sum = reduceValue(emitter, 'ReduceSum', emitter.emit('Abs', [value], value), folding)
    return emitter.emit('Where', [isNaNValue(emitter, sum), sum, found], found)
  }

/** Implements All and Any: the minimum and the maximum of 0 and 1. */
const logicalReduction =
  (name: 'ReduceMin' | 'ReduceMax'): KernelRule =>
  (emitter, { x }, attributes) => {
    const value = emitter.valueOf(x!)
    if (value?.type !== 'bool') return undefined
    const found = reduceValue(emitter, name, castValue(emitter, value, 'int32'), foldingOf(value, attributes, 'axis'))
    return castValue(emitter, found, 'bool')
  }

/** Returns the index of the first extreme. NaN never counts. */
const argument =
  (name: 'ArgMax' | 'ArgMin'): KernelRule =>
  (emitter, { x }, attributes) => {
    const value = emitter.valueOf(x!)
    if (value === undefined || value.type === 'bool' || value.shape.length === 0) return undefined
    const [axis] = normalizeAxes(integersAttribute(attributes, 'axis'), value.shape.length)
    const shape = value.shape.filter((_, i) => i !== axis)
    const least = emitter.fixed(name === 'ArgMax' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY, 'float32')
    const compared = isFloat(value) ? emitter.emit('Where', [isNaNValue(emitter, value), least, value], value) : value
    const found = emitter.emit(name, [compared], { shape, type: 'int64' }, { attributes: { axis: axis!, keepdims: 0 } })
    return castValue(emitter, found, 'int32')
  }

const cumulativeSum: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined || value.type === 'bool' || value.shape.length === 0) return undefined
  const [axis] = normalizeAxes([numberAttribute(attributes, 'axis')], value.shape.length)
  return emitter.emit('CumSum', [value, emitter.integers([axis!])], value, {
    attributes: {
      exclusive: flagAttribute(attributes, 'exclusive') ? 1 : 0,
      reverse: flagAttribute(attributes, 'reverse') ? 1 : 0,
    },
  })
}

const topK: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined || !isFloat(value) || value.shape.length === 0) return undefined
  const k = numberAttribute(attributes, 'k')
  const shape = [...value.shape.slice(0, -1), k]
  const [values, indices] = emitter.emitMany(
    'TopK',
    [value, emitter.integers([k])],
    [
      { shape, type: value.type },
      { shape, type: 'int64' },
    ],
    { attributes: { axis: -1, largest: 1, sorted: 1 } },
  )
  return [values!, castValue(emitter, indices!, 'int32')]
}

export const reductionRules: RuleTable = {
  All: logicalReduction('ReduceMin'),
  Any: logicalReduction('ReduceMax'),
  ArgMax: argument('ArgMax'),
  ArgMin: argument('ArgMin'),
  Cumsum: cumulativeSum,
  Max: extreme('ReduceMax', 'reductionIndices'),
  Mean: reduction('ReduceMean', ['float32']),
  Min: extreme('ReduceMin', 'axis'),
  Prod: reduction('ReduceProd', ['float32', 'int32']),
  Sum: reduction('ReduceSum', ['float32', 'int32']),
  TopK: topK,
}

/** Kernels that reduce axes, and scans along an axis. */
import { sizeOf, type Value } from '../graph.js'
import type { Emitter, KernelAttributes, KernelRule, RuleTable } from '../rule.js'
import { flagAttribute, integersAttribute, isFloat, normalizeAxes, numberAttribute } from '../rule.js'
import { castValue } from './elementwise.js'
import { LONG_SUM, longSum } from './longSum.js'

interface Folding {
  readonly axes: readonly number[]
  readonly reduced: 'drop' | 'keep'
}

const isNaNValue = (emitter: Emitter, value: Value): Value =>
  emitter.emit('IsNaN', [value], { shape: value.shape, type: 'bool' })

/** Returns the shape of a reduction over `axes`, which are dropped, or kept with size 1. */
const reducedShape = ({ shape }: Value, axes: readonly number[], reduced: Folding['reduced']): readonly number[] =>
  reduced === 'keep' ? shape.map((n, i) => (axes.includes(i) ? 1 : n)) : shape.filter((_, i) => !axes.includes(i))

const reduceValue = (emitter: Emitter, name: string, value: Value, options: Folding): Value => {
  const axes = normalizeAxes(options.axes, value.shape.length)
  if (axes.length === 0) return value // ONNX would reduce everything; tfjs reduces nothing
  return emitter.emit(
    name,
    [value, emitter.integers(axes)],
    { shape: reducedShape(value, axes, options.reduced), type: value.type },
    { attributes: { keepdims: options.reduced === 'keep' ? 1 : 0 } },
  )
}

/** Returns the axes and the mode of a call. Without axes, all are reduced. */
const foldingOf = (value: Value, attributes: KernelAttributes, axesName: 'axis' | 'reductionIndices'): Folding => ({
  axes: attributes[axesName] == null ? value.shape.map((_, i) => i) : integersAttribute(attributes, axesName),
  reduced: flagAttribute(attributes, 'keepDims') ? 'keep' : 'drop',
})

const product: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined || value.type === 'bool') return undefined
  return reduceValue(emitter, 'ReduceProd', value, foldingOf(value, attributes, 'axis'))
}

/**
 * Implements Sum and Mean of floats: long sums by blocks. In a graph of varying sizes, where blocks
 * are not known, a sum of all elements is one in float64.
 */
const summed = (emitter: Emitter, name: 'ReduceSum' | 'ReduceMean', value: Value, folding: Folding): Value => {
  const axes = normalizeAxes(folding.axes, value.shape.length)
  if (emitter.sizes() === 'vary' && axes.length === value.shape.length)
    return castValue(emitter, reduceValue(emitter, name, castValue(emitter, value, 'float64'), folding), 'float32')
  const count = sizeOf(axes.map((axis) => value.shape[axis]!))
  if (emitter.sizes() === 'vary' || count <= LONG_SUM) return reduceValue(emitter, name, value, folding)
  const dropped = longSum(emitter, value, axes)
  const shape = reducedShape(value, axes, folding.reduced)
  const sum = emitter.emit('Reshape', [dropped, emitter.integers(shape)], { shape, type: value.type })
  return name === 'ReduceSum' ? sum : emitter.emit('Div', [sum, emitter.scalar(count, value.type)], sum)
}

const sum: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined || value.type === 'bool') return undefined
  const folding = foldingOf(value, attributes, 'axis')
  return isFloat(value)
    ? summed(emitter, 'ReduceSum', value, folding)
    : reduceValue(emitter, 'ReduceSum', value, folding)
}

const mean: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined || !isFloat(value)) return undefined
  return summed(emitter, 'ReduceMean', value, foldingOf(value, attributes, 'axis'))
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
  Mean: mean,
  Min: extreme('ReduceMin', 'axis'),
  Prod: product,
  Sum: sum,
  TopK: topK,
}

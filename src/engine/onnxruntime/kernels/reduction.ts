/** Kernels that fold axes away, and scans along an axis. */
import type { OnnxType } from '../binding.js'
import type { Value } from '../graph.js'
import type { Emitter, KernelRule, RuleTable } from '../rule.js'
import { flagAttribute, integersAttribute, isFloat, normalizeAxes, numberAttribute } from '../rule.js'
import { castValue } from './elementwise.js'

/** A reduction over `axes`; the reduced axes go, or stay with size 1. */
const reduceValue = (
  emitter: Emitter,
  name: string,
  value: Value,
  options: { readonly axes: readonly number[]; readonly reduced: 'drop' | 'keep' },
): Value => {
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

const reduction =
  (name: string, types: readonly OnnxType[], axesName: 'axis' | 'reductionIndices' = 'axis'): KernelRule =>
  (emitter, { x }, attributes) => {
    const value = emitter.valueOf(x!)
    if (value === undefined || !types.includes(value.type)) return undefined
    const axes = attributes[axesName] == null ? value.shape.map((_, i) => i) : integersAttribute(attributes, axesName)
    return reduceValue(emitter, name, value, { axes, reduced: flagAttribute(attributes, 'keepDims') ? 'keep' : 'drop' })
  }

/** All and Any: the minimum and the maximum of 0 and 1. */
const logicalReduction =
  (name: 'ReduceMin' | 'ReduceMax'): KernelRule =>
  (emitter, { x }, attributes) => {
    const value = emitter.valueOf(x!)
    if (value?.type !== 'bool') return undefined
    const axes = attributes.axis == null ? value.shape.map((_, i) => i) : integersAttribute(attributes, 'axis')
    const reduced = flagAttribute(attributes, 'keepDims') ? 'keep' : 'drop'
    return castValue(emitter, reduceValue(emitter, name, castValue(emitter, value, 'int32'), { axes, reduced }), 'bool')
  }

const argument =
  (name: 'ArgMax' | 'ArgMin'): KernelRule =>
  (emitter, { x }, attributes) => {
    const value = emitter.valueOf(x!)
    if (value === undefined || value.type === 'bool' || value.shape.length === 0) return undefined
    const [axis] = normalizeAxes(integersAttribute(attributes, 'axis'), value.shape.length)
    const shape = value.shape.filter((_, i) => i !== axis)
    const found = emitter.emit(name, [value], { shape, type: 'int64' }, { attributes: { axis: axis!, keepdims: 0 } })
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
  Max: reduction('ReduceMax', ['float32', 'int32'], 'reductionIndices'),
  Mean: reduction('ReduceMean', ['float32']),
  Min: reduction('ReduceMin', ['float32', 'int32']),
  Prod: reduction('ReduceProd', ['float32', 'int32']),
  Sum: reduction('ReduceSum', ['float32', 'int32']),
  TopK: topK,
}

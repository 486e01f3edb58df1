/** Sequences of numbers: ranges, and cumulative products. */
import type { Value } from '../graph.js'
import {
  type Emitter,
  flagAttribute,
  type KernelAttributes,
  type KernelRule,
  normalizeAxes,
  numberAttribute,
  type RuleTable,
} from '../rule.js'

/** Returns `start`, then each number plus `step`, in the precision of `numbers`. */
const count = <T extends Float32Array | Int32Array>(numbers: T, start: number, step: number): T => {
  if (numbers.length > 0) numbers[0] = start
  for (let i = 1; i < numbers.length; i++) numbers[i] = numbers[i - 1]! + step
  return numbers
}

/**
 * Returns the values of tfjs's Range kernel: from `start` to before `stop`. A descending range may
 * leave its `step` at 1. Undefined for a dtype other than float32 and int32.
 */
export const rangeNumbers = (attributes: KernelAttributes): Float32Array | Int32Array | undefined => {
  const [start, stop, step] = [
    numberAttribute(attributes, 'start'),
    numberAttribute(attributes, 'stop'),
    numberAttribute(attributes, 'step'),
  ]
  const { dtype } = attributes
  const empty = start === stop || (start < stop && step < 0) || (stop < start && step > 1)
  const length = empty ? 0 : Math.abs(Math.ceil((stop - start) / step))
  const stride = stop < start && step === 1 ? -1 : step
  if (dtype === 'float32') return count(new Float32Array(length), start, stride)
  return dtype === 'int32' ? count(new Int32Array(length), start, stride) : undefined
}

/** Returns the values of tfjs's LinSpace kernel: `num` float32 numbers from `start` to `stop`. */
export const linearNumbers = (attributes: KernelAttributes): Float32Array => {
  const [start, stop, num] = [
    numberAttribute(attributes, 'start'),
    numberAttribute(attributes, 'stop'),
    numberAttribute(attributes, 'num'),
  ]
  return count(new Float32Array(num), start, (stop - start) / (num - 1))
}

interface Shift {
  readonly axis: number
  readonly by: number
  readonly direction: 'forward' | 'backward'
}

/**
 * Shifts the elements along an axis: ones are shifted in, and elements beyond the end are dropped.
 */
const shift = (emitter: Emitter, value: Value, { axis, by, direction }: Shift): Value => {
  const [before, after] = direction === 'forward' ? [by, -by] : [-by, by]
  const widths = [before, after].flatMap((n) => value.shape.map((_, i) => (i === axis ? n : 0)))
  return emitter.emit('Pad', [value, emitter.integers(widths), emitter.fixed(1, value.type)], value)
}

/**
 * Computes the cumulative product. Doubles the reach of each product until it covers the axis:
 * log2(n) steps.
 */
const cumulativeProduct: KernelRule = (emitter, { x }, attributes) => {
  const value = emitter.valueOf(x!)
  if (value === undefined || value.type === 'bool' || value.shape.length === 0) return undefined
  const [axis] = normalizeAxes([numberAttribute(attributes, 'axis')], value.shape.length)
  const direction = flagAttribute(attributes, 'reverse') ? 'backward' : 'forward'
  const moved = (v: Value, by: number): Value => shift(emitter, v, { axis: axis!, by, direction })
  const length = value.shape[axis!]!
  let product = flagAttribute(attributes, 'exclusive') ? moved(value, 1) : value
  for (let by = 1; by < length; by *= 2) product = emitter.emit('Mul', [product, moved(product, by)], value)
  return product
}

export const sequenceRules: RuleTable = { Cumprod: cumulativeProduct }

/**
 * Sums of many float32 numbers.
 *
 * onnxruntime adds the numbers of a sum one after the other, in at most eight partial sums. With
 * millions of numbers a partial sum becomes so large that the rest is rounded away. Here blocks of
 * numbers are added first, and the sums of the blocks are added in float64.
 */
import { sizeOf, type Value } from '../graph.js'
import type { Emitter } from '../rule.js'
import { castValue } from './elementwise.js'

/** The number of elements of a sum up to which one operation is exact enough. */
export const LONG_SUM = 1024

/**
 * The numbers in a block: of neighbors, which have eight partial sums, and of numbers apart from
 * one another, which have one. Both add at most 16 numbers in a row, for a relative error below
 * 7e-7 if all have one sign.
 */
const BLOCK = { neighbors: 128, apart: 16 } as const

/** Divisors below this share of a block are not worth their number of blocks. */
const LEAST_SHARE = 1 / 8

/** Returns the largest divisor of `n` that is at most `limit`. */
const divisorOf = (n: number, limit: number): number => {
  let divisor = Math.min(n, limit)
  while (n % divisor !== 0) divisor--
  return divisor
}

/** Consecutive axes that are summed, `start` to below `end`. */
interface Run {
  readonly start: number
  readonly end: number
  readonly size: number
}

/** Returns the run of summed axes with the most elements. */
const longestRun = (shape: readonly number[], axes: readonly number[]): Run => {
  const runs: Run[] = []
  for (const axis of [...axes].sort((a, b) => a - b)) {
    const last = runs.at(-1)
    if (last?.end === axis) runs[runs.length - 1] = { ...last, end: axis + 1, size: last.size * shape[axis]! }
    else runs.push({ start: axis, end: axis + 1, size: shape[axis]! })
  }
  return runs.reduce((longest, run) => (run.size > longest.size ? run : longest))
}

/** Sums more than `LONG_SUM` float32 numbers over `axes`, which are dropped. */
export const longSum = (emitter: Emitter, value: Value, axes: readonly number[]): Value => {
  const { shape } = value
  const reduce = (x: Value, over: readonly number[]): Value => {
    const rest = x.shape.filter((_, axis) => !over.includes(axis))
    const output = { shape: rest, type: x.type }
    return emitter.emit('ReduceSum', [x, emitter.integers(over)], output, { attributes: { keepdims: 0 } })
  }
  const reshape = (x: Value, to: readonly number[]): Value =>
    emitter.emit('Reshape', [x, emitter.integers(to)], { shape: to, type: x.type })
  const { start, end, size } = longestRun(shape, axes)
  const [before, after] = [shape.slice(0, start), shape.slice(end)]
  const [outer, inner] = [sizeOf(before), sizeOf(after)]
  const most = inner === 1 ? BLOCK.neighbors : BLOCK.apart
  const divisor = divisorOf(size, most)
  const block = divisor < Math.min(size, most * LEAST_SHARE) ? most : divisor
  const blocks = Math.ceil(size / block)
  const missing = blocks * block - size
  const padded = (): Value => {
    const output = { shape: [outer, blocks * block, inner], type: value.type }
    const widths = emitter.integers([0, 0, 0, 0, missing, 0])
    return emitter.emit('Pad', [reshape(value, [outer, size, inner]), widths, emitter.fixed(0, value.type)], output)
  }
  const whole = missing === 0 ? value : padded()
  // Without an axis of size 1 at the end, which onnxruntime would reduce number by number.
  const sums = reduce(reshape(whole, [outer * blocks, block, ...(inner === 1 ? [] : [inner])]), [1])
  const exact = castValue(emitter, reshape(sums, [...before, blocks, ...after]), 'float64')
  const run = end - start - 1
  const others = axes.flatMap((axis) => (axis < start ? [axis] : axis >= end ? [axis - run] : []))
  return castValue(emitter, reduce(exact, [start, ...others]), 'float32')
}

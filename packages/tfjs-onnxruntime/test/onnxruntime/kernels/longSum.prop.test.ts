import { keyFromSeed, uniforms } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { clipByGlobalNorm, globalNorm } from '../../../../../src/objectives/updates/optimizer.js'
import { useOnnxRuntime, valuesOf } from '../../../../../test/kit/engine.js'
import { jit } from '../../../src/jit.js'
import { forWebGpu } from '../../../src/onnxruntime/webGpu.js'
import { scope } from '../../../src/scope.js'

const { backend } = useOnnxRuntime()

const errorOf = (found: number, exact: number): number => Math.abs(found - exact) / Math.abs(exact)

const TENTH = Math.fround(0.1)

/** Adds float32 numbers in float32, as a loop does. */
const naiveSum = (x: number, count: number): number => {
  let sum = 0
  for (let i = 0; i < count; i++) sum = Math.fround(sum + x)
  return sum
}

describe('sums of many numbers', () => {
  it.each([
    [[1e8], undefined],
    [[28_000, 1000], undefined],
    [[28_000_001], undefined], // no block divides it
    [[1009, 2003, 3], undefined],
    [[300_000, 16], 0],
    [[3, 65_537, 5], 1],
    [[3, 65_537], 1],
    [
      [17, 40_000, 11],
      [0, 1],
    ],
    [
      [200, 7, 3000],
      [0, 2],
    ],
  ] as const)('are exact to 1e-6 for shape %j over axes %j', (shape, axes) => {
    const over = axes === undefined ? shape.map((_, axis) => axis) : [axes].flat()
    const count = over.reduce((product, axis) => product * shape[axis]!, 1)
    const [sum, mean] = scope(() => {
      const x = tf.fill([...shape], TENTH)
      const folded = axes === undefined ? undefined : over
      return [tf.sum(x, folded), tf.mean(x, folded)].map(valuesOf)
    })
    expect(errorOf(naiveSum(TENTH, count), count * TENTH)).toBeGreaterThan(1e-5)
    for (const value of sum!) expect(errorOf(value, count * TENTH)).toBeLessThan(1e-6)
    for (const value of mean!) expect(errorOf(value, TENTH)).toBeLessThan(1e-6)
  })

  it('are those of float64 for any shape and axes', () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 80 }), { minLength: 1, maxLength: 4 })
    const cases = sizes
      .filter((shape) => shape.reduce((a, b) => a * b, 1) < 300_000)
      .chain((shape) =>
        fc.record({ shape: fc.constant(shape), axes: fc.subarray(shape.map((_, i) => i)), seed: fc.nat() }),
      )
    const law = fc.property(cases, fc.boolean(), ({ shape, axes, seed }, keep) => {
      const size = shape.reduce((a, b) => a * b, 1)
      const data = Float32Array.from(uniforms(keyFromSeed(seed), size))
      const [found, exact] = scope(() => {
        const x = tf.tensor(data, shape)
        const sum = tf.sum(x, axes, keep)
        const before = tf.getBackend()
        tf.setBackend('cpu') // adds in float64
        const expected = tf.sum(tf.tensor(data, shape), axes, keep)
        const both = [
          { shape: sum.shape, values: valuesOf(sum) },
          { shape: expected.shape, values: valuesOf(expected) },
        ] as const
        tf.setBackend(before)
        return both
      })
      expect(found.shape).toEqual(exact.shape)
      for (const [i, value] of found.values.entries()) expect(errorOf(value, exact.values[i]!)).toBeLessThan(1e-6)
    })
    fc.assert(law, { numRuns: 50 })
  })

  it('of all elements are exact in a graph of varying sizes', () => {
    const total = jit(
      ({ x }: { readonly x: tf.Tensor }) => ({ sum: tf.sum(x), mean: tf.mean(x), rows: tf.sum(x, 1) }),
      {
        varying: ({ x }) => [{ tensor: x, axes: ['rows', 'columns'] }],
      },
    )
    for (const shape of [
      [3, 5],
      [3000, 2000],
    ] as const) {
      const [sum, mean, rows] = scope(() => {
        const found = total({ x: tf.fill([...shape], TENTH) })
        return [found.sum, found.mean, found.rows].map(valuesOf)
      })
      const [n, m] = shape
      expect(errorOf(sum![0]!, n * m * TENTH)).toBeLessThan(1e-6)
      expect(errorOf(mean![0]!, TENTH)).toBeLessThan(1e-6)
      expect(rows).toHaveLength(n)
    }
    expect(total.compiles()).toBe(1)
    total.release()
  })

  it('give the global norm and the clipped gradients of 28 million numbers', () => {
    const shapes = [[28_000, 1000], [4096], [1]]
    const exact = TENTH * Math.sqrt(28_004_097)
    const [norm, clipped] = scope(() => {
      const grads = Object.fromEntries(shapes.map((shape, i) => [`w${i}`, tf.fill(shape, TENTH)]))
      return [globalNorm(grads), clipByGlobalNorm(grads, 1).grads.w2!].map((x) => valuesOf(x)[0]!)
    })
    expect(errorOf(norm!, exact)).toBeLessThan(1e-6)
    expect(errorOf(clipped!, TENTH / exact)).toBeLessThan(2e-6)
  })

  it('have no float64 on WebGPU, whose provider lacks it', () => {
    const { graph } = backend().trace([{ shape: [5000], dtype: 'float32' }], ([x]) => [tf.sum(x!)], 'fixed')
    const casts = ({ operations }: typeof graph) =>
      operations.filter(({ name }) => name === 'Cast').map(({ attributes }) => attributes.to)
    expect(casts(graph)).toEqual([11, 1])
    const rewritten = forWebGpu(graph)
    expect(casts(rewritten)).toEqual([1])
    const made = new Set(rewritten.operations.flatMap(({ outputs }) => outputs))
    const used = rewritten.operations.flatMap(({ inputs }) => inputs)
    expect(used.every((input) => input!.operation === null || made.has(input!))).toBe(true)
  })
})

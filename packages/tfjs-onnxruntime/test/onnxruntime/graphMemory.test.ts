import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { useOnnxRuntime } from '../../../../test/kit/engine.js'
import { jit } from '../../src/jit.js'
import { keptBytes, memoryMode, runBytes } from '../../src/onnxruntime/graphMemory.js'
import { scope } from '../../src/scope.js'

const { backend } = useOnnxRuntime()

/** A chain of `[n, n]` products, with the given results alive at the end. */
const traced = (n: number, steps: number) => {
  const chain = ([x]: readonly tf.Tensor[]): readonly tf.Tensor[] => {
    let y = x!
    for (let i = 0; i < steps; i++) y = tf.matMul(y, x!)
    return [y]
  }
  return backend().trace([{ shape: [n, n], dtype: 'float32' }], chain, 'fixed').graph
}

/** Runs `f` and frees its tensors. */
const run = (f: () => unknown): void =>
  scope(() => {
    f()
  })

const MEBIBYTE = 2 ** 20

describe('the memory that a graph needs', () => {
  it('is that of the values that are alive at once', () => {
    const n = 64
    expect(runBytes(traced(n, 1))).toEqual({ peak: n * n * 4, largest: n * n * 4 })
    expect(runBytes(traced(n, 10))).toEqual({ peak: 2 * n * n * 4, largest: n * n * 4 }) // an input and an output
  })

  it('is kept where it is little, and where values are large and there is room; else it is returned', () => {
    const bytes = (peak: number, largest: number) => ({ peak: peak * MEBIBYTE, largest: largest * MEBIBYTE })
    expect(memoryMode(bytes(2, 1), 0)).toBe('planned')
    expect(memoryMode(bytes(200, 8), Infinity)).toBe('returned')
    expect(memoryMode(bytes(200, 64), 200 * MEBIBYTE)).toBe('kept')
    expect(memoryMode(bytes(200, 64), 199 * MEBIBYTE)).toBe('returned')
  })
})

describe('the bytes that graphs hold', () => {
  it('are counted while they are alive, and once', () => {
    const before = backend().stats()
    const f = jit((x: tf.Tensor) => tf.exp(tf.mul(x, 2)))
    run(() => f(tf.zeros([3])))
    const during = backend().stats()
    expect(during.graphs - before.graphs).toBe(1)
    expect(during.heldBytes).toBeGreaterThan(before.heldBytes + keptBytes({ peak: 12, largest: 12 }, 'planned'))
    f.release()
    f.release()
    expect(backend().stats()).toMatchObject({ graphs: before.graphs, heldBytes: before.heldBytes })
  })

  it('bound what a compiled function keeps: the least recently used graph goes first, the newest stays', () => {
    const f = jit((x: tf.Tensor) => tf.exp(tf.mul(x, 2)), { cacheBytes: 1 })
    const before = backend().stats().graphs
    for (const size of [1, 2, 3, 4]) run(() => f(tf.zeros([size])))
    expect(backend().stats().graphs - before).toBeLessThanOrEqual(2)
    f.release()
  })
})

describe('an error of a graph that was recorded once', () => {
  it('still names kernel and place', () => {
    const f = jit(({ x, i }: { x: tf.Tensor; i: tf.Tensor }) => tf.gather(x, tf.cast(i, 'int32')))
    run(() => f({ x: tf.tensor1d([1, 2]), i: tf.tensor1d([1], 'int32') }))
    expect(() => run(() => f({ x: tf.tensor1d([1, 2]), i: tf.tensor1d([9], 'int32') }))).toThrow(
      /Gather.*could not run[\s\S]*graphMemory\.test/,
    )
    f.release()
  })
})

import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { useOnnxRuntime, valuesOf } from '../../../../test/kit/engine.js'
import { jit } from '../../src/jit.js'
import { KernelError } from '../../src/onnxruntime/origin.js'
import { registerOnnxRuntime } from '../../src/register.js'

useOnnxRuntime()

const failureOf = (f: () => unknown): KernelError => {
  try {
    tf.tidy(() => {
      f()
    })
  } catch (error) {
    if (error instanceof KernelError) return error
    throw error
  }
  throw new Error('expected a KernelError')
}

/** An index that only the run can find wrong. */
const gatherBeyond = (): tf.Tensor =>
  tf.gather(tf.ones([3, 2]), tf.add(tf.tensor1d([3], 'int32'), tf.tensor1d([4], 'int32')) as tf.Tensor1D) // rank 1 by its operands

/** More memory than there is: 4e10 numbers. */
const hugeProduct = (): tf.Tensor => tf.matMul(tf.ones([200_000, 1]), tf.ones([1, 200_000]))

describe('an operation that fails when it runs', () => {
  it('is named with its inputs and the place of its call', () => {
    const error = failureOf(() => gatherBeyond().dataSync())
    expect(error.kernel).toBe('GatherV2')
    expect(error.message).toContain('GatherV2 of x float32[3,2], indices int32[1] could not run')
    expect(error.message).toContain('out of data bounds')
    expect(error.message).toMatch(/recorded at gatherBeyond .*origin\.test\.ts/)
  })

  it('is named when memory runs out, too', () => {
    const error = failureOf(() => hugeProduct().dataSync())
    expect(error.message).toMatch(/BatchMatMul of a float32\[200000,1\], b float32\[1,200000\]/)
    expect(error.message).toMatch(/alloc/i)
  })

  it('is named inside a compiled function', () => {
    const look = jit(({ x, at }: { readonly x: tf.Tensor; readonly at: tf.Tensor }) => ({
      y: tf.gather(tf.exp(x), at as tf.Tensor1D),
    }))
    const error = failureOf(() => look({ x: tf.ones([3]), at: tf.tensor1d([4], 'int32') }))
    expect(error.kernel).toBe('GatherV2')
    tf.tidy(() => {
      expect(valuesOf(look({ x: tf.zeros([3]), at: tf.tensor1d([2], 'int32') }).y)).toEqual([1])
    })
    look.release()
  })

  it('leaves what was recorded before and beside it readable, and the backend usable', () => {
    tf.tidy(() => {
      const before = tf.mul(tf.ones([2]), 3)
      const bad = gatherBeyond()
      const beside = tf.add(before, 1)
      expect(() => bad.dataSync()).toThrow(KernelError)
      expect(valuesOf(beside)).toEqual([4, 4])
      expect(valuesOf(before)).toEqual([3, 3])
      expect(() => bad.dataSync()).toThrow(KernelError) // and says so again
      expect(valuesOf(tf.sub(beside, before))).toEqual([1, 1])
    })
  })

  it('is named without its place when stacks are off', () => {
    registerOnnxRuntime({ threads: 2, spinning: 'off', stacks: 'off' })
    tf.setBackend('onnxruntime')
    const error = failureOf(() => gatherBeyond().dataSync())
    expect(error.message).toContain('GatherV2 of x float32[3,2]')
    expect(error.message).not.toContain('recorded')
    registerOnnxRuntime({ threads: 2, spinning: 'off' })
    tf.setBackend('onnxruntime')
  })
})

/** On the backend that computes where the numbers lie. */
import { jit } from '@tandem-rl/tfjs-onnxruntime'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { makeParams } from '../../src/modules/pretrained/pretrained.js'
import { useOnnxRuntime } from '../kit/engine.js'

useOnnxRuntime()

const square = jit(({ x }: { readonly x: tf.Tensor }) => ({ y: tf.matMul(x, x) }))

describe('parameters of arrays', () => {
  it('lie in the arrays, which stay when the parameters are freed', () => {
    const data = Float32Array.of(1, 2, 3, 4)
    const params = own(scope(() => makeParams(new Map([['x', { shape: [2, 2], data }]]))))
    expect(params.value.x!.dataSync()).toBe(data)
    expect([...scope(() => square({ x: params.value.x! }).y.dataSync())]).toEqual([7, 10, 15, 22])
    params.release()
    expect([...data]).toEqual([1, 2, 3, 4])
  })

  it('are copies of integers and of what lies in memory that threads share', () => {
    const shared = new Float32Array(new SharedArrayBuffer(16))
    shared.set([1, 2, 3, 4])
    for (const data of [Int32Array.of(1, 2, 3, 4), shared]) {
      const result = scope(() => square({ x: makeParams(new Map([['x', { shape: [2, 2], data }]])).x! }).y.dataSync())
      expect([...result]).toEqual([7, 10, 15, 22])
    }
    square.release()
  })
})

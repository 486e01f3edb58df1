/** The number of threads inside one operation, changed after the start. */
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { onBackend } from '../../../test/kit/backends.js'
import { useOnnxRuntime } from '../../../test/kit/engine.js'
import { jit } from '../src/jit.js'
import { engineReport } from '../src/report.js'
import { engineThreads } from '../src/threads.js'

useOnnxRuntime({ threads: 2 })

const product = () => tf.tidy(() => tf.sum(tf.matMul(tf.ones([200, 200]), tf.ones([200, 200]))).dataSync()[0])

describe('the threads of the engine', () => {
  it('change for graphs that are compiled later, one graph for each number', () => {
    const threads = engineThreads()!
    expect(threads.count()).toBe(2)
    expect(product()).toBe(8_000_000)
    const { compiles } = engineReport()
    threads.use(1)
    expect(engineReport().threads).toBe(1)
    expect(product()).toBe(8_000_000)
    expect(engineReport().compiles).toBe(compiles + 1)
    threads.use(2)
    expect(product()).toBe(8_000_000)
    expect(engineReport().compiles).toBe(compiles + 1)
  })

  it('stay those of compiled functions', () => {
    const threads = engineThreads()!
    const twice = jit(({ x }: { readonly x: tf.Tensor }) => tf.mul(x, 2))
    const run = () => tf.tidy(() => twice({ x: tf.scalar(3) }).dataSync()[0])
    expect(run()).toBe(6)
    const { compiles } = engineReport()
    threads.use(1)
    expect(run()).toBe(6)
    expect(engineReport().compiles).toBe(compiles)
    threads.use(2)
    twice.release()
  })

  it('are fixed on other backends', () => {
    expect(onBackend('cpu', engineThreads)).toBeNull()
  })
})

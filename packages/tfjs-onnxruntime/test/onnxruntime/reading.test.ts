/** Reading values: asynchronously, with times, and in worker threads. */
import { Worker } from 'node:worker_threads'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { useOnnxRuntime, valuesOf } from '../../../../test/kit/engine.js'

const { backend } = useOnnxRuntime()

describe('data()', () => {
  it('lets what is waiting in the event loop go first', async () => {
    const sum = tf.tidy(() => tf.exp(tf.zeros([3])))
    const order: string[] = []
    setImmediate(() => order.push('other'))
    const values = await sum.data().then((data) => {
      order.push('data')
      return data
    })
    expect([Array.from(values), order]).toEqual([
      [1, 1, 1],
      ['other', 'data'],
    ])
    sum.dispose()
  })

  it('of several tensors is one run', async () => {
    const tensors = tf.tidy(() => [tf.exp(tf.zeros([2])), tf.sqrt(tf.fill([2], 25))])
    const before = backend().stats().runs
    const values = await Promise.all(tensors.map((tensor) => tensor.data()))
    expect(values.map((x) => Array.from(x))).toEqual([
      [1, 1],
      [5, 5],
    ])
    expect(backend().stats().runs - before).toBe(1)
    tf.dispose(tensors)
  })

  it('gives the values of a tensor that is disposed while they are awaited', async () => {
    const tensor = tf.tidy(() => tf.sqrt(tf.fill([2], 9)))
    const reading = tensor.data()
    tensor.dispose()
    expect(Array.from(await reading)).toEqual([3, 3])
  })
})

describe('measuring', () => {
  it('tf.time gives the time of the kernels that its function records', async () => {
    const { kernelMs, wallMs } = await tf.time(() => {
      tf.tidy(() => {
        tf.matMul(tf.ones([64, 64]), tf.ones([64, 64])).dataSync()
      })
    })
    expect(kernelMs).toBeGreaterThan(0)
    expect(wallMs).toBeGreaterThanOrEqual(0)
  })

  it('tf.profile names each kernel with its shapes and its bytes', async () => {
    const before = tf.memory().numBytes
    const profile = await tf.profile(() => tf.tidy(() => tf.sum(tf.matMul(tf.ones([2, 3]), tf.ones([3, 4])))))
    expect(profile.kernelNames).toEqual(expect.arrayContaining(['BatchMatMul', 'Sum']))
    const product = profile.kernels.find(({ name }) => name === 'BatchMatMul')
    expect(product).toMatchObject({ outputShapes: [[2, 4]], bytesAdded: 32 })
    expect(profile.newBytes).toBe(tf.memory().numBytes - before)
    tf.dispose(profile.result as tf.Tensor) // the function's result
  })
})

describe('statistics', () => {
  it('count the bytes that go in and come back', () => {
    tf.tidy(() => {
      const x = tf.tensor1d(new Float32Array(100))
      const before = backend().stats()
      valuesOf(tf.exp(x))
      const after = backend().stats()
      expect([after.bytesIn - before.bytesIn, after.bytesOut - before.bytesOut]).toEqual([400, 400])
    })
  })
})

describe('worker threads', () => {
  it('each have a backend of their own, next to the one of the main thread', async () => {
    const start = (): Promise<unknown> =>
      new Promise((resolve, reject) => {
        const worker = new Worker(new URL('../../../../test/kit/backendWorker.mjs', import.meta.url))
        worker.once('message', resolve).once('error', reject)
      })
    const results = await Promise.all([start(), start()])
    expect(results).toEqual([
      [6, 6],
      [6, 6],
    ])
    tf.tidy(() => {
      expect(valuesOf(tf.exp(tf.zeros([2])))).toEqual([1, 1])
    })
  })
})

/** Threads of compiled graphs. */
import * as tf from '@tensorflow/tfjs-core'
import { expect, it } from 'vitest'
import { useOnnxRuntime } from '../../../../test/kit/engine.js'
import { jit } from '../../src/jit.js'

useOnnxRuntime({ threads: 2, spinning: 'on' })

it('sleep between runs, so that other graphs and the garbage collector have the cores', async () => {
  const product = jit(({ a, b }: { a: tf.Tensor; b: tf.Tensor }) => tf.matMul(a, b))
  const [a, b] = [tf.ones([256, 512]), tf.ones([512, 512])]
  const run = (): void => tf.dispose(product({ a, b }))
  for (let i = 0; i < 5; i++) run()
  let [idle, used] = [0, 0]
  for (let i = 0; i < 20; i++) {
    run()
    const [started, before] = [performance.now(), process.cpuUsage()]
    await new Promise((resolve) => setTimeout(resolve, 5))
    const { user, system } = process.cpuUsage(before)
    idle += performance.now() - started
    used += (user + system) / 1000
  }
  product.release()
  tf.dispose([a, b])
  expect(used / idle).toBeLessThan(0.5) // 0.03 here; a spinning thread takes 1
})

/** Programs of TensorFlow.js that import nothing of this project but the engine. */
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import '@tandem-rl/tfjs-onnxruntime'
import { runWithPackages } from '../../../../test/kit/packages.js'

describe("import '@tandem-rl/tfjs-onnxruntime'", () => {
  it('makes tfjs compute on onnxruntime, without another word', async () => {
    await tf.ready()
    expect(tf.getBackend()).toBe('onnxruntime')
    expect(Array.from(tf.tidy(() => tf.matMul(tf.ones([2, 3]), tf.ones([3, 1])).dataSync()))).toEqual([3, 3])
  })

  it("trains tfjs's own layers with tfjs's own optimizer", async () => {
    const { code, stdout, stderr } = await runWithPackages(`
      import * as tf from '@tensorflow/tfjs'
      import '@tandem-rl/tfjs-onnxruntime'
      const dense = (options) => tf.layers.dense({ ...options, kernelInitializer: tf.initializers.glorotUniform({ seed: 1 }) })
      const model = tf.sequential({ layers: [dense({ units: 8, activation: 'tanh', inputShape: [1] }), dense({ units: 1 })] })
      model.compile({ optimizer: tf.train.adam(0.05), loss: 'meanSquaredError' })
      const xs = tf.linspace(-1, 1, 32).reshape([32, 1])
      const { history } = await model.fit(xs, xs.square(), { epochs: 60, batchSize: 32, shuffle: false, verbose: 0 })
      console.log(JSON.stringify({ backend: tf.getBackend(), losses: history.loss }))`)
    expect(code, stderr).toBe(0)
    // Cast: the last line of the program above.
    const { backend, losses } = JSON.parse(stdout) as { backend: string; losses: readonly number[] }
    expect(backend).toBe('onnxruntime')
    expect(losses.at(-1)).toBeLessThan(losses[0]! / 10)
  })
})

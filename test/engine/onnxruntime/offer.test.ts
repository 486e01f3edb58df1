/** A program of TensorFlow.js that knows nothing of this project but one import. */
import * as tf from '@tensorflow/tfjs'
import { describe, expect, it } from 'vitest'
import '../../../src/doors/engine.js'

describe("import 'tandem-rl/engine'", () => {
  it('makes tfjs compute on onnxruntime, without another word', async () => {
    await tf.ready()
    expect(tf.getBackend()).toBe('onnxruntime')
    expect(Array.from(tf.tidy(() => tf.matMul(tf.ones([2, 3]), tf.ones([3, 1])).dataSync()))).toEqual([3, 3])
  })

  it("trains tfjs's own layers with tfjs's own optimizer", async () => {
    const model = tf.sequential({
      layers: [
        tf.layers.dense({
          units: 8,
          activation: 'tanh',
          inputShape: [1],
          kernelInitializer: tf.initializers.glorotUniform({ seed: 1 }),
        }),
        tf.layers.dense({ units: 1, kernelInitializer: tf.initializers.glorotUniform({ seed: 2 }) }),
      ],
    })
    const optimizer = tf.train.adam(0.05)
    model.compile({ optimizer, loss: 'meanSquaredError' })
    const xs = tf.tidy(() => tf.linspace(-1, 1, 32).reshape([32, 1]))
    const ys = tf.square(xs)
    const history = await model.fit(xs, ys, { epochs: 60, batchSize: 32, shuffle: false, verbose: 0 })
    const losses = history.history.loss as number[] // one number for each epoch
    expect(losses.at(-1)).toBeLessThan(losses[0]! / 10)
    model.dispose()
    optimizer.dispose()
    tf.dispose([xs, ys])
  })
})

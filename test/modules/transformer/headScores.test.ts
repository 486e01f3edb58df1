import { gatherLogProbs, tokenScores, valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { logitsOf } from '../../../src/modules/transformer/forward.js'
import { headScores, scoresInChunks } from '../../../src/modules/transformer/headScores.js'
import { useOnnxRuntime } from '../../kit/engine.js'
import { tinyConfig } from '../../kit/models.js'

useOnnxRuntime()

const [N, V, D] = [300, 40_000, 8]

const wave = (shape: readonly number[], frequency: number, size: number): tf.Tensor =>
  tf.reshape(tf.mul(tf.sin(tf.mul(tf.range(0, tf.util.sizeFromShape([...shape])), frequency)), size), [...shape])

const largest = (a: tf.Tensor, b: tf.Tensor): number => tf.max(tf.abs(tf.sub(a, b))).dataSync()[0]!

describe.each([null, 2])('scores in chunks, with the soft cap %s', (logitSoftCap) => {
  const config = { ...tinyConfig({ vocabularySize: V, hiddenSize: D, tiedEmbeddings: false }), logitSoftCap }
  const made = () => {
    const ids = tf.cast(tf.mod(tf.mul(tf.range(0, N, 1, 'int32'), 7919), V), 'int32')
    const tensors = { states: wave([N, D], 0.7, 1), 'lm_head.weight': wave([V, D], 0.013, 0.5) }
    const upstream = wave([N], 0.3, 1)
    return { ids, tensors, upstream, inverseTemperature: tf.scalar(1.25) }
  }

  it('are those of all logits at once, and so are their gradients', () =>
    scope(() => {
      const { ids, tensors, upstream, inverseTemperature } = made()
      expect(scoresInChunks(tensors, config, N)).toBe(true)
      const chunked = valueAndGrad(tensors, ({ states, ...weights }) => {
        const inner = {
          states,
          ids: tf.clone(ids),
          inverseTemperature: tf.clone(inverseTemperature),
          entropy: 'metric',
        } as const // freed with the forward pass, unless they are saved
        const scores = headScores(weights, config, inner)
        return { value: tf.sum(tf.mul(scores.logProbs, upstream)), aux: { ...scores } }
      })
      const whole = valueAndGrad(tensors, ({ states, ...weights }) => {
        const logits = tf.mul(logitsOf(weights, config, states), inverseTemperature)
        const greedy = tf.cast(tf.equal(tf.argMax(logits, -1), ids), 'float32')
        const { entropy } = tokenScores(logits, ids)
        const logProbs = gatherLogProbs(logits, ids)
        return { value: tf.sum(tf.mul(logProbs, upstream)), aux: { logProbs, entropy, greedy } }
      })
      for (const name of ['logProbs', 'entropy', 'greedy'] as const)
        expect(largest(chunked.aux[name]!, whole.aux[name])).toBeLessThan(1e-5)
      for (const name of Object.keys(tensors)) {
        const size = tf.max(tf.abs(whole.grads[name]!)).dataSync()[0]!
        expect(largest(chunked.grads[name]!, whole.grads[name]!)).toBeLessThan(1e-5 * size)
      }
    }))
})

it('few rows, and a head with an adapter, are scored at once', () => {
  const config = tinyConfig({ vocabularySize: V })
  expect(scoresInChunks({}, config, 128)).toBe(false)
  expect(scoresInChunks({}, config, 129)).toBe(true)
  expect(scoresInChunks({}, { ...config, vocabularySize: 1024 }, 4096)).toBe(false)
  scope(() => {
    expect(scoresInChunks({ 'lm_head.lora_A.weight': tf.zeros([1, D]) }, config, 300)).toBe(false)
  })
})

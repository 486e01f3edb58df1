/**
 * Gradients layer by layer: those of the whole decoder, for what is trained and for nothing else.
 */
import { keyFromSeed, uniformInteger } from '@tandem-rl/base'
import { gatherLogProbs, valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { liveTensors, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { withLora } from '../../../src/modules/lora/adapter.js'
import { loraConfig } from '../../../src/modules/lora/config.js'
import { makeParams } from '../../../src/modules/pretrained/pretrained.js'
import type { DecoderConfig } from '../../../src/modules/transformer/config.js'
import { logitsOf } from '../../../src/modules/transformer/forward.js'
import { makeLayerwise, type Readout } from '../../../src/modules/transformer/layerwise.js'
import { completionBatch } from '../../../src/modules/transformer/pack.js'
import { initialParams, type Params } from '../../../src/modules/transformer/params.js'
import { completionStates } from '../../../src/modules/transformer/score.js'
import { anySmallConfig } from '../../kit/configs.js'
import { useEngine, valuesOf } from '../../kit/engine.js'
import { randomAdapter } from '../../kit/lora.js'
import { tinyConfig } from '../../kit/models.js'
import { repeated } from '../../kit/repeated.js'

useEngine({ threads: 1 })

/** Two prompts of different lengths, with two completions each. */
const batchOf = (config: DecoderConfig) => {
  const ids = (label: number, length: number): number[] =>
    Array.from({ length }, (_, t) => uniformInteger(keyFromSeed(label), config.vocabularySize, t))
  const prompts = repeated([ids(1, 3), ids(2, 7)], 2)
  return completionBatch({ prompts, completions: [ids(3, 5), ids(4, 1), ids(5, 2), ids(6, 9)] }, config)
}

/** Some scalar of the logits in which every one of them has a part. */
const lossOf =
  (config: DecoderConfig) =>
  ({ states, weights }: Readout, { ids }: { readonly ids: tf.Tensor }) => {
    const logProbs = gatherLogProbs(tf.mul(logitsOf(weights, config, states), 0.7), ids)
    return { value: tf.mean(tf.mul(logProbs, tf.cos(tf.range(0, ids.size)))), aux: { lowest: tf.min(logProbs) } }
  }

const split = (params: Params, isTrained: (name: string) => boolean): readonly [Params, Params] => {
  const entries = Object.entries(params)
  return [
    Object.fromEntries(entries.filter(([name]) => isTrained(name))),
    Object.fromEntries(entries.filter(([name]) => !isTrained(name))),
  ]
}

/** Both ways of computing gradients: values by name. */
const both = (config: DecoderConfig, all: Params, isTrained: (name: string) => boolean) => {
  const [params, frozen] = split(all, isTrained)
  const layerwise = makeLayerwise(config, lossOf(config))
  const numbers = scope(() => {
    const batch = batchOf(config)
    const rest = { ids: tf.reshape(batch.completionIds, [-1]) }
    const whole = valueAndGrad(params, (named) => {
      const weights = { ...frozen, ...named }
      return lossOf(config)({ states: completionStates(weights, config, batch), weights }, rest)
    })
    const parts = layerwise.run({ params, frozen, batch, rest })
    return [whole, parts].map(({ value, grads, aux }) => ({
      value: valuesOf(value),
      lowest: valuesOf(aux.lowest),
      grads: Object.fromEntries(Object.entries(grads).map(([name, gradient]) => [name, valuesOf(gradient)])),
    }))
  })
  layerwise.release()
  return { whole: numbers[0]!, parts: numbers[1]! }
}

const norm = (values: readonly number[]): number => Math.hypot(...values)

/** The largest difference of a gradient from the whole one's, relative to the norm of all. */
const gapOf = ({ whole, parts }: ReturnType<typeof both>): number => {
  expect(Object.keys(parts.grads)).toEqual(Object.keys(whole.grads))
  const all = norm(Object.values(whole.grads).flat())
  return Math.max(
    ...Object.entries(whole.grads).map(
      ([name, values]) => norm(values.map((x, i) => x - parts.grads[name]![i]!)) / all,
    ),
  )
}

describe('gradients layer by layer', () => {
  it('are those of the whole decoder to 1e-6, whatever decoder it is and whichever parameters are trained', () => {
    fc.assert(
      fc.property(anySmallConfig, fc.nat(1000), fc.constantFrom(1, 2, 5), (config, seed, every) => {
        scope(() => {
          const all = initialParams(config, keyFromSeed(seed), 0.5)
          const names = Object.keys(all)
          const result = both(config, all, (name) => (names.indexOf(name) + seed) % every === 0)
          expect(result.parts.value[0]).toBeCloseTo(result.whole.value[0]!, 5)
          expect(result.parts.lowest[0]).toBeCloseTo(result.whole.lowest[0]!, 5)
          expect(gapOf(result)).toBeLessThan(1e-6)
        })
      }),
      { numRuns: 5 },
    )
  })

  it.each([null, [1]])('of an adapter are those of the whole decoder (layers %s)', (layers) => {
    const config = tinyConfig({ layers: 3 })
    scope(() => {
      const adapter = randomAdapter(config, loraConfig({ rank: 2, layers }), keyFromSeed(1))
      const lora = { config: adapter.config, tensors: makeParams(adapter.arrays) }
      const all = withLora(initialParams(config, keyFromSeed(2), 0.5), lora)
      expect(gapOf(both(config, all, (name) => name in lora.tensors))).toBeLessThan(1e-6)
    })
  })

  it.each(['tied', 'untied'])('are collected once each, as they are known (%s embeddings)', (embeddings) => {
    const config = tinyConfig({ layers: 3, tiedEmbeddings: embeddings === 'tied' })
    scope(() => {
      const params = initialParams(config, keyFromSeed(1), 0.5)
      const layerwise = makeLayerwise(config, lossOf(config))
      const batch = batchOf(config)
      const input = { params, frozen: {}, batch, rest: { ids: tf.reshape(batch.completionIds, [-1]) } }
      const plain = layerwise.run(input).grads
      const collected: string[][] = []
      const twice = layerwise.run(input, (part) => {
        collected.push(Object.keys(part))
        return Object.fromEntries(Object.entries(part).map(([name, gradient]) => [name, tf.mul(gradient, 2)]))
      }).grads
      layerwise.release()
      expect(collected.flat().sort()).toEqual(Object.keys(params).sort())
      expect(collected).toHaveLength(4) // three layers, and the weights outside of them
      expect(Object.keys(twice)).toEqual(Object.keys(plain))
      for (const [name, gradient] of Object.entries(twice))
        expect(valuesOf(gradient)).toEqual(valuesOf(plain[name]!).map((x) => 2 * x))
    })
  })

  it('leave no tensor but the results', () => {
    const config = tinyConfig()
    scope(() => {
      const params = initialParams(config, keyFromSeed(1), 0.5)
      const layerwise = makeLayerwise(config, lossOf(config))
      const batch = batchOf(config)
      const input = {
        params,
        frozen: {},
        batch,
        rest: { ids: tf.reshape(batch.completionIds, [-1]) },
      }
      const before = liveTensors().count
      layerwise.run(input)
      expect(liveTensors().count - before).toBe(Object.keys(params).length + 2) // value and aux
      layerwise.release()
    })
  })
})

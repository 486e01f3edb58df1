/**
 * Adapters as values: what they change, what they leave alone, and that all forms of one compute
 * the same.
 */
import { keyFromSeed } from '@tandem-rl/base'
import { requireLeft, requireRight } from '@tandem-rl/testing'
import { valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type Adapter,
  adapterMismatch,
  initialLora,
  type LoraParams,
  mergeLora,
  withLora,
} from '../../../src/modules/lora/adapter.js'
import { loraConfig } from '../../../src/modules/lora/config.js'
import { adapterFromWeights, adapterWeights } from '../../../src/modules/lora/weights.js'
import { hostArrays, makeParams } from '../../../src/modules/pretrained/pretrained.js'
import { untieEmbeddings } from '../../../src/modules/pretrained/untie.js'
import { addLora, loraNames } from '../../../src/modules/transformer/applyLora.js'
import { initialParams, type Params, parameterShapes } from '../../../src/modules/transformer/params.js'
import { TransformersWrapper } from '../../../src/modules/transformersWrapper.js'
import { expectClose } from '../../kit/close.js'
import { useEngine, valuesOf } from '../../kit/engine.js'
import { anyAdapted, logitsOfRows, PROMPT, randomAdapter } from '../../kit/lora.js'
import { tinyConfig } from '../../kit/models.js'

useEngine({ threads: 1 })

const config = tinyConfig()
const anyKey = fc.nat(1000).map(keyFromSeed)
const makeLora = ({ config, arrays }: Adapter): LoraParams => ({ config, tensors: makeParams(arrays) })

/** Two rows of tokens that every small vocabulary has. */
const ROWS = [
  [0, 0, 0, 0, 0, 0],
  [0, 0, 0, 0, 0, 0],
]

const TOLERANCE = { absolute: 1e-4, relative: 1e-4 }

describe('an adapter', () => {
  it('and the merged weights give the same logits, up to rounding, and leave the base as it was', () => {
    fc.assert(
      fc.property(anyAdapted, anyKey, ([decoder, lora], key) => {
        scope(() => {
          const base = initialParams(decoder, key, 0.5)
          const before = Object.entries(base).map(([name, tensor]) => [name, tensor, valuesOf(tensor)] as const)
          const adapter = makeLora(randomAdapter(decoder, lora, key))
          const merged = mergeLora(decoder, base, adapter)
          const adapted = logitsOfRows(withLora(base, adapter), decoder, ROWS)
          expectClose(logitsOfRows(merged, decoder, ROWS), Array.from(adapted), TOLERANCE)
          const { config, arrays } = untieEmbeddings({ config: decoder, arrays: hostArrays(merged) })
          expectClose(logitsOfRows(makeParams(arrays), config, ROWS), Array.from(adapted), TOLERANCE)
          expect([...arrays.keys()]).toEqual([...parameterShapes(config).keys()])
          for (const [name, tensor, values] of before) {
            expect(base[name]).toBe(tensor)
            expect(valuesOf(tensor)).toEqual(values)
          }
        })
      }),
      { numRuns: 15 },
    )
  })

  it('computes the same in the form that engines take, whatever ranks and scales its modules have', () => {
    fc.assert(
      fc.property(anyAdapted, anyKey, ([decoder, lora], key) => {
        scope(() => {
          const adapter = randomAdapter(decoder, lora, key)
          const again = requireRight(adapterFromWeights(decoder, adapterWeights(adapter)))
          const base = initialParams(decoder, key, 0.5)
          const [expected, actual] = [adapter, again].map((a) =>
            logitsOfRows(withLora(base, makeLora(a)), decoder, ROWS),
          )
          expectClose(actual!, Array.from(expected!), TOLERANCE)
        })
      }),
      { numRuns: 15 },
    )
  })

  it('that is new changes no logit by a bit', () => {
    scope(() => {
      const base = initialParams(config, keyFromSeed(1), 0.5)
      const fresh = makeLora(requireRight(initialLora(config, loraConfig({ rank: 3 }), keyFromSeed(2))))
      const rows = [[5, 6, 7, 8, 9, 10]]
      expect(logitsOfRows(withLora(base, fresh), config, rows)).toEqual(logitsOfRows(base, config, rows))
    })
  })

  it('begins with A uniform within 1 / sqrt(inputs), drawn by its module alone, and B zero', () => {
    const lora = loraConfig({ rank: 8, targetModules: ['down_proj'] })
    const [few, all] = [lora, { ...lora, targetModules: 'all-linear' as const }].map((settings) =>
      requireRight(initialLora(config, settings, keyFromSeed(3))),
    )
    const { a, b } = loraNames('model.layers.1.mlp.down_proj')
    const drawn = few!.arrays.get(a)!
    expect(drawn).toEqual(all!.arrays.get(a))
    expect(drawn.shape).toEqual([8, config.intermediateSize])
    const bound = 1 / Math.sqrt(config.intermediateSize)
    const [lowest, highest] = [Math.min(...drawn.data), Math.max(...drawn.data)]
    expect(lowest).toBeGreaterThanOrEqual(-bound)
    expect(highest).toBeLessThanOrEqual(bound)
    expect(highest - lowest).toBeGreaterThan(1.9 * bound)
    expect(few!.arrays.get(b)).toEqual({ shape: [config.hiddenSize, 8], data: new Float32Array(8 * config.hiddenSize) })
  })

  it('has the gradients that the weight it stands for has, by the chain rule', () => {
    const [inputs, outputs, rank, scaling] = [5, 4, 2, 1.5]
    scope(() => {
      const { a, b, scaling: factor } = loraNames('m')
      const x = tf.randomNormal([3, inputs], 0, 1, 'float32', 1)
      const y = tf.randomNormal([3, outputs], 0, 1, 'float32', 2)
      const adapter = {
        [a]: tf.randomNormal([rank, inputs], 0, 1, 'float32', 3),
        [b]: tf.randomNormal([outputs, rank], 0, 1, 'float32', 4),
      }
      const loss = (out: tf.Tensor): tf.Tensor => tf.sum(tf.square(tf.add(out, y)))
      const { grads } = valueAndGrad(adapter, (tensors) => ({
        value: loss(addLora({ ...tensors, [factor]: tf.scalar(scaling) }, 'm', { x, y: tf.zeros([3, outputs]) })),
        aux: {},
      }))
      const whole = valueAndGrad({ w: tf.mul(tf.matMul(adapter[b]!, adapter[a]!), scaling) }, ({ w }) => ({
        value: loss(tf.matMul(x, w, false, true)),
        aux: {},
      })).grads.w!
      const expected = {
        [a]: tf.mul(tf.matMul(adapter[b]!, whole, true, false), scaling),
        [b]: tf.mul(tf.matMul(whole, adapter[a]!, false, true), scaling),
      }
      for (const name of [a, b]) expectClose(valuesOf(grads[name]!), valuesOf(expected[name]!), TOLERANCE)
    })
  })
})

describe('a policy', () => {
  it('samples and scores with an adapter, and refuses one that is incomplete or of another model', async () => {
    const adapter = randomAdapter(config, loraConfig({ rank: 2, targetModules: ['q_proj'] }), keyFromSeed(4))
    using params = own(scope(() => withLora(initialParams(config, keyFromSeed(5)), makeLora(adapter))))
    const policy = scope(() => TransformersWrapper({ config, params: params.value }))
    const { a, b, scaling } = loraNames('model.layers.0.self_attn.q_proj')
    const without = (name: string): Params =>
      Object.fromEntries(Object.entries(params.value).filter(([n]) => n !== name))
    for (const name of [a, b, scaling]) {
      expect(requireLeft(await policy.load(without(name), 1)()).reason).toContain(`'${name}' must be [`)
    }
    expect(policy.version()).toBe(0)
    expect(requireRight(await policy.load(params.value, 1)())).toBe(1)
    policy.release()
    expect(adapterMismatch(config, { 'model.norm.lora_A.weight': params.value[a]! })).toBe(
      "'model.norm' is not a projection of this architecture",
    )
  })

  it('throws, naming it, at a tensor of an adapter that is missing in a forward pass', () => {
    const { a, scaling } = loraNames('m')
    scope(() => {
      const x = tf.zeros([1, PROMPT])
      expect(() => addLora({ [a]: x }, 'm', { x, y: x })).toThrow("addLora: parameter 'm.lora_B.weight' is missing")
      expect(() => addLora({ [scaling]: x }, 'm', { x, y: x })).toThrow(
        "addLora: parameter 'm.lora_A.weight' is missing",
      )
      expect(addLora({}, 'm', { x, y: x })).toBe(x)
    })
  })
})

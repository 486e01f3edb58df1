import { keyFromSeed } from '@tandem-rl/base'
import { anyKey } from '@tandem-rl/testing'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { initialParams, parameterCount, parameterShapes } from '../../../src/modules/transformer/params.js'
import { anySmallConfig } from '../../kit/configs.js'
import { useEngine, valuesOf } from '../../kit/engine.js'
import { tinyConfig } from '../../kit/models.js'

useEngine()

/** The numbers of fresh parameters, by name. */
const initialNumbers = (...args: Parameters<typeof initialParams>): Readonly<Record<string, readonly number[]>> =>
  scope(() => Object.fromEntries(Object.entries(initialParams(...args)).map(([name, t]) => [name, valuesOf(t)])))

const deviation = (xs: readonly number[]): number => Math.sqrt(xs.reduce((sum, x) => sum + x * x, 0) / xs.length)

describe('parameterShapes', () => {
  it('has what the description names: weights, biases where they are added, an output projection only without tied embeddings', () => {
    fc.assert(
      fc.property(anySmallConfig, (config) => {
        const { attention, feedForward, layers } = config
        const names = [...parameterShapes(config).keys()]
        const projections = [...attention.inputs, attention.output, ...feedForward.inputs, feedForward.output]
        const norms = [attention.before, attention.after, feedForward.before, feedForward.after].filter(
          (n) => n !== null,
        )
        const all = [...norms, attention.queryNorm, attention.keyNorm].filter((n) => n !== null)
        const biases = [...projections.filter((p) => p.bias === 'added'), ...all.filter((n) => n.kind === 'layer')]
        const inLayers = names.filter((name) => name.startsWith(`${config.layerName}.`))
        expect(inLayers.filter((name) => name.endsWith('.bias'))).toHaveLength(layers * biases.length)
        expect(inLayers).toHaveLength(layers * (projections.length + all.length + biases.length))
        expect(names.includes('lm_head.weight')).toBe(!config.tiedEmbeddings)
        expect(new Set(names).size).toBe(names.length)
      }),
    )
  })

  it('writes linear weights as [out, in], with grouped keys and values narrower than queries', () => {
    const shapes = parameterShapes(tinyConfig({ hiddenSize: 16, heads: 4, keyValueHeads: 2, headSize: 8 }))
    const prefix = 'model.layers.1.self_attn'
    expect(shapes.get(`${prefix}.q_proj.weight`)).toEqual([32, 16])
    expect(shapes.get(`${prefix}.k_proj.weight`)).toEqual([16, 16])
    expect(shapes.get(`${prefix}.v_proj.bias`)).toEqual([16])
    expect(shapes.get(`${prefix}.o_proj.weight`)).toEqual([16, 32])
    expect(shapes.get('model.layers.0.mlp.down_proj.weight')).toEqual([16, 32])
  })
})

describe('initialParams', () => {
  it('makes exactly the parameters of the architecture, and parameterCount of them', () => {
    fc.assert(
      fc.property(anySmallConfig, anyKey, (config, key) => {
        scope(() => {
          const params = initialParams(config, key)
          const made = Object.entries(params).map(([name, tensor]) => [name, tensor.shape])
          expect(made).toEqual([...parameterShapes(config)])
          expect(Object.values(params).reduce((sum, tensor) => sum + tensor.size, 0)).toBe(parameterCount(config))
        })
      }),
      { numRuns: 30 },
    )
  })

  it('draws equal numbers from equal keys and others from other keys', () => {
    fc.assert(
      fc.property(anySmallConfig, fc.nat(1000), (config, seed) => {
        const numbers = initialNumbers(config, keyFromSeed(seed))
        expect(initialNumbers(config, keyFromSeed(seed))).toEqual(numbers)
        expect(initialNumbers(config, keyFromSeed(seed + 1))).not.toEqual(numbers)
      }),
      { numRuns: 20 },
    )
  })

  it('draws weights with the standard deviation given, independently of each other; norms are 1 and biases 0', () => {
    const numbers = initialNumbers(tinyConfig({ hiddenSize: 64, intermediateSize: 64 }), keyFromSeed(1), 0.5)
    for (const [name, values] of Object.entries(numbers)) {
      if (name.endsWith('norm.weight')) expect(new Set(values), name).toEqual(new Set([1]))
      else if (name.endsWith('.bias')) expect(new Set(values), name).toEqual(new Set([0]))
      // the standard error is 0.5 / sqrt(2 * 2048) = 0.008 for the smallest of them
      else expect(Math.abs(deviation(values) - 0.5), name).toBeLessThan(0.04)
    }
    expect(numbers['model.layers.0.mlp.up_proj.weight']).not.toEqual(numbers['model.layers.0.mlp.gate_proj.weight'])
    expect(numbers['model.layers.0.mlp.up_proj.weight']).not.toEqual(numbers['model.layers.1.mlp.up_proj.weight'])
  })

  it('has the deviation of Transformers, 0.02, by default', () => {
    const numbers = initialNumbers(tinyConfig({ hiddenSize: 64 }), keyFromSeed(2))
    expect(Math.abs(deviation(numbers['model.embed_tokens.weight']!) - 0.02)).toBeLessThan(0.002)
  })
})

import { keyFromSeed } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { hostArrays, makeParams } from '../../../src/modules/pretrained/pretrained.js'
import { pretrainedFiles } from '../../../src/modules/pretrained/saveModel.js'
import { untieEmbeddings } from '../../../src/modules/pretrained/untie.js'
import { initialParams, parameterShapes } from '../../../src/modules/transformer/params.js'
import { makeScorer } from '../../../src/modules/transformer/scorer.js'
import { anySmallConfig } from '../../kit/configs.js'
import { useEngine } from '../../kit/engine.js'
import { tinyConfig } from '../../kit/models.js'
import { byteText } from '../../kit/small.js'

useEngine()

describe('untieEmbeddings', () => {
  it('gives a model of any architecture all parameters of an untied one, and changes nothing else', () => {
    fc.assert(
      fc.property(anySmallConfig, (config) => {
        const arrays = new Map(
          [...parameterShapes(config)].map(([name, shape]) => [name, { shape, data: new Float32Array(0) }]),
        )
        const model = { config, arrays }
        const untied = untieEmbeddings(model)
        expect(untied.config.tiedEmbeddings).toBe(false)
        expect([...untied.arrays.keys()].sort()).toEqual([...parameterShapes(untied.config).keys()].sort())
        for (const [name, array] of arrays) expect(untied.arrays.get(name)).toBe(array)
        if (!config.tiedEmbeddings) expect(untied).toBe(model)
      }),
    )
  })

  it('keeps what the model computes', () => {
    const config = tinyConfig({ tiedEmbeddings: true })
    const model = { config, arrays: scope(() => hostArrays(initialParams(config, keyFromSeed(1), 0.5))) }
    const [tied, own] = [model, untieEmbeddings(model)].map(({ config: made, arrays }) => {
      const scorer = makeScorer(made)
      const rows = scope(() =>
        scorer.score(makeParams(arrays), { prompts: [[1, 2, 3]], completions: [[4, 5, 6]], temperature: 1 }),
      )
      scorer.release()
      return rows.map((row) => [...row])
    })
    expect(own).toEqual(tied)
  })

  it('keeps the projection of weights that have one, with which a model folder is written', () => {
    const config = tinyConfig({ tiedEmbeddings: true })
    const arrays = scope(() => hostArrays(initialParams(config, keyFromSeed(1), 0.5)))
    const head = { shape: arrays.get('model.embed_tokens.weight')!.shape, data: new Float32Array(512).fill(2) }
    const model = { config, arrays: new Map([...arrays, ['lm_head.weight', head] as const]) }
    expect(untieEmbeddings(model).arrays.get('lm_head.weight')).toBe(head)
    const files = pretrainedFiles({ ...model, text: byteText() })
    expect(JSON.parse(String(files['config.json']))).toMatchObject({ tie_word_embeddings: false })
  })

  it('throws if the embedding is missing', () => {
    const config = tinyConfig({ tiedEmbeddings: true })
    expect(() => untieEmbeddings({ config, arrays: new Map() })).toThrow("'model.embed_tokens.weight' is missing")
  })
})

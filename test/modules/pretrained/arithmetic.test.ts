/** Configs with equal and with different arithmetic. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { orThrow } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { describe, expect, it } from 'vitest'
import { EMBEDDED_MODEL } from '../../../src/live/embeddedModel.js'
import { modelEngine } from '../../../src/modules/generation/modelEngine.js'
import { arithmeticDifferences } from '../../../src/modules/pretrained/arithmetic.js'
import { loadPretrained, makeParams } from '../../../src/modules/pretrained/pretrained.js'
import { pretrainedFiles } from '../../../src/modules/pretrained/saveModel.js'
import { formatConfig, parseConfig } from '../../../src/modules/transformer/config.js'
import { useEngine } from '../../kit/engine.js'
import { leftOf, rightOf } from '../../kit/results.js'
import { useTemporaryFolder } from '../../kit/runs.js'

const config = orThrow(
  parseConfig({
    ...{ model_type: 'mistral', vocab_size: 16, hidden_size: 8, intermediate_size: 8, num_hidden_layers: 1 },
    ...{ num_attention_heads: 2, num_key_value_heads: 1, head_dim: 4, sliding_window: 8, max_position_embeddings: 32 },
    ...{ eos_token_id: 1 },
  }),
)

const changed = (change: object) => orThrow(parseConfig({ ...formatConfig(config), ...change }))

describe('two configs', () => {
  it.each([
    [{ rope_theta: 500_000 }, 'theta'],
    [{ rope_scaling: { rope_type: 'linear', factor: 2 } }, 'scaling'],
    [{ rms_norm_eps: 1e-5 }, 'epsilon'],
    [{ sliding_window: 16 }, 'window'],
    [{ sliding_window: null }, 'window'],
    [{ hidden_act: 'gelu' }, 'activation'],
    [{ head_dim: 8 }, 'headSize'],
    [{ tie_word_embeddings: true }, 'tiedEmbeddings'],
  ])('that differ in %j are told apart', (change, name) => {
    const paths = arithmeticDifferences(config, changed(change))
    expect(paths.join()).toContain(name)
    expect(arithmeticDifferences(changed(change), config).toSorted()).toEqual(paths.toSorted())
  })

  it.each([{}, { eos_token_id: [1, 2] }, { pad_token_id: 3 }, { max_position_embeddings: 64 }, { dtype: 'bfloat16' }])(
    'that differ in %j alone compute the same',
    (change) => {
      expect(arithmeticDifferences(config, changed(change))).toEqual([])
    },
  )
})

describe('an engine', () => {
  useEngine()
  const path = useTemporaryFolder()

  it('refuses weights of a folder with another rotary base, epsilon or window, and names what differs', async () => {
    const model = await rightOf(loadPretrained(EMBEDDED_MODEL))
    const engine = scope(() => modelEngine({ config: model.config, params: makeParams(model.arrays) }))
    const folderOf = (name: string, change: object): string => {
      mkdirSync(path(name))
      const files = pretrainedFiles({
        ...model,
        config: orThrow(parseConfig({ ...formatConfig(model.config), ...change })),
      })
      for (const file of ['config.json', 'model.safetensors']) writeFileSync(path(`${name}/${file}`), files[file]!)
      return path(name)
    }
    const load = (name: string, change: object) =>
      engine.loadWeights({ _tag: 'Folder', path: folderOf(name, change) }, { version: 1, running: 'recompute' })
    try {
      const rope = { rope_theta: 500_000, rope_parameters: { rope_type: 'default', rope_theta: 500_000 } }
      expect((await leftOf(load('base', rope))).reason).toMatch(/its config differs in rotary\.\w+\.theta$/)
      expect((await leftOf(load('epsilon', { rms_norm_eps: 1e-3 }))).reason).toContain('epsilon')
      await rightOf(load('same', { eos_token_id: [510, 511] }))
    } finally {
      await engine.close()
    }
  })
})

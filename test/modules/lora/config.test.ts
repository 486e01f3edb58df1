/** Projections that an adapter changes, its scale, and refused settings. */
import { keyFromSeed } from '@tandem-rl/base'
import { requireLeft, requireRight } from '@tandem-rl/testing'
import { describe, expect, it } from 'vitest'
import { initialLora } from '../../../src/modules/lora/adapter.js'
import { adaptedProjections, type LoraConfig, loraConfig, scalingOf } from '../../../src/modules/lora/config.js'
import { projections } from '../../../src/modules/lora/projections.js'
import { tinyConfig } from '../../kit/models.js'

const config = tinyConfig({ tiedEmbeddings: false })
const modules = (changes: Partial<LoraConfig>): readonly string[] => [
  ...requireRight(adaptedProjections(config, loraConfig(changes))).keys(),
]
const refusal = (changes: Partial<LoraConfig>): string =>
  requireLeft(adaptedProjections(config, loraConfig(changes))).reason

describe('the projections', () => {
  it('are the matrices of the layers with their sizes, with the output last and without embeddings', () => {
    const all = projections(config)
    expect(all.size).toBe(2 * 7 + 1)
    expect(all.get('model.layers.1.self_attn.k_proj')).toMatchObject({ inputs: 16, outputs: 16 })
    expect(all.get('model.layers.1.mlp.down_proj')).toMatchObject({ inputs: 32, outputs: 16 })
    expect([...all.keys()].filter((module) => !module.startsWith('model.layers.'))).toEqual(['lm_head'])
    expect(all.get('lm_head')).toMatchObject({ inputs: 16, outputs: config.vocabularySize })
  })
})

describe('target modules', () => {
  it.each([
    ['all projections', { targetModules: 'all-linear' }, 14],
    ['all of one layer', { targetModules: 'all-linear', layers: [1] }, 7],
    ['the ends of paths', { targetModules: ['q_proj', 'mlp.up_proj'] }, 4],
    ['the output projection', { targetModules: ['lm_head', 'q_proj'], layers: [0] }, 2],
    ['the ends of paths in one layer', { targetModules: ['q_proj', 'v_proj'], layers: [0] }, 2],
    ['a whole path, in whatever layer', { targetModules: ['model.layers.1.mlp.up_proj', 'q_proj'], layers: [0] }, 2],
  ] as const)('may be %s', (_, changes, count) => {
    expect(modules(changes)).toHaveLength(count)
  })

  it('do not match half a name', () => {
    expect(refusal({ targetModules: ['proj'] })).toBe(
      "LoRA: 'proj' is not a projection of this model (it has q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, lm_head)",
    )
  })
})

describe('scaling', () => {
  const adapted = (changes: Partial<LoraConfig>, module: string) =>
    requireRight(adaptedProjections(config, loraConfig(changes))).get(module)

  it.each([
    ['alpha/rank', 4],
    ['alpha/sqrt(rank)', 8],
  ] as const)('is %s', (scaling, expected) => {
    expect(scalingOf(loraConfig({ alpha: 16, scaling }), 'm', 4)).toBe(expected)
  })

  it('takes the first pattern that the end of the path fits', () => {
    const changes = { rank: 4, alpha: 8, rankPattern: { 'mlp.up_proj': 2, up_proj: 1 }, alphaPattern: { q_proj: 20 } }
    expect(adapted(changes, 'model.layers.0.mlp.up_proj')).toMatchObject({ rank: 2, scaling: 4 })
    expect(adapted(changes, 'model.layers.0.self_attn.q_proj')).toMatchObject({ rank: 4, scaling: 5 })
    expect(adapted(changes, 'model.layers.0.mlp.down_proj')).toMatchObject({ rank: 4, scaling: 2 })
  })
})

describe('settings that do not fit the model', () => {
  it('are refused with everything that is wrong', () => {
    const reason = refusal({ rank: 0, alpha: Number.NaN, targetModules: ['q_proj', 'nobody'], layers: [7] })
    expect(reason).toContain('the rank is 0, not an integer from 1 to 4096')
    expect(reason).toContain('the alpha is NaN, not a finite number other than 0')
    expect(reason).toContain("'nobody' is not a projection of this model")
    expect(reason).toContain('there is no layer 7 among 0 to 1')
  })

  it.each([
    ['no target', { targetModules: [] }, 'there are no target modules'],
    ['targets without a layer', { layers: [] }, 'the targets and the layers have no projection in common'],
    ['a rank of half', { rankPattern: { q_proj: 0.5 } }, "the rank of 'q_proj' is 0.5"],
    ['an alpha of infinity', { alphaPattern: { q_proj: Infinity } }, "the alpha of 'q_proj' is Infinity"],
    ['a pattern for nothing', { rankPattern: { c_attn: 2 } }, "'c_attn' is not a projection"],
    [
      'a rank of no target',
      { targetModules: ['q_proj'], rankPattern: { k_proj: 2 } },
      "the rank of 'k_proj' has no effect, because no target module has this name",
    ],
    [
      'an alpha of a layer that is not adapted',
      { layers: [1], alphaPattern: { 'layers.0.self_attn.q_proj': 2 } },
      "the alpha of 'layers.0.self_attn.q_proj' has no effect, because no target module has this name",
    ],
    ['a dropout of one', { dropout: 1 }, 'the dropout is 1, not in [0, 1)'],
  ] as const)('such as %s', (_, changes, expected) => {
    expect(refusal(changes)).toContain(expected)
  })

  it('a dropout can be loaded, but not trained with', () => {
    expect(modules({ dropout: 0.1 })).toHaveLength(14)
    expect(requireLeft(initialLora(config, loraConfig({ dropout: 0.1 }), keyFromSeed(1))).reason).toBe(
      'LoRA: training does not support a dropout of 0.1: set it to 0',
    )
  })
})

import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { ARCHITECTURES, formatConfig, parseConfig } from '../../../src/modules/transformer/config.js'
import { anyConfigJson, anyConfigJsonOf } from '../../kit/configs.js'
import { configOf } from '../../kit/models.js'

const llama = {
  model_type: 'llama',
  vocab_size: 32,
  hidden_size: 16,
  intermediate_size: 24,
  num_hidden_layers: 2,
  num_attention_heads: 4,
}

const reasonOf = (changes: Readonly<Record<string, unknown>>): string => {
  const result = parseConfig({ ...llama, ...changes })
  return E.isLeft(result) ? result.left.reason : 'accepted'
}

describe('parseConfig', () => {
  it('gives back the file that it read, field by field, with formatConfig, and reads that to an equal config', () => {
    const law = fc.property(anyConfigJson, (json) => {
      const config = configOf(json)
      expect(formatConfig(config)).toEqual(json)
      expect(parseConfig(JSON.parse(JSON.stringify(formatConfig(config))))).toEqual(E.right(config))
    })
    fc.assert(law)
  })

  it('does not write a config whose fields were changed without its file', () => {
    const config = configOf(llama)
    expect(() => formatConfig({ ...config, vocabularySize: 33, layers: 1 })).toThrow('vocabularySize, layers differ')
  })

  it('reads every family', () => {
    for (const architecture of ARCHITECTURES) {
      const law = fc.property(anyConfigJsonOf(architecture), (json) => {
        expect(configOf(json)).toMatchObject({ architecture, vocabularySize: json.vocab_size })
      })
      fc.assert(law, { numRuns: 20 })
    }
  })

  it('takes the defaults of Transformers for what a file leaves out', () => {
    expect(configOf(llama)).toMatchObject({
      architecture: 'llama',
      keyValueHeads: 4,
      headSize: 4,
      maxPositions: 2048,
      tiedEmbeddings: false,
      endTokens: [2],
      padToken: null,
      logitSoftCap: null,
      rotary: { global: { theta: 10_000, width: 4, scaling: { type: 'default' }, attentionFactor: 1 } },
    })
    expect(configOf({ ...llama, eos_token_id: null }).endTokens).toEqual([])
    expect(configOf({ ...llama, model_type: 'gemma2', num_attention_heads: 8 })).toMatchObject({
      headSize: 256,
      keyValueHeads: 4,
      endTokens: [1],
      padToken: 0,
      tiedEmbeddings: true,
      logitSoftCap: 30,
      attention: { softCap: 50 },
      layerKinds: [{ window: 4096 }, { window: null }],
    })
  })

  it('refuses or lists any field that it does not know, by name, unless it is null', () => {
    const unknown = fc.tuple(
      fc.string({ minLength: 1 }).map((name) => `x_${name}.`),
      fc.jsonValue().filter((value) => value !== null),
    )
    const law = fc.property(anyConfigJson, unknown, (json, [name, value]) => {
      const read = parseConfig({ ...json, [name]: value })
      const named = E.isLeft(read) ? read.left.reason : read.right.ignoredFields.join()
      expect(named).toContain(name)
      expect(E.isRight(parseConfig({ ...json, [name]: null }))).toBe(true)
    })
    fc.assert(law)
  })

  it.each([
    ['quantization_config', { bits: 4 }],
    ['num_local_experts', 8],
    ['add_cross_attention', true],
    ['partial_rotary_factor', 0.5],
    ['use_bidirectional_attention', true],
    ['rope_interleaved', true],
  ])('refuses %s %j for Llama', (name, value) => {
    expect(reasonOf({ [name]: value })).toContain(name)
  })

  it('accepts fields of training, sampling and bookkeeping, whatever they hold', () => {
    const names = ['torch_dtype', 'architectures', 'initializer_range', 'pretraining_tp', 'use_cache', 'bos_token_id']
    const law = fc.property(fc.constantFrom(...names), fc.jsonValue(), (name, value) => {
      const { source: _, ...read } = configOf({ ...llama, [name]: value })
      const { source: __, ...bare } = configOf(llama)
      expect(read).toEqual(bare)
    })
    fc.assert(law)
  })

  it('reads the base of the rotary embedding from the old place and from the new one', () => {
    const thetaOf = (changes: object): number => configOf({ ...llama, ...changes }).rotary.global!.theta
    expect(thetaOf({ rope_theta: 5e5 })).toBe(5e5)
    expect(thetaOf({ rope_parameters: { rope_type: 'default', rope_theta: 1e6 } })).toBe(1e6)
    expect(thetaOf({ rope_theta: 5e5, rope_scaling: { type: 'linear', factor: 2 } })).toBe(5e5)
    expect(thetaOf({ rope_scaling: null, rope_parameters: null })).toBe(10_000)
  })

  it.each([
    [{ model_type: 'bert' }, "model_type 'bert'"],
    [{ model_type: 'constructor' }, "model_type 'constructor'"],
    [{ hidden_act: 'relu' }, "hidden_act 'relu'"],
    [{ hidden_act: 'toString' }, "hidden_act 'toString'"],
    [{ rope_scaling: { rope_type: 'mrope', factor: 4 } }, "rope type 'mrope'"],
    [{ rope_scaling: { rope_type: 'linear', factor: 2, twist: 1 } }, 'twist 1'],
    [{ model_type: 'phi3', rope_scaling: { rope_type: 'linear', factor: 2 } }, 'rope type "linear"'],
    [{ model_type: 'qwen2', num_key_value_heads: 4, layer_types: ['full_attention', 'x'] }, "layer type 'x'"],
  ])('refuses arithmetic that it does not compute: %j', (changes, named) => {
    expect(reasonOf(changes)).toContain('not supported: ')
    expect(reasonOf(changes)).toContain(named)
  })

  it.each([
    ...['_model_name_or_path', 'image_token_id', 'eod_token_ids', 'keys_to_ignore_at_inference', 'eos_token'],
    ...['attention_probs_dropout_prob', 'decoder_layerdrop', 'initializer_cutoff_factor', 'rescale_init_std'],
    ...['use_flash_attn', '_attn_implementation_internal', '_experts_implementation'],
  ])('accepts %s, which has no effect, of any value', (name) => {
    for (const value of [7, 'x', true, [1], { a: 1 }])
      expect(parseConfig({ ...llama, [name]: value })).toMatchObject(E.right({ ignoredFields: [] }))
  })

  it.each([
    ['is_causal', true, false],
    ['use_sliding_window', false, true],
    ['use_bidirectional_attention', false, true],
  ])('accepts %s at %j only', (name, harmless, other) => {
    expect(reasonOf({ [name]: harmless })).toBe('accepted')
    expect(reasonOf({ [name]: other })).toContain(`${name} ${other}`)
  })

  it.each([
    ...['quantization_config', 'num_local_experts', 'residual_multiplier', 'attn_logit_softcapping', 'qk_layernorm'],
    ...['_sliding_window_pattern', 'rotary_emb_base', 'logit_scale', 'router_aux_loss_coef', 'n_shared_experts'],
  ])('refuses %s, which may change the arithmetic', (name) => {
    expect(reasonOf({ [name]: 3 })).toBe(`not supported: ${name} 3`)
  })

  it('lists unknown fields without a word of arithmetic', () => {
    const config = configOf({ ...llama, training_run: 'b7', license: 'mit', max_steps: 9, _internal: 1, none: null })
    expect(config.ignoredFields).toEqual(['training_run "b7"', 'license "mit"', 'max_steps 9'])
  })

  it.each([
    [{ rope_scaling: { type: 'linear' } }, "'linear' needs a factor"],
    [{ rope_scaling: { type: 'yarn' } }, "'yarn' needs a factor, or original_max_position_embeddings"],
    [{ rope_parameters: { rope_type: 'llama3', factor: 2 } }, 'low_freq_factor'],
    [{ rope_scaling: { rope_type: 'llama3', factor: 8, low_freq_factor: 4, high_freq_factor: 4 } }, 'not above'],
    [{ rope_scaling: { rope_type: 'dynamic', factor: 2 }, head_dim: 2 }, 'more than 2'],
    [{ rope_scaling: { rope_type: 'longrope', short_factor: [1], long_factor: [1, 2] } }, '1 factors for 2'],
    [{ rope_theta: '1e4' }, 'rope_theta'],
  ])('names what is wrong with a rotary embedding: %j', (changes, named) => {
    expect(reasonOf(changes)).toContain(named)
  })

  it.each([
    [{ num_key_value_heads: 3 }, 'num_attention_heads 4 is not a multiple of num_key_value_heads 3'],
    [{ hidden_size: 18 }, 'head size 4.5'],
    [{ head_dim: 5 }, 'head size 5'],
    [{ model_type: 'gemma2', head_dim: 4, layer_types: ['full_attention'] }, '1 entries for 2 layers'],
    [{ model_type: 'smollm3', num_key_value_heads: 4, no_rope_layers: [1] }, '1 entries for 2 layers'],
    [{ model_type: 'gemma2', head_dim: 4, sliding_window: null }, 'no sliding_window is in use'],
  ])('refuses sizes that contradict each other: %j', (changes, reason) => {
    expect(reasonOf(changes)).toContain(reason)
  })

  it('names all contradictions at once', () => {
    const reason = reasonOf({ model_type: 'gemma2', head_dim: 5, hidden_activation: 'relu', layer_types: [] })
    for (const part of ['head size 5', "'relu'", '0 entries']) expect(reason).toContain(part)
  })

  it.each(['vocab_size', 'hidden_size', 'intermediate_size', 'num_hidden_layers', 'num_attention_heads', 'model_type'])(
    'names %s when it is missing or of another type',
    (name) => {
      expect(reasonOf({ [name]: undefined })).toContain(name)
      expect(reasonOf({ [name]: [1] })).toContain(name)
    },
  )

  it.each([0, -1, 1.5, Number.NaN, 1e9])('refuses %d layers', (num_hidden_layers) => {
    expect(reasonOf({ num_hidden_layers })).toContain('num_hidden_layers')
  })

  it('refuses a pattern of GPT-Neo that repeats without end, and does not write it out', () => {
    const json = { model_type: 'gpt_neo', vocab_size: 8, hidden_size: 8, num_layers: 2, num_heads: 2 }
    const refused = parseConfig({ ...json, attention_types: [[['global', 'local'], 1e12]] })
    expect(E.isLeft(refused) && refused.left.reason).toContain('describes 2000000000000 layers')
  })

  it('gives a config or a failure, not an exception, for any JSON and for any file with a field replaced', () => {
    const check = (json: unknown): void => {
      const parsed = parseConfig(json)
      if (E.isLeft(parsed)) expect(parsed.left.reason.length).toBeGreaterThan(0)
    }
    const law = fc.property(anyConfigJson, fc.nat(), fc.jsonValue(), (json, place, value) => {
      check(value)
      const names = Object.keys(json)
      check({ ...json, [names[place % names.length]!]: value })
    })
    fc.assert(law, { numRuns: 300 })
  })
})

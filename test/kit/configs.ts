/** Files that describe small models of every family. */
import fc from 'fast-check'
import { ARCHITECTURES, type Architecture, type DecoderConfig } from '../../src/modules/transformer/config.js'
import { configOf } from './models.js'

/** A parsed `config.json`. */
export type ConfigJson = Readonly<Record<string, unknown>>

const theta = fc.constantFrom(10_000, 500_000, 1_000_000.5)
const window = fc.integer({ min: 1, max: 64 })
const cap = fc.constantFrom(5, 30, 50)

const scaling: fc.Arbitrary<ConfigJson> = fc.oneof(
  fc.record({ rope_type: fc.constant('default'), rope_theta: theta }),
  fc.record({ rope_type: fc.constant('linear'), rope_theta: theta, factor: fc.constantFrom(2, 8) }),
  fc.constant({
    rope_type: 'llama3',
    factor: 8,
    low_freq_factor: 1,
    high_freq_factor: 4,
    original_max_position_embeddings: 32,
  }),
  fc.record({
    rope_type: fc.constant('yarn'),
    factor: fc.constantFrom(2, 4.5),
    truncate: fc.boolean(),
    beta_fast: fc.constantFrom(16, 32),
  }),
)

/** Heads that share keys, two to four features each. */
const heads = fc
  .record({
    keyValueHeads: fc.integer({ min: 1, max: 2 }),
    sharing: fc.integer({ min: 1, max: 3 }),
    half: fc.integer({ min: 1, max: 2 }),
  })
  .map(({ keyValueHeads, sharing, half }) => ({ heads: keyValueHeads * sharing, keyValueHeads, headSize: 2 * half }))

const layerTypes = (layers: number): fc.Arbitrary<string[]> =>
  fc.array(fc.constantFrom('sliding_attention', 'full_attention'), { minLength: layers, maxLength: layers })

const common = fc.record({
  vocab_size: fc.integer({ min: 1, max: 12 }),
  eos_token_id: fc.oneof(fc.nat(11), fc.array(fc.nat(11), { maxLength: 3 })),
  pad_token_id: fc.option(fc.nat(11), { nil: null }),
  tie_word_embeddings: fc.boolean(),
  transformers_version: fc.constant('5.17.0'), // does not judge the arithmetic
})

const layers = fc.integer({ min: 1, max: 3 })

const llamaSizes = fc
  .record({
    hidden_size: fc.integer({ min: 1, max: 6 }),
    intermediate_size: fc.integer({ min: 1, max: 6 }),
    num_hidden_layers: layers,
    rms_norm_eps: fc.constantFrom(1e-5, 1e-6, 1e-12),
    max_position_embeddings: fc.integer({ min: 64, max: 4096 }),
    heads,
  })
  .map(({ heads: h, ...sizes }) => ({
    ...sizes,
    num_attention_heads: h.heads,
    num_key_value_heads: h.keyValueHeads,
    head_dim: h.headSize,
  }))

const sliding = fc.record({ use_sliding_window: fc.boolean(), sliding_window: window, max_window_layers: fc.nat(3) })

const gptSizes = heads.map((h) => ({ width: h.heads * h.headSize, heads: h.heads }))

/** The settings of each family beside the common ones. */
const own: Readonly<Record<Architecture, fc.Arbitrary<ConfigJson>>> = {
  gpt2: fc
    .record({
      sizes: gptSizes,
      n_layer: layers,
      n_inner: fc.option(fc.integer({ min: 1, max: 6 })),
      inverse: fc.boolean(),
    })
    .map(({ sizes, inverse, ...rest }) => ({
      ...rest,
      n_embd: sizes.width,
      n_head: sizes.heads,
      n_positions: 64,
      scale_attn_by_inverse_layer_idx: inverse,
      activation_function: 'gelu_new',
    })),
  gpt_neo: fc
    .record({ sizes: gptSizes, pairs: fc.integer({ min: 1, max: 2 }), window_size: window })
    .map(({ sizes, pairs, window_size }) => ({
      hidden_size: sizes.width,
      num_heads: sizes.heads,
      num_layers: 2 * pairs,
      attention_types: [[['global', 'local'], pairs]],
      window_size,
      max_position_embeddings: 64,
    })),
  llama: fc
    .record({ sizes: llamaSizes, rope_parameters: scaling, attention_bias: fc.boolean(), mlp_bias: fc.boolean() })
    .map(({ sizes, ...rest }) => ({ ...sizes, ...rest })),
  mistral: fc
    .record({ sizes: llamaSizes, sliding_window: fc.option(window) })
    .map(({ sizes, ...rest }) => ({ ...sizes, ...rest })),
  qwen2: fc.record({ sizes: llamaSizes, rope_theta: theta, sliding }).map(({ sizes, rope_theta, sliding: s }) => ({
    ...sizes,
    ...s,
    rope_theta,
  })),
  qwen3: fc
    .record({ sizes: llamaSizes, rope_scaling: scaling, attention_bias: fc.boolean() })
    .map(({ sizes, ...rest }) => ({ ...sizes, ...rest })),
  gemma2: llamaSizes.chain((sizes) =>
    fc
      .record({
        sliding_window: window,
        layer_types: layerTypes(sizes.num_hidden_layers),
        query_pre_attn_scalar: fc.constantFrom(16, 24),
        attn_logit_softcapping: fc.option(cap),
        final_logit_softcapping: fc.option(cap),
      })
      .map((rest) => ({ ...sizes, ...rest })),
  ),
  gemma3_text: fc
    .record({
      sizes: llamaSizes,
      sliding_window: window,
      full_attention: scaling,
      final_logit_softcapping: fc.option(cap),
    })
    .map(({ sizes, full_attention, ...rest }) => ({
      ...sizes,
      ...rest,
      rope_parameters: { full_attention, sliding_attention: { rope_type: 'default', rope_theta: 10_000 } },
    })),
  phi3: fc.record({ sizes: llamaSizes, sliding_window: fc.option(window) }).map(({ sizes, ...rest }) => ({
    ...sizes,
    ...rest,
    partial_rotary_factor: sizes.head_dim === 4 ? 0.5 : 1,
  })),
  olmo2: fc
    .record({ sizes: llamaSizes, attention_bias: fc.boolean() })
    .map(({ sizes, ...rest }) => ({ ...sizes, ...rest })),
  smollm3: llamaSizes.chain((sizes) =>
    fc
      .record({
        no_rope_layers: fc.array(fc.constantFrom(0, 1), {
          minLength: sizes.num_hidden_layers,
          maxLength: sizes.num_hidden_layers,
        }),
        use_sliding_window: fc.boolean(),
        sliding_window: window,
        mlp_bias: fc.boolean(),
      })
      .map((rest) => ({ ...sizes, ...rest })),
  ),
}

/** A file of one family that describes a model of a few hundred parameters. */
export const anyConfigJsonOf = (architecture: Architecture): fc.Arbitrary<ConfigJson> =>
  fc.tuple(common, own[architecture]).map(([shared, rest]) => ({ model_type: architecture, ...shared, ...rest }))

export const anyConfigJson: fc.Arbitrary<ConfigJson> = fc.constantFrom(...ARCHITECTURES).chain(anyConfigJsonOf)

/** Configs of a few hundred parameters, of every architecture. */
export const anySmallConfig: fc.Arbitrary<DecoderConfig> = anyConfigJson.map(configOf)

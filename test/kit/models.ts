/** Small models for tests. */
import { orThrow } from '@tandem-rl/base'
import { type DecoderConfig, parseConfig } from '../../src/modules/transformer/config.js'

/** The config of a `config.json`. */
export const configOf = (json: unknown): DecoderConfig => orThrow(parseConfig(json))

/** Options of a tiny model. */
export type TinyChanges = Partial<
  Pick<
    DecoderConfig,
    | 'vocabularySize'
    | 'hiddenSize'
    | 'intermediateSize'
    | 'layers'
    | 'heads'
    | 'keyValueHeads'
    | 'headSize'
    | 'maxPositions'
    | 'tiedEmbeddings'
    | 'endTokens'
    | 'padToken'
  >
>

/** A decoder of a few thousand parameters, laid out like Qwen2. */
export const tinyConfig = (changes: TinyChanges = {}): DecoderConfig =>
  configOf({
    model_type: 'qwen2',
    vocab_size: changes.vocabularySize ?? 32,
    hidden_size: changes.hiddenSize ?? 16,
    intermediate_size: changes.intermediateSize ?? 32,
    num_hidden_layers: changes.layers ?? 2,
    num_attention_heads: changes.heads ?? 4,
    num_key_value_heads: changes.keyValueHeads ?? 2,
    head_dim: changes.headSize ?? 8,
    max_position_embeddings: changes.maxPositions ?? 256,
    tie_word_embeddings: changes.tiedEmbeddings ?? true,
    eos_token_id: changes.endTokens ?? [3],
    pad_token_id: changes.padToken === undefined ? 0 : changes.padToken,
  })

/**
 * Makes untrained models: a decoder with random weights, a tokenizer trained on text, and a chat
 * template.
 */
import { type ConfigFailure, checkOptions, child, type Key, type ModelFailure } from '@tandem-rl/base'
import { harmless } from '@tandem-rl/base/host'
import { type TokenizerProgress, trainBytePairEncoding } from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { NEW_MODEL_OPTIONS } from '../optionKinds.js'
import { type Architecture, type DecoderConfig, parseConfig } from '../transformer/config.js'
import { initialParams } from '../transformer/params.js'
import { CHAT_ML, type ChatFormat } from './chatFormats.js'
import { withTextEnds } from './modelConfig.js'
import { checkFit, hostArrays, type ModelText, type Pretrained, textFromFiles } from './pretrained.js'

/** The sizes of a decoder. The vocabulary size comes from the tokenizer. */
export interface ModelSizes {
  readonly hiddenSize: number
  readonly layers: number
  readonly heads: number
  /**
   * Number of key and value heads, which query heads share. Default: `heads`. GPT-2 and GPT-Neo
   * support only the default.
   */
  readonly keyValueHeads?: number
  /**
   * Default: 3 times `hiddenSize`, or 4 times for GPT-2 and GPT-Neo, whose feed-forward layer has
   * no gate.
   */
  readonly intermediateSize?: number
  /** Longest sequence in tokens. Default 2048. */
  readonly maxPositions?: number
  /** `tied`: the output projection is the embedding. Default `tied`. */
  readonly embeddings?: 'tied' | 'separate'
}

/** A tokenizer to train. */
export interface NewTokenizer {
  /** Conversations in the form that the model will see, without special tokens. */
  readonly texts: Iterable<string>
  /**
   * Number of bytes, learned tokens and special tokens together. Smaller if the texts are too
   * small.
   */
  readonly vocabularySize: number
  /** Default: `CHAT_ML`. */
  readonly format?: ChatFormat
  /** Called after each learned token. */
  readonly onProgress?: (progress: TokenizerProgress) => void
}

export interface NewModelOptions {
  readonly family: Architecture
  readonly sizes: ModelSizes
  /**
   * The text side of an existing model (`model.text`), or texts to train a byte-level BPE tokenizer
   * on.
   */
  readonly tokenizer: ModelText | NewTokenizer
  /** Equal keys give equal weights. */
  readonly key: Key
}

const CLASSES: Readonly<Record<Architecture, string>> = {
  gpt2: 'GPT2LMHeadModel',
  gpt_neo: 'GPTNeoForCausalLM',
  llama: 'LlamaForCausalLM',
  mistral: 'MistralForCausalLM',
  qwen2: 'Qwen2ForCausalLM',
  qwen3: 'Qwen3ForCausalLM',
  gemma2: 'Gemma2ForCausalLM',
  gemma3_text: 'Gemma3ForCausalLM',
  phi3: 'Phi3ForCausalLM',
  olmo2: 'Olmo2ForCausalLM',
  smollm3: 'SmolLM3ForCausalLM',
}

/** Returns sizes under the field names of a family's `config.json`. */
const sizeFields = (family: Architecture, sizes: ModelSizes): Readonly<Record<string, unknown>> => {
  const { hiddenSize, layers, heads, keyValueHeads = heads, maxPositions = 2048 } = sizes
  const isGpt = family === 'gpt2' || family === 'gpt_neo'
  const { intermediateSize = (isGpt ? 4 : 3) * hiddenSize } = sizes
  if (isGpt && keyValueHeads !== heads) {
    throw new RangeError(`newModel: ${family} has as many keyValueHeads as heads (${heads}), got ${keyValueHeads}`)
  }
  if (family === 'gpt2') {
    return { n_embd: hiddenSize, n_layer: layers, n_head: heads, n_inner: intermediateSize, n_positions: maxPositions }
  }
  const common = {
    hidden_size: hiddenSize,
    intermediate_size: intermediateSize,
    max_position_embeddings: maxPositions,
  }
  if (family === 'gpt_neo') {
    const pattern = layers % 2 === 0 ? [['global', 'local'], layers / 2] : [['global'], layers]
    return { ...common, num_layers: layers, num_heads: heads, attention_types: [pattern] }
  }
  const headSize = hiddenSize / heads
  const isGemma = family === 'gemma2' || family === 'gemma3_text'
  return {
    ...common,
    num_hidden_layers: layers,
    num_attention_heads: heads,
    num_key_value_heads: keyValueHeads,
    ...((isGemma || family === 'qwen3') && { head_dim: headSize }), // Transformers has its own default
    ...(isGemma && { query_pre_attn_scalar: headSize }),
  }
}

const newText = ({ texts, vocabularySize, format = CHAT_ML, onProgress }: NewTokenizer) => {
  const { template, specialTokens, endOfTurn, padToken } = format
  return textFromFiles({
    folder: 'of newModel',
    tokenizer: trainBytePairEncoding(texts, {
      vocabularySize,
      specialTokens,
      ...(onProgress && { onProgress: harmless('onProgress', onProgress) }),
    }),
    settings: {
      tokenizer_class: 'PreTrainedTokenizerFast',
      eos_token: endOfTurn,
      pad_token: padToken,
      clean_up_tokenization_spaces: false,
    },
    template,
  })
}

const newConfig = (
  { family, sizes }: NewModelOptions,
  { tokenizer, endOfTurn }: ModelText,
): E.Either<ConfigFailure, DecoderConfig> => {
  const { eos = endOfTurn, pad } = tokenizer.settings.roles
  return parseConfig({
    architectures: [CLASSES[family]],
    model_type: family,
    vocab_size: tokenizer.vocabularySize,
    ...sizeFields(family, sizes),
    tie_word_embeddings: sizes.embeddings !== 'separate',
    bos_token_id: null,
    eos_token_id: tokenizer.idOf(eos),
    pad_token_id: pad === undefined ? null : tokenizer.idOf(pad),
  })
}

/**
 * Makes an untrained model: norms 1, biases 0, normal weights with standard deviation 0.02. Save it
 * with `saveModel`; `makeModel` also trains one.
 *
 * Errors   `Left` for contradictory sizes, an invalid template, or an end of turn that is not a
 *          special token. Throws RangeError for a vocabulary that is too small for bytes and
 *          special tokens, and for heads that the family does not support.
 * Effects  computes on the tensor backend; leaves no tensor.
 *
 * @example
 * const made = orThrow(newModel({ family: 'qwen3', sizes: { hiddenSize: 8, layers: 1, heads: 2 }, tokenizer: { texts: ['one two'], vocabularySize: 264 }, key: keyFromSeed(0) }))
 * made.config.vocabularySize // 264
 */
export const newModel = (options: NewModelOptions): E.Either<ConfigFailure | ModelFailure, Pretrained> => {
  checkOptions('newModel', options, NEW_MODEL_OPTIONS)
  const { tokenizer, key } = options
  return pipe(
    'texts' in tokenizer ? newText(tokenizer) : E.right(tokenizer),
    E.bindTo('text'),
    E.bindW('config', ({ text }) => newConfig(options, text)),
    E.chainFirstW(({ text, config }) => checkFit('of newModel', config, text)),
    E.chainW(({ text, config }) => withTextEnds('of newModel', config, text)),
    E.map(({ text, config }) => ({
      config,
      text,
      arrays: scope(() => hostArrays(initialParams(config, child(key, 'params')))),
    })),
  )
}

/** Vectors of texts, computed by a decoder in this process. */
import { checkOptions } from '@tandem-rl/base'
import { nextTurn } from '@tandem-rl/base/host'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { TEXT_EMBEDDING_OPTIONS } from './optionKinds.js'
import type { ModelText } from './pretrained/pretrained.js'
import type { DecoderConfig } from './transformer/config.js'
import { forwardSegment } from './transformer/forward.js'
import type { Params } from './transformer/params.js'
import { rotaryTables } from './transformer/rotaryTables.js'
import { promptBias } from './transformer/score.js'

export interface TextEmbeddingOptions {
  readonly config: DecoderConfig
  /** The weights, which the caller owns. */
  readonly params: Params
  readonly text: Pick<ModelText, 'tokenizer' | 'endOfTurn'>
  /**
   * `mean`: the mean of all positions. `last`: the state of the end marker (the tokenizer's
   * `eos_token`), which is appended to the text, as embedding models on decoders are trained.
   * Default `mean`.
   */
  readonly pooling?: 'mean' | 'last'
  /** Tokens of a text that are read. Default 512. */
  readonly maxTokens?: number
}

/** Texts that are computed together. */
const BATCH = 16

/** Pads rows of ids on the left, to the length of the longest. */
const padded = (rows: readonly (readonly number[])[]) => {
  const length = Math.max(...rows.map((row) => row.length))
  const padding = rows.map((row) => length - row.length)
  const of = (value: (row: number, at: number) => number): number[] =>
    rows.flatMap((_, r) => Array.from({ length }, (__, i) => value(r, i - padding[r]!)))
  return {
    length,
    ids: of((r, at) => rows[r]![at] ?? 0),
    mask: of((_, at) => (at < 0 ? 0 : 1)),
    positions: of((_, at) => Math.max(0, at)),
  }
}

/** Returns the pooled states of a batch, `[P, D]`. */
const pooled = (
  rows: readonly (readonly number[])[],
  { config, params, pooling }: Pick<Required<TextEmbeddingOptions>, 'config' | 'params' | 'pooling'>,
): tf.Tensor => {
  const { length, ...flat } = padded(rows)
  const count = rows.length
  const mask = tf.tensor2d(flat.mask, [count, length])
  const { hidden } = forwardSegment(params, config, {
    ids: tf.tensor3d(flat.ids, [count, 1, length], 'int32'),
    positions: tf.tensor3d(flat.positions, [count, 1, length], 'int32'),
    ownBias: promptBias(mask),
    past: [],
    rotary: rotaryTables(config, length),
  })
  const states = tf.reshape(hidden, [count, length, config.hiddenSize])
  if (pooling === 'last')
    return tf.reshape(tf.slice(states, [0, length - 1, 0], [count, 1, config.hiddenSize]), [count, config.hiddenSize])
  const kept = tf.mul(states, tf.expandDims(mask, 2))
  return tf.div(tf.sum(kept, 1), tf.sum(mask, 1, true))
}

/**
 * Makes an embedding function of a decoder, for `denseIndex`: a vector of `hiddenSize` numbers per
 * text.
 *
 * Errors   throws RangeError for unknown options; the function rejects if its signal aborts.
 * Cost     one forward pass over each text, 16 texts at a time.
 * Source   mean and last-token pooling, as in Sentence Transformers and Qwen3-Embedding
 *          (arXiv:2506.05176).
 *
 * @example
 * const embed = ({ config, arrays, text }: Pretrained) => textEmbedding({ config, text, params: makeParams(arrays) })
 * embed.length // 1
 */
export const textEmbedding = (
  options: TextEmbeddingOptions,
): ((texts: readonly string[], signal: AbortSignal) => Promise<readonly (readonly number[])[]>) => {
  const { config, params, text, pooling = 'mean', maxTokens = 512 } = options
  checkOptions('textEmbedding', options, TEXT_EMBEDDING_OPTIONS)
  if (!(maxTokens >= 2)) throw new RangeError(`textEmbedding: maxTokens must be at least 2, got ${maxTokens}`)
  const marker = [...text.tokenizer.encode(text.tokenizer.settings.roles.eos ?? text.endOfTurn)]
  const end = pooling === 'last' ? marker : []
  const idsOf = (each: string): readonly number[] => {
    const ids = [...text.tokenizer.encode(each, { specialTokens: 'plainText' })].slice(0, maxTokens - end.length)
    return ids.length + end.length === 0 ? marker : [...ids, ...end]
  }
  return async (texts, signal) => {
    const vectors: (readonly number[])[] = []
    for (let i = 0; i < texts.length; i += BATCH) {
      signal.throwIfAborted()
      const rows = texts.slice(i, i + BATCH).map(idsOf)
      const flat = scope(() => pooled(rows, { config, params, pooling }).dataSync())
      for (const [r] of rows.entries())
        vectors.push([...flat.slice(r * config.hiddenSize, (r + 1) * config.hiddenSize)])
      await nextTurn() // other work of this thread comes between batches
    }
    return vectors
  }
}

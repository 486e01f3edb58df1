/**
 * A decoder-only transformer as data: sizes, names of parameters, and the arithmetic that combines
 * them. The forward pass, the shapes of the parameters and their initial values are functions of
 * it, and do not depend on families otherwise.
 */
import type { Activation } from '@tandem-rl/tfjs-onnxruntime'

/** The supported families of models, by the `model_type` of their `config.json`. */
export type Architecture =
  | 'gpt2'
  | 'gpt_neo'
  | 'llama'
  | 'mistral'
  | 'qwen2'
  | 'qwen3'
  | 'gemma2'
  | 'gemma3_text'
  | 'phi3'
  | 'olmo2'
  | 'smollm3'

/** A linear map. */
export interface Projection {
  /** The name without `.weight` and `.bias`, and within a layer without the layer's name. */
  readonly name: string
  readonly inputs: number
  readonly outputs: number
  readonly bias: 'added' | 'none'
  /**
   * The layout of the weight: `[out, in]` as in PyTorch's Linear, or `[in, out]` as in GPT-2's
   * Conv1D.
   */
  readonly layout: 'out-in' | 'in-out'
}

/** A normalization with learned weights. */
export interface Norm {
  readonly name: string
  /** Number of features that share a mean. */
  readonly width: number
  /**
   * `rms`: divides by the root of the mean square. `layer`: normalizes mean and variance, with a
   * bias.
   */
  readonly kind: 'rms' | 'layer'
  readonly epsilon: number
  /** Added to the weight: 1 for Gemma, whose weights are stored around 0. */
  readonly offset: 0 | 1
}

/** The positions of norms in a half of a layer: `x + after(f(before(x)))`. */
export interface Residual {
  readonly before: Norm | null
  readonly after: Norm | null
}

export interface AttentionDescription extends Residual {
  /**
   * Separate projections for queries, keys and values, or one whose outputs are all three side by
   * side.
   */
  readonly inputs: readonly Projection[]
  readonly output: Projection
  /**
   * Norms of queries and keys before positions are encoded: over each head, or over all heads
   * together, according to their width.
   */
  readonly queryNorm: Norm | null
  readonly keyNorm: Norm | null
  /** Scores become `softCap * tanh(score / softCap)`. */
  readonly softCap: number | null
  /**
   * The positions that a padding position attends to, with equal weights, because all of them are
   * masked: all positions, or those up to its own within the window. Only the reference's loss over
   * padded rows depends on it.
   */
  readonly paddingSees: 'all' | 'past'
}

export interface FeedForwardDescription extends Residual {
  /**
   * `gated`: `output(activation(gate) * up)`, gate and up separate or side by side; `plain`:
   * `output(activation(input))`.
   */
  readonly kind: 'gated' | 'plain'
  readonly inputs: readonly Projection[]
  readonly activation: Activation
  readonly output: Projection
}

/** The properties that differ between layers. */
export interface LayerKind {
  /**
   * A position attends to itself and the `window - 1` positions before it; null: to all before it.
   */
  readonly window: number | null
  /** The table in `DecoderConfig.rotary` that encodes positions, or null for layers without one. */
  readonly rotary: string | null
  /** Factor of the products of queries and keys. */
  readonly scale: number
}

/** The scaling of rotary frequencies for sequences longer than those of training. */
export type RopeScaling =
  | { readonly type: 'default' }
  | { readonly type: 'linear'; readonly factor: number }
  /** Increases the base with the length of the sequence beyond `trainedLength`. */
  | { readonly type: 'dynamic'; readonly factor: number; readonly trainedLength: number }
  | {
      readonly type: 'llama3'
      readonly factor: number
      readonly lowFrequencyFactor: number
      readonly highFrequencyFactor: number
      readonly trainedLength: number
    }
  | {
      readonly type: 'yarn'
      readonly factor: number
      readonly betaFast: number
      readonly betaSlow: number
      /** `rounded` if the bounds between frequencies are rounded to whole features. */
      readonly bounds: 'rounded' | 'exact'
      readonly trainedLength: number
    }
  /**
   * Has a divisor for each frequency: one list up to `trainedLength`, another for longer sequences.
   */
  | {
      readonly type: 'longrope'
      readonly shortFactors: readonly number[]
      readonly longFactors: readonly number[]
      readonly trainedLength: number
    }

/** One rotary embedding. */
export interface RotaryDescription {
  readonly theta: number
  /** Number of rotated features of each head, the first ones. Even. */
  readonly width: number
  readonly scaling: RopeScaling
  /** Factor of cosines and sines. */
  readonly attentionFactor: number
}

/**
 * The complete arithmetic of a decoder, and its `config.json`. Made only by `parseConfig`, so that
 * `source` agrees with the other fields. Sizes are counts of features, heads or tokens. Plain data
 * that survives `structuredClone`.
 */
export interface DecoderConfig {
  readonly architecture: Architecture
  readonly vocabularySize: number
  readonly hiddenSize: number
  readonly intermediateSize: number
  readonly layers: number
  readonly heads: number
  readonly keyValueHeads: number
  readonly headSize: number
  /** The longest sequence that the model supports. */
  readonly maxPositions: number
  /** The output projection is the embedding matrix. */
  readonly tiedEmbeddings: boolean
  readonly endTokens: readonly number[]
  readonly padToken: number | null

  /** Name of the embedding matrix, and the factor of embeddings. */
  readonly embedding: { readonly name: string; readonly scale: number }
  /** Name of the learned position embeddings, which are added to those of tokens. */
  readonly learnedPositions: string | null
  /** Layer i is named `layerName.i`. */
  readonly layerName: string
  readonly attention: AttentionDescription
  readonly feedForward: FeedForwardDescription
  /** One per layer. */
  readonly layerKinds: readonly LayerKind[]
  readonly rotary: Readonly<Record<string, RotaryDescription>>
  readonly finalNorm: Norm
  /** Logits become `logitSoftCap * tanh(logit / logitSoftCap)`. */
  readonly logitSoftCap: number | null
  /** The parsed `config.json`, including unused fields. */
  readonly source: Readonly<Record<string, unknown>>
  /** The fields of `source` that are not known, each with its value. They have no effect. */
  readonly ignoredFields: readonly string[]
}

/**
 * A decoder-only transformer as data: sizes, names of parameters, and which arithmetic joins them. The forward pass, the shapes of the
 * parameters and their first values are functions of it; nothing else knows families.
 *
 * This folder holds the families of models: how the `config.json` of each becomes a description.
 * It does not hold the arithmetic that the description selects (`..`).
 */
import type { Activation } from '../../../engine/ops/activation.js'

/** Families of models, by the `model_type` of their `config.json`, whose arithmetic this project reproduces. */
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
  /** Without `.weight` and `.bias`; within a layer: after the layer's own name. */
  readonly name: string
  readonly inputs: number
  readonly outputs: number
  readonly bias: 'added' | 'none'
  /** How the weight is stored: `[out, in]` as PyTorch's Linear, or `[in, out]` as GPT-2's Conv1D. */
  readonly layout: 'out-in' | 'in-out'
}

/** A normalization with learned weights. */
export interface Norm {
  readonly name: string
  /** Of the features that share a mean. */
  readonly width: number
  /** `rms`: by the root of the mean square. `layer`: by mean and variance, with a bias. */
  readonly kind: 'rms' | 'layer'
  readonly epsilon: number
  /** Added to the weight: 1 for Gemma, whose weights are stored around 0. */
  readonly offset: 0 | 1
}

/** `x + after(f(before(x)))`: where the norms of a half of a layer are. */
export interface Residual {
  readonly before: Norm | null
  readonly after: Norm | null
}

export interface AttentionDescription extends Residual {
  /** Queries, keys and values one by one, or one projection whose outputs are all three side by side. */
  readonly inputs: readonly Projection[]
  readonly output: Projection
  /** Norms of queries and keys before their positions are encoded: over each head, or over all heads together, by their width. */
  readonly queryNorm: Norm | null
  readonly keyNorm: Norm | null
  /** Scores become `softCap * tanh(score / softCap)`. */
  readonly softCap: number | null
  /**
   * What a padding position, which may see nothing, looks at, all alike: every position, or those up to its own within the window. Nothing
   * reads the result, but for the reference's loss over padded rows.
   */
  readonly paddingSees: 'all' | 'past'
}

export interface FeedForwardDescription extends Residual {
  /** `gated`: `output(activation(gate) * up)`, gate and up one by one or side by side; `plain`: `output(activation(input))`. */
  readonly kind: 'gated' | 'plain'
  readonly inputs: readonly Projection[]
  readonly activation: Activation
  readonly output: Projection
}

/** What differs between layers. */
export interface LayerKind {
  /** A position sees itself and the `window - 1` positions before it; null: all before it. */
  readonly window: number | null
  /** The table in `DecoderConfig.rotary` that encodes positions; null: none. */
  readonly rotary: string | null
  /** Products of queries and keys are multiplied by it. */
  readonly scale: number
}

/** How frequencies of the rotary embedding are stretched for sequences longer than those of training. */
export type RopeScaling =
  | { readonly type: 'default' }
  | { readonly type: 'linear'; readonly factor: number }
  /** Grows the base with the length of the sequence beyond `trainedLength`. */
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
      /** Whether the bounds between frequencies are rounded to whole features. */
      readonly bounds: 'rounded' | 'exact'
      readonly trainedLength: number
    }
  /** A divisor for each frequency: one list up to `trainedLength`, another for longer sequences. */
  | {
      readonly type: 'longrope'
      readonly shortFactors: readonly number[]
      readonly longFactors: readonly number[]
      readonly trainedLength: number
    }

/** One rotary embedding. */
export interface RotaryDescription {
  readonly theta: number
  /** How many features of each head are turned, the first ones. Even. */
  readonly width: number
  readonly scaling: RopeScaling
  /** Cosines and sines are multiplied by it. */
  readonly attentionFactor: number
}

/**
 * Everything that defines the arithmetic, and the `config.json` that said so. Made by `parseConfig` only: `source` and the other fields say
 * the same. Sizes are counts of features, heads or tokens. Plain data: it survives `structuredClone`.
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
  /** The longest sequence that the model is meant for. */
  readonly maxPositions: number
  /** The output projection is the embedding matrix. */
  readonly tiedEmbeddings: boolean
  readonly endTokens: readonly number[]
  readonly padToken: number | null

  /** Name of the embedding matrix, and what embeddings are multiplied by. */
  readonly embedding: { readonly name: string; readonly scale: number }
  /** Name of the learned embeddings of positions, which are added to those of tokens. */
  readonly learnedPositions: string | null
  /** Layer i is named `layerName.i`. */
  readonly layerName: string
  readonly attention: AttentionDescription
  readonly feedForward: FeedForwardDescription
  /** One for each layer. */
  readonly layerKinds: readonly LayerKind[]
  readonly rotary: Readonly<Record<string, RotaryDescription>>
  readonly finalNorm: Norm
  /** Logits become `logitSoftCap * tanh(logit / logitSoftCap)`. */
  readonly logitSoftCap: number | null
  /** The parsed `config.json`, with the fields that nothing here reads. */
  readonly source: Readonly<Record<string, unknown>>
}

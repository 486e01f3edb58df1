/**
 * The compiled functions of a runner: for prompts, for prompts of one length, and for a decoding
 * step. Sizes that change between calls (rows, tokens, cached positions) vary within one graph.
 *
 * Axis letters: S rows, N tokens of several prompts one after another, C cached positions, K
 * key-value heads, Q query heads, H head size, V vocabulary, D features.
 */
import {
  cachedAttention,
  decodeAttention,
  type Jitted,
  jit,
  rowMax,
  type VaryingAxes,
} from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import type { DecoderConfig } from '../../transformer/config.js'
import { type Attend, forwardTokens, logitsOf } from '../../transformer/forward.js'
import type { Params } from '../../transformer/params.js'
import type { RotaryTables } from '../../transformer/rotaryTables.js'

/** Keys and values of one layer: `[1, K, C, H]` each, of prompts. */
interface CachedLayer {
  readonly keys: tf.Tensor
  readonly values: tf.Tensor
}

/** Attention masks: one for each window of the model's layers, with `null` as `'all'`. */
type Biases = Readonly<Record<string, tf.Tensor>>

export const biasName = (window: number | null): string => (window === null ? 'all' : `${window}`)

interface RunnerInput {
  readonly params: Params
  readonly rotary: RotaryTables
  /** `[N]` or `[S]` int32 */
  readonly ids: tf.Tensor
  /** Same shape as ids. */
  readonly positions: tf.Tensor
  /** `[R, 1]`, one for each row of scores; absent if all temperatures are 1. */
  readonly inverseTemperature?: tf.Tensor
}

/** Tokens of prompts one after another. */
interface PromptInput extends RunnerInput {
  /** `[R]` int32: the tokens after which scores are needed. */
  readonly scored: tf.Tensor
  /** `[R, 1]` */
  readonly inverseTemperature: tf.Tensor
}

/** Prompts after cached positions. */
export interface PrefillInput extends PromptInput {
  /** `[1, 1, N, C + N]` */
  readonly biases: Biases
  readonly past: readonly CachedLayer[]
}

/**
 * P prompts without a past, of at most T tokens, one after another: N tokens in all. Only attention
 * computes padding; `biases` are `[1, 1, T, T]`.
 */
export interface BatchInput extends PromptInput {
  readonly biases: Biases
  /** `[P, T]` int32: the token at each place of the prompts, any one where they are padded. */
  readonly tokens: tf.Tensor
  /** `[N]` int32: the place of each token among the `P * T`. */
  readonly places: tf.Tensor
}

/** The rows of a step that have caches of one capacity. */
export interface StepLane {
  /**
   * `[S]` int32: their places among all rows of the step. Absent if they are all rows, in order.
   */
  readonly rows?: tf.Tensor
  /** `[S, 1, 1, 1, C]` */
  readonly biases: Biases
  /** `[S, K, 1, C, H]` each */
  readonly past: readonly CachedLayer[]
  /** `[1, 1, 1, 1, C]`: 1 at position 0, which every row reserves for the token of the step. */
  readonly self: tf.Tensor
}

/** A step of the rows of all lanes, one lane after the other. */
export interface GraphStepInput extends RunnerInput {
  readonly lanes: readonly StepLane[]
}

/** Scores of R rows, with the sums that sampling needs. */
export interface RowScores {
  /** `[R, V]` */
  readonly logits: tf.Tensor
  /** `[R]` int32 */
  readonly argMax: tf.Tensor
  /** `[R, 1]` */
  readonly max: tf.Tensor
  /** `[R, V / blockSize]`: sums of `exp(logits - max)`. */
  readonly masses: tf.Tensor
  /** The same sums of `(logits - max) * inverseTemperature`; absent if all temperatures are 1. */
  readonly temperedMasses?: tf.Tensor
}

export interface StepOutput {
  readonly scores: RowScores
  /**
   * Keys and values of the input tokens, side by side: `[N, L * 2 * K * H]`, for each layer the
   * keys and then the values.
   */
  readonly added: tf.Tensor
}

export interface PrefillOutput {
  readonly scores: RowScores
  /** Keys and values of the input tokens: `[1, K, N, H]` each, or `[P, K, T, H]`. */
  readonly layers: readonly CachedLayer[]
}

/**
 * Returns the divisor of the vocabulary size nearest to its square root: the size of blocks whose
 * masses are summed.
 */
const blockSizeOf = (vocabularySize: number): number => {
  for (let size = Math.ceil(Math.sqrt(vocabularySize)); size < vocabularySize; size++) {
    if (vocabularySize % size === 0) return size
  }
  return vocabularySize
}

const scoresOf = (config: DecoderConfig, input: RunnerInput, hidden: tf.Tensor): RowScores => {
  const { vocabularySize } = config
  const blockSize = blockSizeOf(vocabularySize)
  const logits = logitsOf(input.params, config, hidden)
  const max = rowMax(logits)
  const shifted = tf.sub(logits, max)
  const massesOf = (x: tf.Tensor): tf.Tensor =>
    tf.sum(tf.reshape(tf.exp(x), [x.shape[0]!, vocabularySize / blockSize, blockSize]), -1)
  const { inverseTemperature } = input
  return {
    logits,
    argMax: tf.argMax(logits, -1),
    max,
    masses: massesOf(shifted),
    ...(inverseTemperature && { temperedMasses: massesOf(tf.mul(shifted, inverseTemperature)) }),
  }
}

/** Attention of prompts, and the keys and values of the layers, in order. */
interface PromptAttending {
  readonly attend: Attend
  readonly layers: readonly CachedLayer[]
}

/** The prompts of a run as rows of one length, for attention. */
interface PromptLayout {
  /** Makes `[P, T, D]` of the tokens' `[N, D]`. */
  readonly rows: (x: tf.Tensor) => tf.Tensor
  /** The inverse, of `[P * T, D]`. */
  readonly tokens: (x: tf.Tensor) => tf.Tensor
}

/** One prompt, or several in one row. */
const ONE_ROW: PromptLayout = { rows: (x) => tf.expandDims(x, 0), tokens: (x) => x }

/** Attention of prompts. */
const promptAttend = (
  { heads, keyValueHeads, headSize }: DecoderConfig,
  { biases, past }: Pick<PrefillInput, 'biases' | 'past'>,
  layout: PromptLayout,
): PromptAttending => {
  const layers: CachedLayer[] = []
  /** Makes `[P, count, T, H]` of `[N, count * H]`. */
  const split = (x: tf.Tensor, count: number): tf.Tensor => {
    const rows = layout.rows(x)
    const [prompts, length] = rows.shape as [number, number, number] // by the layout
    return tf.transpose(tf.reshape(rows, [prompts, length, count, headSize]), [0, 2, 1, 3])
  }
  const attend: Attend = ({ layer, queries, window, softCap, scale, ...flat }) => {
    const [keys, values] = [split(flat.keys, keyValueHeads), split(flat.values, keyValueHeads)]
    layers.push({ keys, values })
    const cached = past[layer]
    const bias = biases[biasName(window)]!
    const input = { queries: split(queries, heads), keys, values, bias, ...(cached && { past: cached }) }
    const mixed = tf.transpose(cachedAttention(input, { scale, softCap }), [0, 2, 1, 3])
    return layout.tokens(tf.reshape(mixed, [-1, heads * headSize]))
  }
  return { attend, layers }
}

/** Attention over cached positions and the new one, and the new keys and values of the layers. */
interface StepAttending {
  readonly attend: Attend
  readonly added: tf.Tensor[]
}

const stepAttend = (
  { heads, keyValueHeads: k, headSize: h }: DecoderConfig,
  { lanes }: GraphStepInput,
): StepAttending => {
  const added: tf.Tensor[] = []
  const attend: Attend = ({ layer, queries, keys, values, window, softCap, scale }) => {
    added.push(keys, values)
    const rows = queries.shape[0]!
    // Scaled before the reshape: otherwise, onnxruntime moves the factor into the product, and its
    // kernels with a factor are slower and round differently.
    const input = {
      queries: tf.reshape(tf.mul(queries, scale), [rows, k, heads / k, 1, h]),
      keys: tf.reshape(keys, [rows, k, 1, 1, h]),
      values: tf.reshape(values, [rows, k, 1, 1, h]),
      lanes: lanes.map(({ rows, past, biases, self }) => ({
        ...(rows && { rows }),
        ...past[layer]!,
        bias: biases[biasName(window)]!,
        self,
      })),
    }
    return tf.reshape(decodeAttention(input, softCap), queries.shape)
  }
  return { attend, added }
}

const hiddenOf = (config: DecoderConfig, input: RunnerInput, attend: Attend): tf.Tensor => {
  const { ids, positions, rotary } = input
  return forwardTokens(input.params, config, { ids, positions, rotary, attend })
}

const promptOutput = (
  config: DecoderConfig,
  input: PromptInput,
  { attend, layers }: PromptAttending,
): PrefillOutput => {
  const hidden = hiddenOf(config, input, attend)
  const scored = tf.gather(hidden, input.scored as tf.Tensor1D) // [R] by contract
  return { scores: scoresOf(config, input, scored), layers }
}

const anglesOf = (rotary: RotaryTables): readonly VaryingAxes[] =>
  Object.values(rotary).flatMap(({ cos, sin }) => [cos, sin].map((tensor) => ({ tensor, axes: ['angles', null] })))

/** The axes that all prompts have. */
const promptAxes = ({ ids, positions, rotary, scored, inverseTemperature }: PromptInput): readonly VaryingAxes[] => [
  { tensor: ids, axes: ['tokens'] },
  { tensor: positions, axes: ['tokens'] },
  ...anglesOf(rotary),
  { tensor: scored, axes: ['scored'] },
  { tensor: inverseTemperature, axes: ['scored', null] },
]

const pastAxes = ({ biases, past }: PrefillInput): readonly VaryingAxes[] => [
  ...Object.values(biases).map((tensor) => ({ tensor, axes: [null, null, 'tokens', 'cached + tokens'] })),
  ...past.flatMap(({ keys, values }) =>
    [keys, values].map((tensor) => ({ tensor, axes: [null, null, 'cached', null] })),
  ),
]

const rowAxes = ({ tokens, places, biases }: BatchInput): readonly VaryingAxes[] => [
  { tensor: tokens, axes: ['prompts', 'length'] },
  { tensor: places, axes: ['tokens'] },
  ...Object.values(biases).map((tensor) => ({ tensor, axes: [null, null, 'length', 'length'] })),
]

const stepAxes = ({ ids, positions, lanes, rotary, inverseTemperature }: GraphStepInput): readonly VaryingAxes[] => {
  const all = lanes.map((_, i) => `rows${i}`).join(' + ')
  return [
    { tensor: ids, axes: [all] },
    { tensor: positions, axes: [all] },
    ...lanes.flatMap(({ rows, biases, past, self }, i): readonly VaryingAxes[] => {
      const [own, cached] = [`rows${i}`, `cached${i}`]
      return [
        ...(rows === undefined ? [] : [{ tensor: rows, axes: [own] }]),
        ...Object.values(biases).map((tensor) => ({ tensor, axes: [own, null, null, null, cached] })),
        ...past.flatMap(({ keys, values }) =>
          [keys, values].map((tensor) => ({ tensor, axes: [own, null, null, cached, null] })),
        ),
        { tensor: self, axes: [null, null, null, null, cached] },
      ]
    }),
    ...anglesOf(rotary),
    ...(inverseTemperature === undefined ? [] : [{ tensor: inverseTemperature, axes: [all, null] }]),
  ]
}

/** The compiled functions of one architecture. */
export interface RunnerGraphs {
  readonly prefill: Jitted<PrefillInput, PrefillOutput>
  readonly batch: Jitted<BatchInput, PrefillOutput>
  /** Has one graph for each number of lanes. */
  readonly step: Jitted<GraphStepInput, StepOutput>
}

export const runnerGraphs = (config: DecoderConfig): RunnerGraphs => ({
  prefill: jit(
    (input: PrefillInput): PrefillOutput => {
      const { biases, past } = input
      return promptOutput(config, input, promptAttend(config, { biases, past }, ONE_ROW))
    },
    { varying: (input) => [...promptAxes(input), ...pastAxes(input)] },
  ),
  batch: jit(
    (input: BatchInput): PrefillOutput => {
      const { biases, tokens, places } = input
      const attending = promptAttend(
        config,
        { biases, past: [] },
        {
          rows: (x) => tf.gather(x, tokens as tf.Tensor2D), // [P, T] by contract
          tokens: (x) => tf.gather(x, places as tf.Tensor1D), // [N] by contract
        },
      )
      return promptOutput(config, input, attending)
    },
    { memory: 'automatic', varying: (input) => [...promptAxes(input), ...rowAxes(input)] },
  ),
  step: jit(
    (input: GraphStepInput): StepOutput => {
      const { attend, added } = stepAttend(config, input)
      const scores = scoresOf(config, input, hiddenOf(config, input, attend))
      return { scores, added: tf.concat(added, 1) }
    },
    { varying: stepAxes },
  ),
})

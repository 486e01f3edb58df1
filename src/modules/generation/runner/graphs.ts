/**
 * The compiled functions of a runner: for prompts, for prompts of one length, and for a decoding
 * step. Sizes that change between calls (rows, tokens, cached positions) vary within one graph.
 * Only prompts of one length have a separate graph per length.
 *
 * Axis letters: S rows, N tokens of several prompts one after another, C cached positions, K
 * key-value heads, Q query heads, H head size, V vocabulary, D features.
 */
import * as tf from '@tensorflow/tfjs-core'
import { type Jitted, jit, type VaryingAxes } from '../../../engine/jit.js'
import { cachedAttention } from '../../../engine/ops/cachedAttention.js'
import { decodeAttention } from '../../../engine/ops/decodeAttention.js'
import { rowMax } from '../../../engine/ops/rowMax.js'
import type { DecoderConfig } from '../../transformer/config.js'
import { type Attend, forwardTokens, logitsOf } from '../../transformer/forward.js'
import type { Params } from '../../transformer/params.js'
import type { RotaryTables } from '../../transformer/rotaryTables.js'

/** Keys and values of one layer: `[S, K, C, H]` each; of prompts `[1, K, C, H]`. */
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
  /** `[1, 1, N, C + N]` for prompts, `[S, 1, 1, C]` for a step. */
  readonly biases: Biases
  /** Empty without cached positions. */
  readonly past: readonly CachedLayer[]
  /** `[R, 1]`, one for each row of scores; absent if all temperatures are 1. */
  readonly inverseTemperature?: tf.Tensor
}

export interface PrefillInput extends RunnerInput {
  /** `[R]` int32: the tokens after which scores are needed. */
  readonly scored: tf.Tensor
}

/**
 * P prompts without a past, padded on the right to one length T: ids and positions are `[P, T]`,
 * `biases` `[1, 1, T, T]`.
 */
export type BatchInput = PrefillInput

export interface GraphStepInput extends RunnerInput {
  /** `[1, 1, 1, C]`: 1 at position 0, which every row reserves for the token of the step. */
  readonly self: tf.Tensor
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

export interface RunnerOutput {
  readonly scores: RowScores
  /**
   * Keys and values of the input tokens, side by side: `[N, L * 2 * K * H]`, for each layer the
   * keys and then the values.
   */
  readonly added: tf.Tensor
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

/** Attention over cached and new positions, and the new keys and values of the layers, in order. */
interface Attending {
  readonly attend: Attend
  readonly added: tf.Tensor[]
}

const promptAttend = ({ heads, keyValueHeads, headSize }: DecoderConfig, { biases, past }: RunnerInput): Attending => {
  const added: tf.Tensor[] = []
  /** Reshapes `[N, count * H]` to `[1, count, N, H]`. */
  const split = (x: tf.Tensor, count: number): tf.Tensor =>
    tf.transpose(tf.reshape(x, [1, x.shape[0]!, count, headSize]), [0, 2, 1, 3])
  const attend: Attend = ({ layer, queries, keys, values, window, softCap, scale }) => {
    added.push(keys, values)
    const cached = past[layer]
    const input = {
      queries: split(queries, heads),
      keys: split(keys, keyValueHeads),
      values: split(values, keyValueHeads),
      bias: biases[biasName(window)]!,
      ...(cached && { past: cached }),
    }
    return tf.reshape(tf.transpose(cachedAttention(input, { scale, softCap }), [0, 2, 1, 3]), queries.shape)
  }
  return { attend, added }
}

const batchAttend = ({ heads, keyValueHeads, headSize }: DecoderConfig, { ids, biases }: BatchInput): Attending => {
  const [prompts, length] = ids.shape as [number, number] // [P, T]
  const added: tf.Tensor[] = []
  /** Reshapes `[P * T, count * H]` to `[P, count, T, H]`. */
  const split = (x: tf.Tensor, count: number): tf.Tensor =>
    tf.transpose(tf.reshape(x, [prompts, length, count, headSize]), [0, 2, 1, 3])
  const attend: Attend = ({ queries, keys, values, window, softCap, scale }) => {
    added.push(keys, values)
    const input = {
      queries: split(queries, heads),
      keys: split(keys, keyValueHeads),
      values: split(values, keyValueHeads),
      bias: biases[biasName(window)]!,
    }
    return tf.reshape(tf.transpose(cachedAttention(input, { scale, softCap }), [0, 2, 1, 3]), queries.shape)
  }
  return { attend, added }
}

const stepAttend = (
  { heads, keyValueHeads, headSize }: DecoderConfig,
  { biases, past, self }: GraphStepInput,
): Attending => {
  const added: tf.Tensor[] = []
  const split = (x: tf.Tensor, count: number): tf.Tensor => tf.reshape(x, [x.shape[0]!, count, 1, headSize])
  const attend: Attend = ({ layer, queries, keys, values, window, softCap, scale }) => {
    added.push(keys, values)
    const input = {
      queries: split(queries, heads),
      keys: split(keys, keyValueHeads),
      values: split(values, keyValueHeads),
      past: past[layer]!,
      bias: biases[biasName(window)]!,
      self,
    }
    return tf.reshape(decodeAttention(input, { scale, softCap }), queries.shape)
  }
  return { attend, added }
}

const hiddenOf = (config: DecoderConfig, input: RunnerInput, attend: Attend): tf.Tensor => {
  const { ids, positions, rotary } = input
  return forwardTokens(input.params, config, { ids, positions, rotary, attend })
}

const anglesOf = (rotary: RotaryTables): readonly VaryingAxes[] =>
  Object.values(rotary).flatMap(({ cos, sin }) => [cos, sin].map((tensor) => ({ tensor, axes: ['angles', null] })))

const varyingOf = (input: RunnerInput, layout: 'prompts' | 'step'): readonly VaryingAxes[] => {
  const rows = layout === 'step' ? 'rows' : null
  const tokens = layout === 'step' ? 'rows' : 'tokens'
  return [
    { tensor: input.ids, axes: [tokens] },
    { tensor: input.positions, axes: [tokens] },
    ...Object.values(input.biases).map((tensor) => ({
      tensor,
      axes:
        layout === 'step'
          ? [rows, null, null, 'cached']
          : [null, null, 'tokens', input.past.length === 0 ? 'tokens' : 'cached + tokens'],
    })),
    ...input.past.flatMap(({ keys, values }) =>
      [keys, values].map((tensor) => ({ tensor, axes: [rows, null, 'cached', null] })),
    ),
    ...anglesOf(input.rotary),
    ...(input.inverseTemperature === undefined
      ? []
      : [{ tensor: input.inverseTemperature, axes: [layout === 'step' ? 'rows' : 'scored', null] }]),
  ]
}

/** The compiled functions of one architecture. */
export interface RunnerGraphs {
  readonly prefill: Jitted<PrefillInput, RunnerOutput>
  /** Has one graph for each length T. */
  readonly batch: Jitted<BatchInput, RunnerOutput>
  readonly step: Jitted<GraphStepInput, RunnerOutput>
}

export const runnerGraphs = (config: DecoderConfig): RunnerGraphs => ({
  prefill: jit(
    (input: PrefillInput): RunnerOutput => {
      const { attend, added } = promptAttend(config, input)
      const hidden = hiddenOf(config, input, attend)
      const last = tf.gather(hidden, input.scored as tf.Tensor1D) // [R] by contract
      return { scores: scoresOf(config, input, last), added: tf.concat(added, 1) }
    },
    { varying: (input) => [...varyingOf(input, 'prompts'), { tensor: input.scored, axes: ['scored'] }] },
  ),
  batch: jit(
    (input: BatchInput): RunnerOutput => {
      const { attend, added } = batchAttend(config, input)
      const flat = { ids: tf.reshape(input.ids, [-1]), positions: tf.reshape(input.positions, [-1]) }
      const hidden = hiddenOf(config, { ...input, ...flat }, attend)
      const last = tf.gather(hidden, input.scored as tf.Tensor1D) // [R] by contract
      return { scores: scoresOf(config, input, last), added: tf.concat(added, 1) }
    },
    {
      varying: ({ ids, positions, scored, rotary, inverseTemperature }) => [
        { tensor: ids, axes: ['prompts', null] },
        { tensor: positions, axes: ['prompts', null] },
        { tensor: scored, axes: ['prompts'] },
        ...anglesOf(rotary),
        ...(inverseTemperature === undefined ? [] : [{ tensor: inverseTemperature, axes: ['prompts', null] }]),
      ],
    },
  ),
  step: jit(
    (input: GraphStepInput): RunnerOutput => {
      const { attend, added } = stepAttend(config, input)
      const scores = scoresOf(config, input, hiddenOf(config, input, attend))
      return { scores, added: tf.concat(added, 1) }
    },
    { varying: (input) => [...varyingOf(input, 'step'), { tensor: input.self, axes: [null, null, null, 'cached'] }] },
  ),
})

/**
 * Attention over several sources of keys and values at once.
 *
 * A completion attends to its prompt, to what it has written so far, and to itself. The prompt's keys and values are the same
 * for every completion of a group, so they are kept once and read by all: a source whose group axis has size 1 is shared.
 */
import * as tf from '@tensorflow/tfjs'
import { scaledMatMul } from './scaledMatMul.js'

/**
 * Keys and values to attend to. Axes: P prompts, K key-value heads, G completions of a prompt (1 if the source is shared by
 * them), C places, D head size.
 */
export interface AttentionSource {
  /** `[P, K, G or 1, C, D]` */
  readonly keys: tf.Tensor
  /** `[P, K, G or 1, C, D]` */
  readonly values: tf.Tensor
  /** Added to the scores, broadcast to `[P, K, G, R, T, C]`: 0 where attention is allowed, `MASKED` where it is not. */
  readonly bias?: tf.Tensor
}

/** Score of a place that must not be attended to: the lowest float32, so that a query with no place at all looks at all alike. */
export const MASKED = -3.4028234663852886e38

type Five = [number, number, number, number, number]
type Six = [number, number, number, number, number, number]

interface SourceTensors {
  readonly keys: tf.Tensor
  readonly values: tf.Tensor
}

/** `[P, K, G, R, T, X]` as `[P, K, g, rows, X]`: the layout in which one product serves a source with `g` groups. */
const asRows = (x: tf.Tensor, groups: number): tf.Tensor => {
  const [p, k, g, r, t, last] = x.shape as Six // the layout of this file
  return tf.reshape(x, [p, k, groups, (g / groups) * r * t, last])
}

const scoresOf = (queries: tf.Tensor, source: AttentionSource, scale: number): tf.Tensor => {
  const [, , groups, places] = source.keys.shape as Five // the layout of this file
  const rows = scaledMatMul(asRows(queries, groups), source.keys, { transposeB: true, alpha: scale })
  const scores = tf.reshape(rows, [...queries.shape.slice(0, -1), places])
  return source.bias === undefined ? scores : tf.add(scores, source.bias)
}

/** Sum of the terms; there is at least one. */
const total = (terms: readonly tf.Tensor[]): tf.Tensor => terms.reduce((sum, term) => tf.add(sum, term))

interface Forward {
  readonly output: tf.Tensor
  /** `exp(score - maximum)` per source. */
  readonly weights: readonly tf.Tensor[]
  /** Reciprocal of the sum of all weights of a query, `[P, K, G, R, T, 1]`. */
  readonly normalizer: tf.Tensor
}

const forward = (queries: tf.Tensor, sources: readonly AttentionSource[], scale: number): Forward => {
  const scores = sources.map((source) => scoresOf(queries, source, scale))
  const highest = scores.map((s) => tf.max(s, -1, true)).reduce((a, b) => tf.maximum(a, b))
  const weights = scores.map((s) => tf.exp(tf.sub(s, highest)))
  const normalizer = tf.reciprocal(total(weights.map((w) => tf.sum(w, -1, true))))
  const mixed = weights.map((w, i) => {
    const { values } = sources[i]!
    return tf.reshape(scaledMatMul(asRows(w, values.shape[2]!), values), queries.shape)
  })
  return { output: tf.mul(total(mixed), normalizer), weights, normalizer }
}

interface Backward {
  readonly dQueries: tf.Tensor
  readonly dSources: readonly SourceTensors[]
}

/** Dao et al. 2022, arXiv:2205.14135, appendix B.2: the row term of the softmax gradient is `sum(dOutput * output)`. */
const backward = (
  dOutput: tf.Tensor,
  saved: Forward & { readonly queries: tf.Tensor; readonly sources: readonly SourceTensors[] },
  scale: number,
): Backward => {
  const { queries, sources, weights, normalizer, output } = saved
  const scaled = tf.mul(dOutput, normalizer)
  const rowTerm = tf.mul(tf.sum(tf.mul(dOutput, output), -1, true), normalizer)
  const parts = sources.map(({ keys, values }, i) => {
    const groups = keys.shape[2]!
    const weight = weights[i]!
    const rows = asRows(scaled, groups)
    const dWeight = tf.reshape(scaledMatMul(rows, values, { transposeB: true }), weight.shape)
    const dScores = asRows(tf.mul(weight, tf.sub(dWeight, rowTerm)), groups)
    return {
      dQueries: tf.reshape(scaledMatMul(dScores, keys, { alpha: scale }), queries.shape),
      keys: scaledMatMul(dScores, asRows(queries, groups), { transposeA: true, alpha: scale }),
      values: scaledMatMul(asRows(weight, groups), rows, { transposeA: true }),
    }
  })
  return { dQueries: total(parts.map((part) => part.dQueries)), dSources: parts }
}

const checkShapes = (queries: tf.Tensor, sources: readonly AttentionSource[]): void => {
  if (queries.rank !== 6)
    throw new Error(`attention: queries must be [P, K, G, R, T, D], got [${queries.shape.join()}]`)
  if (sources.length === 0) throw new Error('attention: needs at least one source of keys and values')
  const [p, k, g, , , d] = queries.shape as Six // checked above
  for (const [i, { keys, values }] of sources.entries()) {
    const [sp, sk, sg, , sd] = keys.shape as Five // compared below, whatever the rank
    const fits = keys.rank === 5 && sp === p && sk === k && (sg === 1 || sg === g) && sd === d
    if (!fits || keys.shape.join() !== values.shape.join()) {
      throw new Error(
        `attention: source ${i} has keys [${keys.shape.join()}] and values [${values.shape.join()}], ` +
          `expected [${p}, ${k}, ${g} or 1, C, ${d}] for queries [${queries.shape.join()}]`,
      )
    }
  }
}

/**
 * `softmax(scale * q k^T + bias) v` over the places of all sources together.
 *
 * Shapes   queries `[P, K, G, R, T, D]` (R query heads for each key-value head, T positions); result the same.
 * Errors   throws where shapes do not fit, naming both.
 * Cost     O(T * C) memory for each source; a shared source is read once per prompt, not once per completion.
 * Source   Vaswani et al. 2017, arXiv:1706.03762, section 3.2; grouped queries: Ainslie et al. 2023, arXiv:2305.13245.
 */
export const attention = (queries: tf.Tensor, sources: readonly AttentionSource[], scale: number): tf.Tensor => {
  checkShapes(queries, sources)
  const inputs = [queries, ...sources.flatMap(({ keys, values }) => [keys, values])]
  return tf.customGrad((...args) => {
    // Casts: tfjs types the arguments of a custom gradient as a mixed list of tensors and the save function.
    const save = args[args.length - 1] as tf.GradSaveFunc
    const result = forward(queries, sources, scale)
    save([...inputs, result.output, result.normalizer, ...result.weights])
    const gradFunc = (dOutput: tf.Tensor, saved: tf.Tensor[]): tf.Tensor[] => {
      const rest = saved.slice(inputs.length)
      const { dQueries, dSources } = backward(
        dOutput,
        {
          queries: saved[0]!,
          sources: sources.map((_, i) => ({ keys: saved[1 + 2 * i]!, values: saved[2 + 2 * i]! })),
          output: rest[0]!,
          normalizer: rest[1]!,
          weights: rest.slice(2),
        },
        scale,
      )
      return [dQueries, ...dSources.flatMap(({ keys, values }) => [keys, values])]
    }
    return { value: result.output, gradFunc }
  })(...inputs)
}

/**
 * Attention over several sources of keys and values at once.
 *
 * A completion attends to its prompt and to its tokens so far. The prompt's keys and values are the
 * same for every completion of a group, so they are stored once and shared: a source whose group
 * axis has size 1 is shared.
 */
import * as tf from '@tensorflow/tfjs-core'
import { rowMax } from './rowMax.js'
import { scaledMatMul } from './scaledMatMul.js'

/**
 * Keys and values to attend to. Axes: P prompts, K key-value heads, G completions of a prompt (1 if
 * they share the source), C positions, D head size.
 */
export interface AttentionSource {
  /** `[P, K, G or 1, C, D]` */
  readonly keys: tf.Tensor
  /** `[P, K, G or 1, C, D]` */
  readonly values: tf.Tensor
  /**
   * Added to the scores, broadcast to `[P, K, G, R, T, C]`: 0 where attention is allowed, `MASKED`
   * where it is not.
   */
  readonly bias?: tf.Tensor
}

/**
 * The score of a masked position: the lowest float32, so that a query without any allowed position
 * attends to all equally.
 */
export const MASKED = -3.4028234663852886e38

type Five = [number, number, number, number, number]
type Six = [number, number, number, number, number, number]

/**
 * Reshapes `[P, K, G, R, T, X]` to `[P, K, g, rows, X]`, in which one product serves a source with
 * `g` groups.
 */
const asRows = (x: tf.Tensor, groups: number): tf.Tensor => {
  const [p, k, g, r, t, last] = x.shape as Six // the layout of this file
  return tf.reshape(x, [p, k, groups, (g / groups) * r * t, last])
}

/** The conversion of products of queries and keys to scores. */
export interface AttentionScoring {
  /** The factor of the products. */
  readonly scale: number
  /**
   * Limits scores to `(-softCap, softCap)` before the bias: `softCap * tanh(score / softCap)`.
   * Null, the default, does not limit them.
   */
  readonly softCap?: number | null
}

interface Scores {
  /** Including the bias. */
  readonly scores: tf.Tensor
  /** The derivative of the soft cap at each score; undefined without a cap. */
  readonly slope: tf.Tensor | undefined
}

const scoresOf = (queries: tf.Tensor, source: AttentionSource, { scale, softCap = null }: AttentionScoring): Scores => {
  const { keys, bias } = source
  const [, , groups, places] = keys.shape as Five // the layout of this file
  const rows = scaledMatMul(asRows(queries, groups), keys, { transposeB: true, alpha: scale })
  const products = tf.reshape(rows, [...queries.shape.slice(0, -1), places])
  const bent = softCap === null ? undefined : tf.tanh(tf.div(products, softCap))
  const scores = bent === undefined || softCap === null ? products : tf.mul(bent, softCap)
  return {
    scores: bias === undefined ? scores : tf.add(scores, bias),
    slope: bent === undefined ? undefined : tf.sub(1, tf.square(bent)),
  }
}

/** Returns the weighted sum of the values, in the shape of the queries. */
const mix = (weights: tf.Tensor, { values }: AttentionSource, shape: readonly number[]): tf.Tensor =>
  tf.reshape(scaledMatMul(asRows(weights, values.shape[2]!), values), [...shape])

/** Sums the terms, of which there is at least one. */
const total = (terms: readonly tf.Tensor[]): tf.Tensor => terms.reduce((sum, term) => tf.add(sum, term))

/**
 * The distance below a row's highest score from which scores count alike. `exp(-40)` is `4e-18`,
 * which no sum with the highest score's weight of 1 shows. Without it the weights of masked
 * positions are subnormal numbers, with which processors compute five to ten times as slowly.
 */
const FLOOR = 40

/** Computes the softmax of scores. */
const weigh = (scores: tf.Tensor): tf.Tensor => tf.softmax(tf.clipByValue(tf.sub(scores, rowMax(scores)), -FLOOR, 0))

interface Forward {
  readonly output: tf.Tensor
  /** Per source. The weights of a query in all sources add up to 1. */
  readonly weights: readonly tf.Tensor[]
  /** Derivatives of the soft cap per source; empty without a cap. */
  readonly slopes: readonly tf.Tensor[]
}

const forward = (queries: tf.Tensor, sources: readonly AttentionSource[], scoring: AttentionScoring): Forward => {
  const scored = sources.map((source) => scoresOf(queries, source, scoring))
  const joined = tf.concat(
    scored.map(({ scores }) => scores),
    -1,
  )
  const all = weigh(joined)
  const places = sources.map(({ keys }) => keys.shape[3]!)
  const weights = places.length === 1 ? [all] : tf.split(all, places, 5)
  const output = total(weights.map((w, i) => mix(w, sources[i]!, queries.shape)))
  return { output, weights, slopes: scored.flatMap(({ slope }) => (slope === undefined ? [] : [slope])) }
}

/** Gradients of one source. */
interface SourceGradients {
  readonly queries: tf.Tensor
  readonly keys: tf.Tensor
  readonly values: tf.Tensor
}

interface Incoming {
  readonly queries: tf.Tensor
  /** `[P, K, G, R, T, D]` */
  readonly gradient: tf.Tensor
  /** `sum(gradient * output)`, `[P, K, G, R, T, 1]`. */
  readonly rowTerm: tf.Tensor
  readonly scale: number
}

const throughCap = (gradient: tf.Tensor, slope: tf.Tensor | undefined): tf.Tensor =>
  slope === undefined ? gradient : tf.mul(gradient, slope)

/** The results of the forward pass that are kept for one source. */
interface KeptSource extends AttentionSource {
  readonly weights: tf.Tensor
  readonly slope: tf.Tensor | undefined
}

/**
 * Computes the gradients of one source. The row term of the softmax gradient is `sum(gradient *
 * output)`: Dao et al. 2022, arXiv:2205.14135, appendix B.2.
 */
const sourceGradients = (source: KeptSource, incoming: Incoming): SourceGradients => {
  const { keys, values, weights, slope } = source
  const { queries, gradient, rowTerm, scale } = incoming
  const groups = keys.shape[2]!
  const rows = asRows(gradient, groups)
  const dWeights = tf.reshape(scaledMatMul(rows, values, { transposeB: true }), weights.shape)
  const dScores = asRows(throughCap(tf.mul(weights, tf.sub(dWeights, rowTerm)), slope), groups)
  return {
    queries: tf.reshape(scaledMatMul(dScores, keys, { alpha: scale }), queries.shape),
    keys: scaledMatMul(dScores, asRows(queries, groups), { transposeA: true, alpha: scale }),
    values: scaledMatMul(asRows(weights, groups), rows, { transposeA: true }),
  }
}

const checkShapes = (queries: tf.Tensor, sources: readonly AttentionSource[]): void => {
  if (queries.rank !== 6) {
    throw new Error(`attention: queries must be [P, K, G, R, T, D], got [${queries.shape.join()}]`)
  }
  if (sources.length === 0) throw new Error('attention: needs at least one source of keys and values')
  const [p, k, g, , , d] = queries.shape as Six // checked above
  for (const [i, { keys, values }] of sources.entries()) {
    const [sp, sk, sg, , sd] = keys.shape as Five // compared below, whatever the rank
    const fits = keys.rank === 5 && sp === p && sk === k && (sg === g || sg === 1) && sd === d
    if (!fits || keys.shape.join() !== values.shape.join()) {
      throw new Error(
        `attention: source ${i} has keys [${keys.shape.join()}] and values [${values.shape.join()}], ` +
          `expected [${p}, ${k}, ${g} or 1, C, ${d}] for queries [${queries.shape.join()}]`,
      )
    }
  }
}

/**
 * Computes `softmax(cap(scale * q k^T) + bias) v` over the positions of all sources together;
 * `cap(s) = softCap * tanh(s / softCap)`, or s without one.
 *
 * Shapes   queries `[P, K, G, R, T, D]` (R query heads for each key-value head, T positions);
 *          result the same.
 * Errors   throws if shapes do not fit, naming both.
 * Cost     O(T * C) memory for each source; a shared source is read once per prompt, not once per
 *          completion.
 * Source   Vaswani et al. 2017, arXiv:1706.03762, section 3.2; grouped queries: Ainslie et al.
 *          2023, arXiv:2305.13245; the soft cap: Gemma 2, arXiv:2408.00118, section 2.
 */
export const attention = (
  queries: tf.Tensor,
  sources: readonly AttentionSource[],
  scoring: AttentionScoring,
): tf.Tensor => {
  checkShapes(queries, sources)
  const inputs = [queries, ...sources.flatMap(({ keys, values }) => [keys, values])]
  return tf.customGrad((...args) => {
    // Casts: tfjs types the arguments of a custom gradient as a mixed list of tensors and the save
    // function.
    const save = args[args.length - 1] as tf.GradSaveFunc
    const result = forward(queries, sources, scoring)
    save([...inputs, result.output, ...result.weights, ...result.slopes])
    const gradFunc = (dOutput: tf.Tensor, saved: tf.Tensor[]): tf.Tensor[] => {
      const [output, ...kept] = saved.slice(inputs.length) // weights and then slopes, one for each source
      const incoming = {
        queries: saved[0]!,
        gradient: dOutput,
        rowTerm: tf.sum(tf.mul(dOutput, output!), -1, true),
        scale: scoring.scale,
      }
      const parts = sources.map((source, i) =>
        sourceGradients(
          {
            ...source,
            keys: saved[1 + 2 * i]!,
            values: saved[2 + 2 * i]!,
            weights: kept[i]!,
            slope: kept[sources.length + i],
          },
          incoming,
        ),
      )
      return [total(parts.map((part) => part.queries)), ...parts.flatMap((part) => [part.keys, part.values])]
    }
    return { value: result.output, gradFunc }
  })(...inputs)
}

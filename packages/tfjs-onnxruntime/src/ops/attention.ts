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
  /**
   * With `causal`, place c of the source is that of query c, and the bias masks places after a
   * query. Products with most of these are left out. Default `all`.
   */
  readonly reach?: 'all' | 'causal'
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
  const all = weigh(
    tf.concat(
      scored.map(({ scores }) => scores),
      -1,
    ),
  )
  const places = sources.map(({ keys }) => keys.shape[3]!)
  const weights = places.length === 1 ? [all] : tf.split(all, places, 5)
  const output = total(weights.map((w, i) => mix(w, sources[i]!, queries.shape)))
  return { output, weights, slopes: scored.flatMap(({ slope }) => (slope === undefined ? [] : [slope])) }
}

/** Adjacent queries, from `from` to before `to`. */
interface Block {
  readonly from: number
  readonly to: number
}

/**
 * Number of queries of a block. Within a block, products with masked places are computed: smaller
 * blocks compute fewer of them, by more operations.
 */
const BLOCK = 64

/** Divides T queries into blocks, if that saves products. */
const blocksOf = (length: number, sources: readonly AttentionSource[]): readonly Block[] => {
  const count = sources.some(({ reach }) => reach === 'causal') ? Math.max(1, Math.floor(length / BLOCK)) : 1
  const start = (i: number): number => Math.round((i * length) / count)
  return Array.from({ length: count }, (_, i) => ({ from: start(i), to: start(i + 1) }))
}

/** Slices an axis. An axis of size 1 is broadcast, so it stays whole. */
const part = (x: tf.Tensor, axis: number, { from, to }: Block): tf.Tensor => {
  const size = x.shape[axis]!
  if (size === 1 || (from === 0 && to === size)) return x
  const begin = x.shape.map((_, i) => (i === axis ? from : 0))
  return tf.slice(
    x,
    begin,
    x.shape.map((all, i) => (i === axis ? to - from : all)),
  )
}

/** Returns the places of a source that a block's queries reach. */
const placesOf = ({ keys, reach }: Pick<AttentionSource, 'keys' | 'reach'>, { to }: Block): Block => ({
  from: 0,
  to: reach === 'causal' ? to : keys.shape[3]!,
})

/** Returns the part of a source that a block's queries reach. */
const reached = (source: AttentionSource, block: Block): AttentionSource => {
  const places = placesOf(source, block)
  const { bias } = source
  return {
    keys: part(source.keys, 3, places),
    values: part(source.values, 3, places),
    ...(bias !== undefined && { bias: part(part(bias, 4, block), 5, places) }),
  }
}

/** Joins the results of blocks along the queries. */
const joined = (blocks: readonly tf.Tensor[]): tf.Tensor =>
  blocks.length === 1 ? blocks[0]! : tf.concat([...blocks], 4)

/** Appends zeros for the places that a block does not reach. */
const padded = (gradient: tf.Tensor, places: number): tf.Tensor => {
  const missing = places - gradient.shape[3]!
  if (missing === 0) return gradient
  return tf.pad(
    gradient,
    gradient.shape.map((_, axis) => [0, axis === 3 ? missing : 0] as [number, number]),
  )
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
interface KeptSource extends Pick<AttentionSource, 'keys' | 'values'> {
  readonly weights: tf.Tensor
  readonly slope: tf.Tensor | undefined
}

/** Appends a column `[..., N, 1]` to `[..., N, D]`. */
const withColumn = (x: tf.Tensor, column: tf.Tensor): tf.Tensor => tf.concat([x, column], -1)

/**
 * Computes the gradients of one source. The row term of the softmax gradient is `sum(gradient *
 * output)`: Dao et al. 2022, arXiv:2205.14135, appendix B.2. It is subtracted inside the product,
 * as one more feature, which saves a pass over the weights.
 */
const sourceGradients = (source: KeptSource, incoming: Incoming): SourceGradients => {
  const { keys, values, weights, slope } = source
  const { queries, gradient, rowTerm, scale } = incoming
  const groups = keys.shape[2]!
  const rows = asRows(gradient, groups)
  const centered = scaledMatMul(
    withColumn(rows, asRows(tf.neg(rowTerm), groups)),
    withColumn(values, tf.ones([...values.shape.slice(0, -1), 1])),
    { transposeB: true },
  )
  const dScores = asRows(throughCap(tf.mul(weights, tf.reshape(centered, weights.shape)), slope), groups)
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
  const [p, k, g, , t, d] = queries.shape as Six // checked above
  for (const [i, { keys, values, reach }] of sources.entries()) {
    const [sp, sk, sg, places, sd] = keys.shape as Five // compared below, whatever the rank
    const fits = keys.rank === 5 && sp === p && sk === k && (sg === g || sg === 1) && sd === d
    if (fits && reach === 'causal' && places !== t) {
      throw new Error(`attention: causal source ${i} has ${places} places for ${t} queries, expected as many`)
    }
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
 * Cost     O(T * C) memory for each source, half of it for a long causal one; a shared source is
 *          read once per prompt, not once per completion.
 * Source   Vaswani et al. 2017, arXiv:1706.03762, section 3.2; grouped queries: Ainslie et al.
 *          2023, arXiv:2305.13245; the soft cap: Gemma 2, arXiv:2408.00118, section 2.
 */
export const attention = (
  queries: tf.Tensor,
  sources: readonly AttentionSource[],
  scoring: AttentionScoring,
): tf.Tensor => {
  const { softCap = null } = scoring
  checkShapes(queries, sources)
  const inputs = [queries, ...sources.flatMap(({ keys, values }) => [keys, values])]
  const blocks = blocksOf(queries.shape[4]!, sources)
  return tf.customGrad((...args) => {
    // Casts: tfjs types the arguments of a custom gradient as a mixed list of tensors and the save
    // function.
    const save = args[args.length - 1] as tf.GradSaveFunc
    const results = blocks.map((block) =>
      forward(
        part(queries, 4, block),
        sources.map((source) => reached(source, block)),
        scoring,
      ),
    )
    const output = joined(results.map((result) => result.output))
    save([...inputs, output, ...results.flatMap(({ weights, slopes }) => [...weights, ...slopes])])
    const gradFunc = (dOutput: tf.Tensor, saved: tf.Tensor[]): tf.Tensor[] => {
      const [queries, ...keysAndValues] = saved.slice(0, inputs.length) as [tf.Tensor, ...tf.Tensor[]] // as saved
      const kept = saved.slice(inputs.length + 1)
      const rowTerm = tf.sum(tf.mul(dOutput, saved[inputs.length]!), -1, true)
      const perBlock = kept.length / blocks.length
      const parts = blocks.map((block, b) => {
        const [weights, slopes] = [kept.slice(b * perBlock), kept.slice(b * perBlock + sources.length)]
        const incoming = {
          queries: part(queries, 4, block),
          gradient: part(dOutput, 4, block),
          rowTerm: part(rowTerm, 4, block),
          scale: scoring.scale,
        }
        return sources.map((source, i) => {
          const places = placesOf(source, block)
          const own = {
            keys: part(keysAndValues[2 * i]!, 3, places),
            values: part(keysAndValues[2 * i + 1]!, 3, places),
            weights: weights[i]!,
            slope: softCap === null ? undefined : slopes[i]!,
          }
          return sourceGradients(own, incoming)
        })
      })
      return [
        joined(parts.map((block) => total(block.map((source) => source.queries)))),
        ...sources.flatMap(({ keys }, i) => [
          total(parts.map((block) => padded(block[i]!.keys, keys.shape[3]!))),
          total(parts.map((block) => padded(block[i]!.values, keys.shape[3]!))),
        ]),
      ]
    }
    return { value: output, gradFunc }
  })(...inputs)
}

/** Log-probabilities of tokens from hidden states, without the logits of all rows at once. */
import { gatherLogProbs, rowMax, tokenScores } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import { loraNames } from './applyLora.js'
import type { DecoderConfig } from './config.js'
import { headWeight, logitsOf } from './forward.js'
import { HEAD, type Params } from './params.js'

/** Hidden states and the tokens to score. */
export interface ScoredStates {
  /** `[N, D]` */
  readonly states: tf.Tensor
  /** `[N]` int32 */
  readonly ids: tf.Tensor
  /** `[]` */
  readonly inverseTemperature: tf.Tensor
  /** Default `none`. */
  readonly entropy?: 'none' | 'metric'
  /** Returns the logits divided by the temperature, `[N, V]`, for callers that share them. */
  readonly logits?: () => tf.Tensor
}

/**
 * The scores of each token, `[N]` each. Gradients flow through `logProbs` only. `greedy` may be
 * computed when it is read.
 */
export interface HeadScores {
  /** In nats. */
  readonly logProbs: tf.Tensor
  /** In nats, for `metric`. */
  readonly entropy: tf.Tensor | null
  /** 1 for tokens with the highest logit, otherwise 0. */
  readonly greedy: tf.Tensor
}

/** Logits that are computed at once are at most about this many, if these are not too few rows. */
const CHUNK_LOGITS = 2 ** 22

/** Rows below which products with a large matrix are slow. */
const CHUNK_ROWS = 128

/** Forward chunks for each chunk of the backward pass, which adds a gradient of all weights. */
export const BACKWARD_CHUNKS = 4

/** Returns the number of rows that are scored at once. */
export const chunkRows = (vocabulary: number): number => Math.max(CHUNK_ROWS, Math.floor(CHUNK_LOGITS / vocabulary))

/** Ranges of at most `size` of `count` rows, as even as possible. */
const ranges = (count: number, size: number): readonly (readonly [from: number, rows: number])[] => {
  const parts = Math.ceil(count / size)
  const start = (i: number): number => Math.floor((i * count) / parts)
  return Array.from({ length: parts }, (_, i) => [start(i), start(i + 1) - start(i)])
}

/** Returns whether so many rows are scored in chunks. An adapter of the head prevents it. */
export const scoresInChunks = (params: Params, config: DecoderConfig, rows: number): boolean =>
  rows > chunkRows(config.vocabularySize) && params[loraNames(HEAD).a] === undefined

/** The weights of the head, and the rest of its arithmetic. */
interface Head {
  /** `[V, D]` */
  readonly weight: tf.Tensor
  readonly cap: number | null
}

interface Tempered {
  /** The logits divided by the temperature, or their transpose. */
  readonly x: tf.Tensor
  /** Their derivative by the logits of a head without a cap and a temperature of 1; null: 1 / T. */
  readonly bend: tf.Tensor | null
}

/** Applies a soft cap and the temperature to products of states and weights. */
const capped = (products: tf.Tensor, cap: number, inverseTemperature: tf.Tensor): Tempered => {
  const bent = tf.tanh(tf.div(products, cap))
  return { x: tf.mul(tf.mul(bent, cap), inverseTemperature), bend: tf.sub(1, tf.square(bent)) }
}

/** Computes logits divided by the temperature from one product, in either order. */
const temperedProducts = (
  { states, inverseTemperature }: ScoredStates,
  cap: number | null,
  product: (states: tf.Tensor) => tf.Tensor,
): Tempered =>
  cap === null
    ? { x: product(tf.mul(states, inverseTemperature)), bend: null }
    : capped(product(states), cap, inverseTemperature)

/** Scores of some rows, with what the backward pass needs of them. */
interface Chunk {
  /** `[n, 2]` or `[n, 3]`: log-probabilities, greedy choices, entropies. */
  readonly columns: tf.Tensor
  /** Derivatives of the log-probabilities by the states, `[n, D]`. */
  readonly slopes: tf.Tensor
  /** Logarithms of the sums of exponentials, `[n, 1]`. */
  readonly logSums: tf.Tensor
  /** Derivatives of the chosen logits by the products of states and weights, `[n, 1]`. */
  readonly chosenBends: tf.Tensor
}

const chunkOf = (
  scored: ScoredStates,
  { weight, cap, entropy }: Head & { readonly entropy: 'none' | 'metric' },
): Chunk => {
  const { states, ids, inverseTemperature } = scored
  const [rows, vocabulary] = [states.shape[0]!, weight.shape[0]!]
  const { x, bend } = temperedProducts(scored, cap, (given) => tf.matMul(given, weight, false, true))
  const [highest, probabilities] = [rowMax(x), tf.softmax(x)]
  const logSum = tf.neg(tf.log(rowMax(probabilities))) // as in `tokenScores`
  const places = tf.cast(tf.add(tf.mul(tf.range(0, rows, 1, 'int32'), tf.scalar(vocabulary, 'int32')), ids), 'int32')
  const at = (numbers: tf.Tensor): tf.Tensor => tf.reshape(tf.gather(tf.reshape(numbers, [-1]), places), [rows, 1])
  const chosen = at(x)
  const columns = [
    tf.sub(tf.sub(chosen, highest), logSum),
    tf.cast(tf.greaterEqual(chosen, highest), 'float32'),
    ...(entropy === 'none' ? [] : [tf.sub(logSum, tf.sum(tf.mul(probabilities, tf.sub(x, highest)), -1, true))]),
  ]
  const chosenBends = bend === null ? tf.onesLike(chosen) : at(bend)
  const mean = tf.matMul(bend === null ? probabilities : tf.mul(probabilities, bend), weight)
  return {
    columns: tf.concat(columns, 1),
    slopes: tf.mul(tf.sub(tf.mul(tf.gather(weight, ids), chosenBends), mean), inverseTemperature),
    logSums: tf.add(highest, logSum),
    chosenBends,
  }
}

/**
 * Computes the part of the gradient of the head's weights that all tokens of the vocabulary have,
 * `[V, D]`, for rows `y` of states times incoming gradients. The logits are computed again,
 * transposed: a compiled graph would otherwise keep the first ones.
 */
const meanGradient = (
  scored: ScoredStates,
  { weight, cap }: Head,
  { y, logSums }: Readonly<Record<'y' | 'logSums', tf.Tensor>>,
): tf.Tensor => {
  const { x, bend } = temperedProducts(scored, cap, (given) => tf.matMul(weight, given, false, true))
  const probabilities = tf.exp(tf.sub(x, tf.reshape(logSums, [1, -1])))
  return tf.matMul(bend === null ? probabilities : tf.mul(probabilities, bend), y)
}

/** States, ids, inverse temperature, weights, slopes, sums and bends. */
type Saved = [tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]

const part = ({ states, ids, ...rest }: ScoredStates, [from, count]: readonly [number, number]): ScoredStates => ({
  ...rest,
  states: tf.slice(states, [from, 0], [count, states.shape[1]!]),
  ids: tf.slice(ids, [from], [count]),
})

/**
 * Computes scores of tokens in chunks of rows, so that logits `[N, V]` are never there as a whole,
 * forward or backward.
 *
 * Equation $\partial \log p_i / \partial h = (e_i - p) W / T$, which the forward pass keeps for
 *          each row, `[N, D]`: the backward pass multiplies it by the incoming gradient. Only the
 *          gradient of W needs the probabilities again.
 * Shapes   states `[N, D]`, ids `[N]`; results `[N]`.
 * Source   Wijmans et al. 2024, arXiv:2411.09009, for the idea of losses without all logits.
 */
const inChunks = (params: Params, config: DecoderConfig, scored: ScoredStates): tf.Tensor => {
  const { entropy = 'none' } = scored
  const cap = config.logitSoftCap
  const rows = scored.states.shape[0]!
  const size = chunkRows(config.vocabularySize)
  const { ids, inverseTemperature } = scored
  return tf.customGrad((first, second, third) => {
    // tfjs types each argument as a tensor or the function that saves.
    const [states, weight, save] = [first as tf.Tensor, second as tf.Tensor, third as tf.GradSaveFunc]
    const some = { states, ids, inverseTemperature }
    const chunks = ranges(rows, size).map((range) => chunkOf(part(some, range), { weight, cap, entropy }))
    const joined = (name: keyof Chunk): tf.Tensor =>
      tf.concat(
        chunks.map((chunk) => chunk[name]),
        0,
      )
    save([states, ids, inverseTemperature, weight, joined('slopes'), joined('logSums'), joined('chosenBends')])
    const gradFunc = (dy: tf.Tensor, saved: tf.Tensor[]): tf.Tensor[] => {
      const [states, ids, inverseTemperature, weight, slopes, logSums, bends] = saved as Saved // as saved
      const column = tf.slice(dy, [0, 0], [rows, 1])
      const y = tf.mul(states, tf.mul(column, inverseTemperature))
      const chosen = tf.unsortedSegmentSum(tf.mul(y, bends), ids as tf.Tensor1D, weight.shape[0]!) // `[N]` by contract
      const gradient = ranges(rows, BACKWARD_CHUNKS * size).reduce<tf.Tensor>((sum, range) => {
        const rowsOf = (numbers: tf.Tensor): tf.Tensor =>
          tf.slice(numbers, [range[0], 0], [range[1], numbers.shape[1]!])
        const some = part({ states, ids, inverseTemperature }, range)
        return tf.sub(sum, meanGradient(some, { weight, cap }, { y: rowsOf(y), logSums: rowsOf(logSums) }))
      }, chosen)
      return [tf.mul(slopes, column), gradient]
    }
    return { value: joined('columns'), gradFunc }
  })(scored.states, headWeight(params, config))
}

/**
 * Computes the scores of tokens under the model's head.
 *
 * Shapes   states `[N, D]`, ids `[N]` int32 in `[0, V)`; results `[N]`. Units: nats.
 * Cost     memory for the logits of a chunk of rows, and one more product with the weights of the
 *          head if these are trained.
 */
export const headScores = (params: Params, config: DecoderConfig, scored: ScoredStates): HeadScores => {
  const { states, ids, inverseTemperature, entropy = 'none' } = scored
  const rows = states.shape[0]!
  if (!scoresInChunks(params, config, rows)) {
    const logits = scored.logits?.() ?? tf.mul(logitsOf(params, config, states), inverseTemperature)
    const scores =
      entropy === 'none' ? { logProbs: gatherLogProbs(logits, ids), entropy: null } : tokenScores(logits, ids)
    return {
      ...scores,
      get greedy() {
        return tf.cast(tf.equal(tf.argMax(logits, -1), ids), 'float32')
      },
    }
  }
  const all = inChunks(params, config, scored)
  const column = (i: number): tf.Tensor => tf.reshape(tf.slice(all, [0, i], [rows, 1]), [rows])
  return { logProbs: column(0), greedy: column(1), entropy: entropy === 'none' ? null : column(2) }
}

/**
 * The interface between scheduler and model: keys and values of prompts, and one decoding step for
 * many rows.
 */
import type { Params } from '../../transformer/params.js'

/**
 * Immutable keys and values of neighboring positions of one row in host memory, as stored in the
 * prefix cache.
 */
export interface KeyValues {
  /** Number of positions T. */
  readonly length: number
  /** `[K, T, H]` each, one pair for each layer. */
  readonly layers: readonly { readonly keys: Float32Array; readonly values: Float32Array }[]
}

/**
 * The scores of one row, as needed for sampling. The arrays are views that are valid until the
 * runner's next call.
 */
export interface NextToken {
  /** `[V]` logits of the model. */
  readonly logits: Float32Array
  /** The first of the most probable tokens. */
  readonly argMax: number
  /** `log sum exp(logits)` */
  readonly logNormalizer: number
  /** `log sum exp(logits * inverseTemperature)` */
  readonly temperedLogNormalizer: number
  /**
   * `sum exp((logits - max) * inverseTemperature)` over each block of `blockSize` neighboring
   * tokens. Finds a token without a pass over all of them.
   */
  readonly blockMasses: Float32Array
  readonly blockSize: number
}

export interface PrefillItem {
  /** Tokens to compute; at least one. */
  readonly tokens: Int32Array
  /** Keys and values of all earlier positions, in order. */
  readonly past: readonly KeyValues[]
  readonly inverseTemperature: number
  /** Positions whose scores are needed. */
  readonly scores: 'last' | 'all'
}

export interface PrefillResult {
  /** Keys and values of `tokens`. */
  readonly keyValues: KeyValues
  /** The scores after the last token. */
  readonly next: NextToken
  /** `[T, V]` raw logits after each token, or null unless requested. */
  readonly logits: Float32Array | null
}

export interface StepRow {
  readonly slot: number
  /**
   * The last token of the row. Its keys and values are computed and kept, and the scores after it
   * returned.
   */
  readonly token: number
  readonly inverseTemperature: number
}

/** Rows of similar length, each in a slot, with their keys and values. Mutable. */
export interface Lane {
  /** Number of slots in use. */
  readonly rows: () => number
  /** Bytes of keys and values held, including unused positions. */
  readonly bytes: () => number
  /** Bytes that the lane would hold with `rows` more rows of at most `length` tokens. */
  readonly bytesWith: (rows: number, length: number) => number
  /**
   * Announces `rows` more rows of at most `start` tokens, which will have at most `length`, so that
   * the lane has room for them at once and does not grow beyond that.
   */
  readonly reserve: (rows: { readonly rows: number; readonly start: number; readonly length: number }) => void
  /** Allocates a slot for a row with this past. The arrays are copied. */
  readonly insert: (past: readonly KeyValues[]) => number
  readonly remove: (slot: number) => void
  /** Number of tokens whose keys and values the slot holds. */
  readonly length: (slot: number) => number
  /** Copies positions `from` to `to`. */
  readonly keyValues: (slot: number, from: number, to: number) => KeyValues
  /** Removes all rows. */
  readonly clear: () => void
  /** Removes all rows and returns the memory. */
  readonly release: () => void
}

/** Rows of one lane in a decoding step. */
interface LaneRows {
  readonly lane: Lane
  /** At least one. */
  readonly rows: readonly StepRow[]
}

/**
 * Weights in decoding steps and prompts. `fed`: every call receives the weights, which may change
 * between calls. `constant`: the weights are compiled into the graph, which speeds up onnxruntime's
 * matrix products. Compilation takes the time of about 50 steps and a second copy of the weights
 * whenever they change, until `release`.
 */
export type StepWeights = 'fed' | 'constant'

/** Decoding steps of one model. Mutable. */
export interface Decoding {
  /**
   * Runs one decoding step for rows of any lanes of the runner. Returns their scores in order:
   * lane by lane, and the rows of a lane as given. Other rows of the lanes stay unchanged.
   */
  readonly step: (params: Params, parts: readonly LaneRows[]) => readonly NextToken[]
  /** Frees graphs with compiled weights. */
  readonly release: () => void
}

/**
 * Dependence of a row's last digits on the rest of the batch. `free`: prompts are computed
 * together, and a single row uses a faster kernel. `alike`: the same kernels run in the same order
 * in any batch, so equal requests give equal tokens. Log-probabilities are then equal bit for bit
 * if all widths are multiples of 4 and onnxruntime divides products among threads in the same way
 * (it did at widths of 16 to 512 with one and two threads). At other widths log-probabilities
 * differ by rounding, at most 3.4e-7 as measured. With fed weights, a prompt that is computed in
 * pieces also differs by rounding from the whole, at most 2.5e-6 as measured.
 */
export type Rounding = 'free' | 'alike'

/** A model that can be decoded. All calls are synchronous and run one or a few compiled graphs. */
export interface ModelRunner {
  readonly vocabularySize: number
  readonly maxLength: number
  /** Bytes of one token's keys and values. */
  readonly bytesPerToken: number
  /**
   * Computes prompts, several at once if their lengths are similar and rounding allows. Results are
   * in the order of the items. Constant weights are compiled until `release` or other weights.
   */
  readonly prefill: (params: Params, items: readonly PrefillItem[], weights: StepWeights) => readonly PrefillResult[]
  /**
   * Makes an empty lane. It returns memory when half of its rows have left, unless it has at most
   * `keptBytes` (default 0): memory that is taken anew must be cleared by the system.
   */
  readonly makeLane: (keptBytes?: number) => Lane
  readonly makeDecoding: (weights: StepWeights) => Decoding
  /** The weights of calls that serve requests until other weights are loaded. */
  readonly servedWeights: Readonly<Record<'steps' | 'prompts', StepWeights>>
  /** Frees compiled graphs. */
  readonly release: () => void
}

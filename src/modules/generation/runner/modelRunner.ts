/**
 * The interface between scheduler and model: keys and values of prompts, and one decoding step for
 * many rows.
 *
 * This folder holds the model as the engine runs it: prefill, decoding steps and their compiled
 * graphs. It does not hold requests, sampling or scheduling (`..`).
 */
import type { Params } from '../../transformer/params.js'

/** Keys and values of neighboring places of one row, in host memory, never changed: what the prefix cache keeps. */
export interface KeyValues {
  /** T */
  readonly length: number
  /** `[K, T, H]` each, one pair for each layer. */
  readonly layers: readonly { readonly keys: Float32Array; readonly values: Float32Array }[]
}

/** Everything that sampling asks of the scores of one row. The arrays are views that hold until the runner's next call. */
export interface NextToken {
  /** `[V]` as the model gives them. */
  readonly logits: Float32Array
  /** The first of the most probable tokens. */
  readonly argMax: number
  /** `log sum exp(logits)` */
  readonly logNormalizer: number
  /** `log sum exp(logits * inverseTemperature)` */
  readonly temperedLogNormalizer: number
  /** `sum exp((logits - max) * inverseTemperature)` over each block of `blockSize` neighboring tokens: finds a token without a pass over all. */
  readonly blockMasses: Float32Array
  readonly blockSize: number
}

export interface PrefillItem {
  /** Tokens to compute, at least one. */
  readonly tokens: Int32Array
  /** Keys and values of everything before them, in order. */
  readonly past: readonly KeyValues[]
  readonly inverseTemperature: number
  /** Whether the scores of every place are wanted, or only those of the last. */
  readonly scores: 'last' | 'all'
}

export interface PrefillResult {
  /** Of `tokens`. */
  readonly keyValues: KeyValues
  /** After the last token. */
  readonly next: NextToken
  /** `[T, V]` raw logits after each token; null unless asked for. */
  readonly logits: Float32Array | null
}

export interface StepRow {
  readonly slot: number
  /** The last token of the row: its keys and values are computed and kept, and the scores after it returned. */
  readonly token: number
  readonly inverseTemperature: number
}

/** Rows that are decoded together, each in a slot. Mutable: it lives at the edge of the engine. */
export interface Lane {
  /** Slots in use. */
  readonly rows: () => number
  /** Bytes of keys and values held, unused places included. */
  readonly bytes: () => number
  /** Bytes that the lane would hold with `rows` more rows, of which the longest reaches `length` tokens. */
  readonly bytesWith: (rows: number, length: number) => number
  /** Says that `rows` more rows will come and the longest reach `length` tokens: memory is taken once, not as they grow. */
  readonly reserve: (rows: number, length: number) => void
  /** Takes a slot for a row with this past; the arrays are copied. */
  readonly insert: (past: readonly KeyValues[]) => number
  readonly remove: (slot: number) => void
  /** Tokens whose keys and values the slot holds. */
  readonly length: (slot: number) => number
  /** A copy of places `from` to `to`. */
  readonly keyValues: (slot: number, from: number, to: number) => KeyValues
  /** One decoding step of the given rows, in their order; other rows of the lane are not changed. */
  readonly step: (params: Params, rows: readonly StepRow[]) => readonly NextToken[]
  readonly release: () => void
}

/**
 * How decoding steps of a lane get the weights. `fed`: they are given to each step, and may be others each time. `constant`: they are made part
 * of the compiled step, which onnxruntime does its products faster with; that takes the time of about 50 steps and the memory of the weights once
 * more, whenever they are others, until the lane is released.
 */
export type LaneWeights = 'fed' | 'constant'

/** A model that can be decoded. Everything is synchronous: one call is one or a few runs of compiled graphs. */
export interface ModelRunner {
  readonly vocabularySize: number
  readonly maxLength: number
  /** Bytes of keys and values of one token. */
  readonly bytesPerToken: number
  /** Computes prompts, several at once where their lengths are alike. Results in the order of the items. */
  readonly prefill: (params: Params, items: readonly PrefillItem[]) => readonly PrefillResult[]
  /** Default `fed`. */
  readonly makeLane: (weights?: LaneWeights) => Lane
  /** Frees compiled graphs. */
  readonly release: () => void
}

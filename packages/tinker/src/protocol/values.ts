/**
 * The values of the Tinker protocol that both forms of the wire carry.
 *
 * Source   the Python SDK `tinker` 0.38.
 */

/** Numbers in row-major order. Integers are exact up to 2^53. */
export interface WireTensor {
  readonly data: ArrayLike<number>
  readonly dtype: 'float32' | 'int64'
  readonly shape: readonly number[]
}

/** A sequence, and the inputs of the loss for each of its places. */
export interface Datum {
  /** Token ids that the model reads. */
  readonly tokens: ArrayLike<number>
  /** By name: `target_tokens`, `weights`, `logprobs`, `advantages`. One number for each token. */
  readonly inputs: Readonly<Record<string, WireTensor>>
}

/** Settings of a loss, such as `clip_high_threshold`. */
export type LossConfig = Readonly<Record<string, number | string>>

/** A request to compute a loss, and its gradients unless `mode` is `forward`. */
export interface ForwardBackwardRequest {
  readonly modelId: string
  /** Number of the request among those of the model, from 1. Null if the client gives none. */
  readonly seqId: number | null
  readonly data: readonly Datum[]
  readonly lossFn: string
  readonly lossConfig: LossConfig
  readonly mode: 'forward' | 'backward'
}

/** The result of a loss: tensors for each datum, and metrics named `name:reduction`. */
export interface ForwardBackwardOutput {
  readonly outputs: readonly Readonly<Record<string, WireTensor>>[]
  readonly metrics: Readonly<Record<string, number>>
}

/** A sampled completion. */
export interface SampledSequence {
  readonly stopReason: 'stop' | 'length'
  readonly tokens: Int32Array
  /** Nats, for each token. Null if the server gives none. */
  readonly logProbs: Float32Array | null
}

/** The most probable tokens of a place. */
export type TopTokens = readonly (readonly [id: number, logProb: number])[]

/** The result of sampling. */
export interface SampleResult {
  readonly sequences: readonly SampledSequence[]
  /** Nats; null for the first token. Null if they were not requested. */
  readonly promptLogProbs: readonly (number | null)[] | null
  readonly topPromptLogProbs: readonly (TopTokens | null)[] | null
  /** Prompt tokens that came from a cache. */
  readonly cachedTokens: number
}

/** A vector of floats. */
export const floatTensor = (data: ArrayLike<number>): WireTensor => ({ data, dtype: 'float32', shape: [data.length] })

/** A vector of integers. */
export const integerTensor = (data: ArrayLike<number>): WireTensor => ({ data, dtype: 'int64', shape: [data.length] })

/**
 * Combines the outputs of chunks of one request, by the reduction in the names of metrics.
 *
 * Source   the Python SDK's `chunked_fwdbwd_helpers`, which weighs means by the number of
 *          sequences.
 */
export const combineOutputs = (parts: readonly ForwardBackwardOutput[]): ForwardBackwardOutput => {
  const [first] = parts
  if (first !== undefined && parts.length === 1) return first
  const total = parts.reduce((sum, { outputs }) => sum + outputs.length, 0)
  const names = [...new Set(parts.flatMap(({ metrics }) => Object.keys(metrics)))]
  const reduced = (name: string): number => {
    const present = parts.filter(({ metrics }) => metrics[name] !== undefined)
    const values = present.map(({ metrics }) => metrics[name]!)
    const weighted = present.reduce((sum, { metrics, outputs }) => sum + metrics[name]! * outputs.length, 0)
    switch (name.slice(name.lastIndexOf(':') + 1)) {
      case 'sum':
        return values.reduce((sum, x) => sum + x, 0)
      case 'min':
        return Math.min(...values)
      case 'max':
        return Math.max(...values)
      case 'slack':
        return Math.max(...values) - weighted / Math.max(1, total)
      default:
        return weighted / Math.max(1, total)
    }
  }
  return {
    outputs: parts.flatMap(({ outputs }) => outputs),
    metrics: Object.fromEntries(names.map((name) => [name, reduced(name)])),
  }
}

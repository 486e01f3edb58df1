/**
 * Requests and responses of a generation engine: types that the in-process engine, the worker and
 * the server share.
 *
 * Values of this file survive `structuredClone`, so that a request may cross threads.
 */
import type { Key } from '@tandem-rl/base'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/**
 * The sampling parameters of one request: vLLM's `SamplingParams`, with a value for "off" instead
 * of a missing field.
 *
 * Order of effects on the logits of a row: logit bias and allowed tokens; end tokens banned below
 * `minTokens`; repetition, then frequency and presence penalty; temperature; min-p; top-k and top-p
 * (vLLM's order).
 */
export interface SamplingParams {
  /** The number of completions of the prompt, which is prefilled once for all. */
  readonly n: number
  /** Null: as many as the context allows. */
  readonly maxTokens: number | null
  /**
   * The minimum number of tokens of a completion. Before that, end and stop tokens are banned, and
   * stop strings are not searched.
   */
  readonly minTokens: number
  /** 0 takes the most probable token, without top-k, top-p or min-p. */
  readonly temperature: number
  /** Keeps the k most probable tokens; 0 keeps all. */
  readonly topK: number
  /** Keeps the smallest set of most probable tokens whose probability reaches p; 1 keeps all. */
  readonly topP: number
  /** Keeps tokens at least this probable relative to the most probable one; 0 keeps all. */
  readonly minP: number
  /**
   * Divides positive logits of tokens in prompt or output, and multiplies negative ones. 1 is off.
   */
  readonly repetitionPenalty: number
  /** Subtracted from the logit of each token that is in the output. */
  readonly presencePenalty: number
  /** Subtracted from the logit of each token, times its count in the output. */
  readonly frequencyPenalty: number
  /** The bias that is added to the logit of each token id. */
  readonly logitBias: ReadonlyMap<number, number>
  /** The only tokens that may be sampled; null allows all. */
  readonly allowedTokens: readonly number[] | null
  /** Texts that end a completion. */
  readonly stop: readonly string[]
  /**
   * With `include`, the text contains the stop string. Token ids always contain all sampled tokens.
   */
  readonly stopText: 'exclude' | 'include'
  /** Token ids that end a completion, besides the model's end tokens. */
  readonly stopTokens: readonly number[]
  readonly endTokens: 'stop' | 'ignore'
  /**
   * The random key. Completion i draws its t-th token with `uniform(child(key, firstCompletion +
   * i), t)`, whatever else is in the batch.
   */
  readonly key: Key
  /**
   * The number of most probable tokens to report besides the sampled one; null reports no
   * alternatives.
   */
  readonly topLogProbs: number | null
  /** The same for prompt tokens; null computes no log-probabilities of the prompt. */
  readonly promptLogProbs: number | null
  /**
   * The distribution for ranks, `topLogProbs` and `promptLogProbs`. Prompt distributions are never
   * truncated.
   */
  readonly logProbsMode: LogProbsMode
}

/**
 * The distribution of log-probabilities. Raw: log-softmax of the model's logits. Tempered: of
 * logits / temperature (at temperature 0: of the logits), before truncation, which a policy loss
 * recomputes. Processed: of the distribution that the token was drawn from, after penalties, bias
 * and truncation.
 */
export type LogProbsMode = 'raw' | 'tempered' | 'processed'

/** One of the most probable tokens at a position. */
export interface TokenLogProb {
  readonly id: number
  /** In nats. */
  readonly logProb: number
  /** 1 for the most probable token. */
  readonly rank: number
}

/** A sampled token with its statistics. */
export interface GeneratedToken {
  readonly id: number
  /**
   * The three log-probabilities are NaN if a remote engine does not report them and they cannot be
   * derived from those that it reports.
   */
  readonly rawLogProb: number
  readonly temperedLogProb: number
  readonly processedLogProb: number
  /**
   * Rank of the token by `logProbsMode`, 1 for the most probable; 0 if log-probabilities were not
   * requested.
   */
  readonly rank: number
  /**
   * The `topLogProbs` most probable tokens, most probable first; fewer if fewer have a nonzero
   * probability, and empty if not requested.
   */
  readonly top: readonly TokenLogProb[]
  /** Version of the weights that sampled it. */
  readonly version: number
}

/** The log-probabilities of the prompt tokens. The first token has no predecessor: null. */
export type PromptLogProbs = readonly (PromptTokenLogProb | null)[]

export interface PromptTokenLogProb extends TokenLogProb {
  /** The most probable tokens at this position. */
  readonly top: readonly TokenLogProb[]
}

export type FinishReason = 'stop' | 'length' | 'abort' | 'error'

export interface GenerationRequest {
  /** Unique among unfinished requests. */
  readonly id: string
  /** Token ids, at least one. */
  readonly prompt: Int32Array
  readonly sampling: SamplingParams
  /** Name of a loaded adapter; null for the base weights. */
  readonly adapter: string | null
  /** Requests with different salts never share a cached prefix; '' is the shared default. */
  readonly cacheSalt: string
  /**
   * The index of the first completion among all that are drawn with `sampling.key`, so that several
   * requests may share a key and no two completions draw the same numbers. Events are still counted
   * from 0. For a remote engine it is added to the seed. Default 0.
   */
  readonly firstCompletion?: number
  /**
   * Requests of one conversation go to the same replica, if there are several. Default: the replica
   * with the longest cached prefix of the prompt.
   */
  readonly conversation?: string
}

/**
 * An event of one request, in order. Each completion ends with `Finished`; the stream of a request
 * ends with the last `Finished`.
 */
export type GenerationEvent =
  /** Emitted once, before the first token. */
  | {
      readonly _tag: 'Started'
      /** The number of prompt tokens whose keys and values were cached. */
      readonly cachedTokens: number
      /** Null unless requested. */
      readonly promptLogProbs: PromptLogProbs | null
    }
  /**
   * New tokens of one completion, and the text that became final with them (a stop string may delay
   * text).
   */
  | {
      readonly _tag: 'Tokens'
      readonly index: number
      readonly tokens: readonly GeneratedToken[]
      /** '' if the engine has no tokenizer. */
      readonly text: string
    }
  | {
      readonly _tag: 'Finished'
      readonly index: number
      readonly finishReason: FinishReason
      /** The stop string or stop token id that ended it; null for end tokens, length and abort. */
      readonly stopReason: string | number | null
    }
  /** The request was refused or the engine failed. It is the last event. */
  | { readonly _tag: 'Failed'; readonly failure: GenerationFailure }

/**
 * A refused request, or a failure of the engine during it.
 *
 * Remote engines also have `unreachable` (no connection, or it broke), `timeout` (the deadline
 * passed), `unauthorized`, and `protocol` (an invalid response: different numbers of tokens and
 * log-probabilities, NaN, another model).
 */
export interface GenerationFailure {
  readonly _tag: 'GenerationFailure'
  readonly kind:
    | 'invalid'
    | 'unknown-adapter'
    | 'overloaded'
    | 'closed'
    | 'internal'
    | 'unreachable'
    | 'timeout'
    | 'unauthorized'
    | 'protocol'
  /** For `invalid`, names the field and its value. */
  readonly reason: string
}

/** The treatment of running requests during a pause: end them, let them finish, or freeze them. */
export type PauseMode = 'abort' | 'wait' | 'keep'

/** Counters since the start, and current gauges. */
export interface EngineMetrics {
  readonly running: number
  readonly waiting: number
  /** The fraction of the KV cache memory that is in use, 0 to 1. */
  readonly cacheUsage: number
  /** The most bytes of the KV cache. 0 if unknown. */
  readonly cacheBytes: number
  readonly prefixQueries: number
  readonly prefixHits: number
  readonly promptTokens: number
  readonly generatedTokens: number
  readonly preemptions: number
  readonly finished: Readonly<Record<FinishReason, number>>
  /**
   * Counts of observations at most as large as each upper bound in seconds, cumulative; with sum
   * and count.
   */
  readonly timeToFirstToken: Histogram
  readonly interTokenLatency: Histogram
  readonly queueTime: Histogram
  readonly endToEnd: Histogram
}

export interface Histogram {
  readonly bounds: readonly number[]
  readonly counts: readonly number[]
  readonly sum: number
  readonly count: number
}

/** The limits and the vocabulary of an engine. */
export interface EngineInfo {
  /** The maximum number of tokens of prompt and completion together. */
  readonly maxModelLength: number
  readonly vocabularySize: number
  /** The maximum number of requests that are decoded at the same time. */
  readonly maxConcurrent: number
  readonly endTokens: readonly number[]
}

/** Weights by parameter name, or a checkpoint folder that the engine reads itself. */
export type WeightSource =
  | { readonly _tag: 'Arrays'; readonly arrays: ReadonlyMap<string, PlainArray> }
  | { readonly _tag: 'Folder'; readonly path: string }

/** Row-major numbers. */
export interface PlainArray {
  readonly shape: readonly number[]
  readonly data: Float32Array
}

/** New weights were refused or did not arrive; the old ones are still in use. */
export interface WeightFailure {
  readonly _tag: 'WeightFailure'
  readonly receiver: string
  readonly reason: string
}

/** A LoRA adapter as plain numbers, which can cross threads. */
export interface AdapterWeights {
  readonly rank: number
  readonly alpha: number
  /**
   * Values by name, `MODULE.lora_A.weight` `[rank, in]` and `MODULE.lora_B.weight` `[out, rank]`.
   */
  readonly tensors: ReadonlyMap<string, PlainArray>
}

/**
 * A generation engine: in this thread, on a worker, or behind a server.
 *
 * Requests are decoded together (continuous batching), and each has a stream of its own. Leaving
 * the loop over the stream, or aborting its `signal`, cancels the request and frees its slot.
 */
export interface LLMEngine {
  readonly info: EngineInfo
  /** Returns the events of the request. Never throws: an error is a `Failed` event. */
  readonly generate: (
    request: GenerationRequest,
    options?: { readonly signal?: AbortSignal },
  ) => AsyncIterable<GenerationEvent>
  /** Ends requests (all without `ids`) with finish reason `abort`. Resolves with their number. */
  readonly abort: (ids?: readonly string[]) => Promise<number>
  /** Resolves when the mode's condition holds. New requests wait until `resume`. */
  readonly pause: (options: { readonly mode: PauseMode; readonly cache: 'clear' | 'keep' }) => Promise<void>
  readonly resume: () => Promise<void>
  readonly isPaused: () => Promise<boolean>
  /** Loads an adapter, which can be used when this resolves. A name that is in use is refused. */
  readonly loadAdapter: (name: string, adapter: AdapterWeights) => TaskEither<WeightFailure, void>
  /** Unloads an adapter. Requests that use it finish first; new ones are refused immediately. */
  readonly unloadAdapter: (name: string) => TaskEither<WeightFailure, void>
  readonly adapters: () => Promise<readonly string[]>
  /**
   * Replaces the base weights between two decoding steps, all or none. Running requests continue
   * with the new weights, each token stamped with the version that sampled it. Their keys and
   * values are kept (`keep`) or recomputed (`recompute`); the prefix cache is cleared.
   */
  readonly loadWeights: (
    weights: WeightSource,
    options: { readonly version: number; readonly running: 'keep' | 'recompute' },
  ) => TaskEither<WeightFailure, number>
  /** Drops the keys and values of finished prompts. */
  readonly resetPrefixCache: () => Promise<void>
  readonly version: () => Promise<number>
  readonly metrics: () => Promise<EngineMetrics>
  /** Ends all requests with `abort` and frees everything. */
  readonly close: () => Promise<void>
}

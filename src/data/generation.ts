/**
 * What a generation engine is asked for and answers: types that the in-process engine, the worker and the server share.
 *
 * Values of this file survive `structuredClone`, so that a request may cross a thread.
 */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Key } from '../core/key.js'
import type { WeightFailure } from './weights.js'

/**
 * How one request is sampled: vLLM's `SamplingParams`, with off written as a value instead of a missing field.
 *
 * Order of effects on the logits of a row: logit bias and allowed tokens; end tokens banned below `minTokens`; repetition, then frequency
 * and presence penalty; temperature; min-p; top-k and top-p (vLLM's order).
 */
export interface SamplingParams {
  /** Completions of the prompt, which is computed once for all. */
  readonly n: number
  /** Null: as many as the context holds. */
  readonly maxTokens: number | null
  /** So many tokens come before one may end the completion: until then end and stop tokens are banned, and stop strings are not searched. */
  readonly minTokens: number
  /** 0 takes the most probable token, without cuts. */
  readonly temperature: number
  /** Keep the k most probable tokens; 0 keeps all. */
  readonly topK: number
  /** Keep the smallest set of most probable tokens whose probability reaches p; 1 keeps all. */
  readonly topP: number
  /** Keep tokens at least this probable relative to the most probable one; 0 keeps all. */
  readonly minP: number
  /** Positive logits of tokens in prompt or output are divided by it, negative ones multiplied. 1 is off. */
  readonly repetitionPenalty: number
  /** Subtracted from the logit of each token that the output has. */
  readonly presencePenalty: number
  /** Subtracted from the logit of each token, times its count in the output. */
  readonly frequencyPenalty: number
  /** Token id -> added to its logit. */
  readonly logitBias: ReadonlyMap<number, number>
  /** Only these may be sampled; null allows all. */
  readonly allowedTokens: readonly number[] | null
  /** Texts that end a completion. */
  readonly stop: readonly string[]
  /** Whether the text ends before or after the stop string. Token ids always contain what was sampled. */
  readonly stopText: 'exclude' | 'include'
  /** Token ids that end a completion, besides the model's end tokens. */
  readonly stopTokens: readonly number[]
  readonly endTokens: 'stop' | 'ignore'
  /** Completion i draws its t-th token with `uniform(child(key, firstCompletion + i), t)`, whatever else is in the batch. */
  readonly key: Key
  /** How many of the most probable tokens are reported besides the sampled one; null reports no alternatives. */
  readonly topLogProbs: number | null
  /** The same for prompt tokens; null computes no log-probabilities of the prompt. */
  readonly promptLogProbs: number | null
  /** What ranks, `topLogProbs` and `promptLogProbs` are taken from; nothing is cut in a prompt. */
  readonly logProbsMode: LogProbsMode
}

/**
 * Raw: log-softmax of the model's logits. Tempered: of logits / temperature (at temperature 0: of the logits), before any token is cut:
 * what a policy loss recomputes. Processed: of what the token was drawn from, after penalties, bias and cuts.
 */
export type LogProbsMode = 'raw' | 'tempered' | 'processed'

/** One of the most probable tokens at a place. */
export interface TokenLogProb {
  readonly id: number
  /** Nats. */
  readonly logProb: number
  /** 1 for the most probable token. */
  readonly rank: number
}

/** A sampled token, with everything known about it at the moment of sampling. */
export interface GeneratedToken {
  readonly id: number
  /** The three are NaN where an engine behind a wire does not tell them, and follow from none that it tells. */
  readonly rawLogProb: number
  readonly temperedLogProb: number
  readonly processedLogProb: number
  /** Rank of the token by `logProbsMode`, 1 for the most probable; 0 where nobody asked for log-probabilities. */
  readonly rank: number
  /** The `topLogProbs` most probable tokens, most probable first, fewer where fewer have a chance; empty where not asked for. */
  readonly top: readonly TokenLogProb[]
  /** Version of the weights that sampled it. */
  readonly version: number
}

/** What the prompt's places say about the prompt. The first token has no predecessor: null. */
export type PromptLogProbs = readonly (PromptTokenLogProb | null)[]

export interface PromptTokenLogProb extends TokenLogProb {
  /** The most probable tokens at this place. */
  readonly top: readonly TokenLogProb[]
}

export type FinishReason = 'stop' | 'length' | 'abort' | 'error'

export interface GenerationRequest {
  /** Unique among the requests that are not finished. */
  readonly id: string
  /** Token ids, at least one. */
  readonly prompt: Int32Array
  readonly sampling: SamplingParams
  /** Name of a loaded adapter; null for the base weights. */
  readonly adapter: string | null
  /** Requests with different salts share no cached prefix; '' is the common one. */
  readonly cacheSalt: string
  /**
   * Number of the first completion among all that are drawn with `sampling.key`, so that several requests may share a key and no two
   * completions draw alike. Events count from 0 all the same. Behind a wire it is added to the seed. Default 0.
   */
  readonly firstCompletion?: number
  /** Requests of one conversation go to the same replica, where there are several. Default: whoever has most of the prompt in its cache. */
  readonly conversation?: string
}

/** What happened to one request, in order. Each completion ends with `Finished`; the stream of a request ends with its last one. */
export type GenerationEvent =
  /** Once, before the first token. */
  | {
      readonly _tag: 'Started'
      /** Prompt tokens whose keys and values were already there. */
      readonly cachedTokens: number
      /** Null unless asked for. */
      readonly promptLogProbs: PromptLogProbs | null
    }
  /** New tokens of one completion, and the text that became certain with them (a stop string may hold text back). */
  | {
      readonly _tag: 'Tokens'
      readonly index: number
      readonly tokens: readonly GeneratedToken[]
      /** '' where the engine has no tokenizer. */
      readonly text: string
    }
  | {
      readonly _tag: 'Finished'
      readonly index: number
      readonly finishReason: FinishReason
      /** The stop string or stop token id that ended it; null for end tokens, length and abort. */
      readonly stopReason: string | number | null
    }
  /** The request was refused or the engine failed: nothing more follows. */
  | { readonly _tag: 'Failed'; readonly failure: GenerationFailure }

/**
 * A request was not accepted, or the engine died under it.
 *
 * Of an engine behind a wire besides: `unreachable` (no connection, or it broke), `timeout` (the deadline passed), `unauthorized`, `protocol`
 * (an answer that cannot be: other counts of tokens and log-probabilities, NaN, another model).
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
  /** Names the field and its value for `invalid`. */
  readonly reason: string
}

/** What to do with running requests when the engine pauses: end them, let them finish, or freeze them. */
export type PauseMode = 'abort' | 'wait' | 'keep'

/** Counters since the start and gauges of now. */
export interface EngineMetrics {
  readonly running: number
  readonly waiting: number
  /** Share of the memory for keys and values that is in use, 0 to 1. */
  readonly cacheUsage: number
  readonly prefixQueries: number
  readonly prefixHits: number
  readonly promptTokens: number
  readonly generatedTokens: number
  readonly preemptions: number
  readonly finished: Readonly<Record<FinishReason, number>>
  /** Upper bounds in seconds -> count of observations at most that large, cumulative; with sum and count. */
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

/** What an engine serves. */
export interface EngineInfo {
  /** Prompt and completion together. */
  readonly maxModelLength: number
  readonly vocabularySize: number
  /** Requests decoded at the same time, at most. */
  readonly maxConcurrent: number
  readonly endTokens: readonly number[]
}

/** Numbers by parameter name, or a checkpoint folder that the engine reads itself. */
export type WeightSource =
  | { readonly _tag: 'Arrays'; readonly arrays: ReadonlyMap<string, PlainArray> }
  | { readonly _tag: 'Folder'; readonly path: string }

/** Row-major numbers. */
export interface PlainArray {
  readonly shape: readonly number[]
  readonly data: Float32Array
}

/** A LoRA adapter as plain numbers, ready to cross a thread. */
export interface AdapterWeights {
  readonly rank: number
  readonly alpha: number
  /** Name -> values, `MODULE.lora_A.weight` `[rank, in]` and `MODULE.lora_B.weight` `[out, rank]`. */
  readonly tensors: ReadonlyMap<string, PlainArray>
}

/**
 * A generation engine: in this thread, on a worker, or behind a server.
 *
 * Requests are decoded together (continuous batching) and each has a stream of its own. Breaking out of the stream, or its `signal`,
 * cancels the request and frees its slot.
 */
export interface LLMEngine {
  readonly info: EngineInfo
  /** Events of the request. It never throws: what goes wrong is a `Failed` event. */
  readonly generate: (
    request: GenerationRequest,
    options?: { readonly signal?: AbortSignal },
  ) => AsyncIterable<GenerationEvent>
  /** Ends requests (all without `ids`) with finish reason `abort`; resolves to how many there were. */
  readonly abort: (ids?: readonly string[]) => Promise<number>
  /** Resolves when the mode's condition holds. New requests wait until `resume`. */
  readonly pause: (options: { readonly mode: PauseMode; readonly cache: 'clear' | 'keep' }) => Promise<void>
  readonly resume: () => Promise<void>
  readonly isPaused: () => Promise<boolean>
  /** A name that is in use is refused. The adapter can be used when this resolves. */
  readonly loadAdapter: (name: string, adapter: AdapterWeights) => TaskEither<WeightFailure, void>
  /** Requests that use it finish first; new ones are refused at once. */
  readonly unloadAdapter: (name: string) => TaskEither<WeightFailure, void>
  readonly adapters: () => Promise<readonly string[]>
  /**
   * Replaces the base weights between two decoding steps, all or none. Running requests go on with the new ones, each token stamped with
   * the version that sampled it. Their keys and values stay (`keep`) or are computed again (`recompute`); the prefix cache is emptied.
   */
  readonly loadWeights: (
    weights: WeightSource,
    options: { readonly version: number; readonly running: 'keep' | 'recompute' },
  ) => TaskEither<WeightFailure, number>
  /** Forgets keys and values of finished prompts. */
  readonly resetPrefixCache: () => Promise<void>
  readonly version: () => Promise<number>
  readonly metrics: () => Promise<EngineMetrics>
  /** Ends all requests with `abort` and frees everything. */
  readonly close: () => Promise<void>
}

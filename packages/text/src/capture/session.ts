/** The records of a capture proxy: sessions of calls, each with its token ids. */
import type { FinishReason, SamplingParams } from '../generation.js'

/**
 * `ok`: sampled to its end. `aborted`: ended early by the client. `failed`: the engine failed.
 * `unusable`: it ended, but a log-probability is missing or impossible. Only `ok` completions are
 * used for learning.
 */
export type CompletionStatus = 'ok' | 'aborted' | 'failed' | 'unusable'

/**
 * The answer of a model as a chat endpoint returned it: text, and the tool calls parsed from it.
 */
export interface CapturedAnswer {
  readonly text: string
  /** The model's thoughts. Default: none. */
  readonly reasoning?: string | undefined
  readonly calls: readonly { readonly name: string; readonly arguments: string }[]
}

/** One completion as the engine sampled it. The three lists have one element for each token. */
export interface CapturedCompletion {
  readonly ids: Int32Array
  /** In nats, of logits / temperature; NaN if the engine did not report it. */
  readonly logProbs: Float32Array
  /** Version of the weights that sampled each token. */
  readonly versions: Int32Array
  /** Null if the completion did not end. */
  readonly finishReason: FinishReason | null
  readonly stopReason: string | number | null
  readonly answer: CapturedAnswer
  readonly status: CompletionStatus
  /** The reason if the status is not `ok`. */
  readonly reason: string | null
}

/** The sampling parameters of a call: JSON values. */
export type CapturedSampling = Omit<
  SamplingParams,
  'n' | 'key' | 'logitBias' | 'topLogProbs' | 'promptLogProbs' | 'logProbsMode' | 'stopText'
> & {
  /** In the format of `formatKey`. */
  readonly key: string
  readonly logitBias: readonly (readonly [id: number, bias: number])[]
}

/** One request to the engine. */
export interface CapturedCall {
  readonly session: string
  /** The index of the call in its session, in order of arrival. */
  readonly index: number
  /** Milliseconds since 1970. */
  readonly startedAt: number
  readonly durationMs: number
  /** The endpoint, such as `/v1/chat/completions`. */
  readonly path: string
  /** The messages as the client sent them; null for prompts without messages. */
  readonly messages: readonly object[] | null
  readonly tools: readonly object[] | null
  readonly prompt: Int32Array
  /**
   * `tokens`: the ids of an earlier call, its answer, and the ids after it. `render`: the whole
   * prompt was rendered and encoded, or was given as ids.
   */
  readonly promptFrom: 'tokens' | 'render'
  readonly adapter: string | null
  readonly sampling: CapturedSampling
  readonly completions: readonly CapturedCompletion[]
}

/** The reward of a run. */
export interface CapturedReward {
  readonly total: number
  readonly parts: Readonly<Record<string, number>>
}

/** The end of a session. */
export interface SessionEnd {
  /**
   * `failed`: the run is not evidence about the policy, according to the program that ran the
   * agent.
   */
  readonly status: 'ok' | 'failed'
  readonly reason: string | null
}

/** The calls of one run of an agent. */
export interface CapturedSession {
  readonly id: string
  /** Sessions of one group are attempts at the same task. */
  readonly group: string
  readonly metadata: Readonly<Record<string, unknown>>
  /** Milliseconds since 1970. */
  readonly createdAt: number
  /** The calls that have ended, in the order of `index`. */
  readonly calls: readonly CapturedCall[]
  /** Null until a reward is reported. */
  readonly reward: CapturedReward | null
  /** Null while the agent may continue. */
  readonly end: SessionEnd | null
}

/**
 * vLLM's minimum log-probability, which it reports for missing values: a token this improbable is
 * never sampled.
 */
const LEAST = -9998

/** The tolerance for log-probabilities above 0 from rounding. */
const MOST = 1e-3

/**
 * Decides whether a completion can be used for learning, with the reason if not.
 *
 * Errors   none: a problem is part of the result.
 *
 * @example
 * completionStatus({ ids: [7], logProbs: [Number.NaN], finishReason: 'stop', failure: null }).status // 'unusable'
 */
export const completionStatus = (seen: {
  readonly ids: ArrayLike<number>
  readonly logProbs: ArrayLike<number>
  readonly finishReason: FinishReason | null
  /** The engine's error message, if it failed. */
  readonly failure: string | null
}): { readonly status: CompletionStatus; readonly reason: string | null } => {
  const { ids, logProbs, finishReason, failure } = seen
  if (failure !== null) return { status: 'failed', reason: failure }
  if (finishReason === 'error') return { status: 'failed', reason: 'the engine failed' }
  if (finishReason === 'abort') return { status: 'aborted', reason: 'the completion was aborted' }
  if (finishReason === null) return { status: 'aborted', reason: 'the client disconnected' }
  if (ids.length === 0) return { status: 'unusable', reason: 'no token was sampled' }
  const wrong = Array.from(logProbs).findIndex((x) => !(x > LEAST && x < MOST))
  return wrong === -1
    ? { status: 'ok', reason: null }
    : { status: 'unusable', reason: `the log-probability of token ${wrong} is ${logProbs[wrong]}` }
}

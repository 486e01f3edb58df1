/**
 * The records of a capture proxy: sessions of calls, each with its token ids.
 *
 * This folder holds recorded sessions of agents, and how their calls become trajectories. It does
 * not hold the proxy that records them (`src/serve/capture`).
 */
import type { FinishReason, SamplingParams } from '../generation.js'

/**
 * `ok`: sampled to its end. `aborted`: somebody ended it before. `failed`: the engine did. `unusable`: it ended, but a log-probability is
 * missing or cannot be. Only what is `ok` is ever learned from.
 */
export type CompletionStatus = 'ok' | 'aborted' | 'failed' | 'unusable'

/** What a model said, as a chat endpoint told it: text, and the calls of tools that were read out of it. */
export interface CapturedAnswer {
  readonly text: string
  readonly calls: readonly { readonly name: string; readonly arguments: string }[]
}

/** One completion, as the engine sampled it. The three lists have one element for each token. */
export interface CapturedCompletion {
  readonly ids: Int32Array
  /** Nats, of logits / temperature; NaN where the engine did not tell. */
  readonly logProbs: Float32Array
  /** Version of the weights that sampled each token. */
  readonly versions: Int32Array
  /** Null if its end never came. */
  readonly finishReason: FinishReason | null
  readonly stopReason: string | number | null
  readonly answer: CapturedAnswer
  readonly status: CompletionStatus
  /** Why it is not `ok`. */
  readonly reason: string | null
}

/** How a call was sampled, as it was done: JSON values. */
export type CapturedSampling = Omit<
  SamplingParams,
  'n' | 'key' | 'logitBias' | 'topLogProbs' | 'promptLogProbs' | 'logProbsMode' | 'stopText'
> & {
  /** As `formatKey` writes it. */
  readonly key: string
  readonly logitBias: readonly (readonly [id: number, bias: number])[]
}

/** One request to the engine. */
export interface CapturedCall {
  readonly session: string
  /** Counts the calls of a session, in the order in which they came. */
  readonly index: number
  /** Milliseconds since 1970. */
  readonly startedAt: number
  readonly durationMs: number
  /** The endpoint, such as `/v1/chat/completions`. */
  readonly path: string
  /** As the client sent them; null for prompts without messages. */
  readonly messages: readonly object[] | null
  readonly tools: readonly object[] | null
  readonly prompt: Int32Array
  /** `tokens`: the ids of an earlier call, its answer, and what came after. `render`: everything rendered and encoded, or given as ids. */
  readonly promptFrom: 'tokens' | 'render'
  readonly adapter: string | null
  readonly sampling: CapturedSampling
  readonly completions: readonly CapturedCompletion[]
}

/** What a run was worth. */
export interface CapturedReward {
  readonly total: number
  readonly parts: Readonly<Record<string, number>>
}

/** How a session ended. */
export interface SessionEnd {
  /** `failed`: whatever ran the agent says that the run says nothing about the policy. */
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
  /** Those that have ended, in the order of `index`. */
  readonly calls: readonly CapturedCall[]
  /** Null until somebody told it. */
  readonly reward: CapturedReward | null
  /** Null while the agent may go on. */
  readonly end: SessionEnd | null
}

/** vLLM's least log-probability stands for none: nothing this improbable is ever sampled. */
const LEAST = -9998

/** Rounding may lift a probability of 1 a little. */
const MOST = 1e-3

/**
 * Whether a completion can be learned from, and if not, why.
 *
 * Errors   none: what is wrong with it is the result.
 *
 * @example
 * completionStatus({ ids: [7], logProbs: [Number.NaN], finishReason: 'stop', failure: null }).status // 'unusable'
 */
export const completionStatus = (seen: {
  readonly ids: ArrayLike<number>
  readonly logProbs: ArrayLike<number>
  readonly finishReason: FinishReason | null
  /** What the engine said when it failed. */
  readonly failure: string | null
}): { readonly status: CompletionStatus; readonly reason: string | null } => {
  const { ids, logProbs, finishReason, failure } = seen
  if (failure !== null) return { status: 'failed', reason: failure }
  if (finishReason === 'error') return { status: 'failed', reason: 'the engine failed' }
  if (finishReason === 'abort') return { status: 'aborted', reason: 'the completion was aborted' }
  if (finishReason === null) return { status: 'aborted', reason: 'the client went away' }
  if (ids.length === 0) return { status: 'unusable', reason: 'no token was sampled' }
  const wrong = Array.from(logProbs).findIndex((x) => !(x > LEAST && x < MOST))
  return wrong === -1
    ? { status: 'ok', reason: null }
    : { status: 'unusable', reason: `the log-probability of token ${wrong} is ${logProbs[wrong]}` }
}

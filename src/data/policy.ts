/** Types that environments, policies and collectors exchange. */
import type { Failure, Key } from '@tandem-rl/base'
import type { History, Message, TokenSpan } from '@tandem-rl/text'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Data, Ragged } from './tensorDict/leaf.js'
import type { TensorDict } from './tensorDict/tensorDict.js'

/**
 * The end of a completion: a stop token was sampled, or the token limit was reached or the episode
 * was cut off from outside.
 */
export type StopReason = 'stop' | 'length'

/** The sampling parameters that were used. */
export interface SamplingRecord {
  /** 0 for the most probable token at each step. */
  readonly temperature: number
  readonly topK: number | null
  readonly topP: number | null
  readonly maxNewTokens: number
  readonly minNewTokens: number
}

/** Token ids of the prompt for the policy's next turn. */
export type TokenPrompt = {
  readonly tokens: TensorDict<{
    readonly prompt: Ragged<'int32'>
    readonly spans: Data<readonly TokenSpan[]>
  }>
}

/** The output of a token policy, stamped by the engine that sampled it. */
export type TokenAction = {
  readonly tokens: TensorDict<{ readonly response: Ragged<'int32'> }>
  readonly logProbs: TensorDict<{ readonly response: Ragged<'float32'> }>
  readonly stopReason: Data<StopReason>
  readonly policyVersion: Data<number>
  readonly sampling: Data<SamplingRecord>
}

export type TextPrompt = { readonly text: TensorDict<{ readonly prompt: Data<string> }> }
/** The output of a text policy, including special tokens. */
export type TextAction = {
  readonly text: TensorDict<{ readonly response: Data<string> }>
  readonly stopReason: Data<StopReason>
}

export type HistoryPrompt = { readonly history: TensorDict<{ readonly prompt: Data<History> }> }
export type HistoryAction = { readonly history: TensorDict<{ readonly response: Data<Message> }> }

/**
 * A failure of a policy. `asked`: the request cannot be answered, now or later. `infrastructure`: a
 * server or an engine failed, which is not evidence about the policy and must not lead to a reward
 * of 0. `cancelled`: by the caller's signal.
 */
export interface PolicyFailure {
  readonly _tag: 'PolicyFailure'
  readonly policy: string
  /** Default `asked`. */
  readonly kind?: 'asked' | 'infrastructure' | 'cancelled'
  readonly reason: string
  readonly cause?: Failure
}

export interface ActOptions {
  /**
   * Aborting it gives `Left` of kind `cancelled`, and frees remote resources of the policy.
   * Policies in this process may ignore it.
   */
  readonly signal?: AbortSignal
  /** Called by streaming token policies with new token ids of a row as they are sampled. */
  readonly onTokens?: (row: number, ids: readonly number[]) => void
  /** Called with new text of a row as it is sampled, by policies of messages that stream. */
  readonly onText?: (row: number, text: string) => void
}

/**
 * Writes the next turn of every batch element. Policies that sample from the key alone give equal
 * results for equal arguments.
 *
 * `In` is the schema of the input, `Out` the schema of the result.
 */
export interface Policy<in In, out Out> {
  readonly name: string
  readonly act: (td: TensorDict<In>, key: Key, options?: ActOptions) => TaskEither<PolicyFailure, TensorDict<Out>>
}

/**
 * A model that returns log-probabilities of given completions, such as the reference of a KL
 * penalty.
 */
export interface LogProbModel {
  readonly name: string
  /**
   * Returns one row for each completion, with one number for each of its tokens, in nats, at the
   * temperature that sampled it.
   */
  readonly score: (
    prompts: Ragged<'int32'>,
    completions: Ragged<'int32'>,
    temperature: number,
  ) => TaskEither<PolicyFailure, Ragged<'float32'>>
}

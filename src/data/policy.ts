/** What environments, policies and collectors exchange: types that siblings share. */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Failure } from '../core/failure.js'
import type { Key } from '../core/key.js'
import type { History, Message } from '../text/history/history.js'
import type { TokenSpan } from '../text/tokenizer/textTokenizer.js'
import type { Data, Ragged } from './tensorDict/leaf.js'
import type { TensorDict } from './tensorDict/tensorDict.js'

/** Why a completion ended: a stop token was sampled, the token limit was reached, or the episode was cut off from outside. */
export type StopReason = 'stop' | 'length'

/** How tokens were sampled, as it was done. */
export interface SamplingRecord {
  /** 0 for the most probable token at each step. */
  readonly temperature: number
  readonly topK: number | null
  readonly topP: number | null
  readonly maxNewTokens: number
  readonly minNewTokens: number
}

/** Token ids of the turn that the policy is to write after. */
export type TokenPrompt = {
  readonly tokens: TensorDict<{
    readonly prompt: Ragged<'int32'>
    readonly spans: Data<readonly TokenSpan[]>
  }>
}

/** What a policy that speaks tokens returns, stamped by the engine that sampled. */
export type TokenAction = {
  readonly tokens: TensorDict<{ readonly response: Ragged<'int32'> }>
  readonly logProbs: TensorDict<{ readonly response: Ragged<'float32'> }>
  readonly stopReason: Data<StopReason>
  readonly policyVersion: Data<number>
  readonly sampling: Data<SamplingRecord>
}

export type TextPrompt = { readonly text: TensorDict<{ readonly prompt: Data<string> }> }
/** What was written, special tokens included. */
export type TextAction = {
  readonly text: TensorDict<{ readonly response: Data<string> }>
  readonly stopReason: Data<StopReason>
}

export type HistoryPrompt = { readonly history: TensorDict<{ readonly prompt: Data<History> }> }
export type HistoryAction = { readonly history: TensorDict<{ readonly response: Data<Message> }> }

/**
 * A policy could not answer. `asked`: what it was asked for cannot be answered, now or later. `infrastructure`: a server or an engine failed,
 * which says nothing about the policy and is no reason for a reward of 0. `cancelled`: by the caller's signal.
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
  /** Aborting it gives `Left` of kind `cancelled`, and frees what the policy holds elsewhere. Policies in this process may ignore it. */
  readonly signal?: AbortSignal
  /** Called with new token ids of a row as they are sampled, by policies of token ids that stream. */
  readonly onTokens?: (row: number, ids: readonly number[]) => void
  /** Called with new text of a row as it is sampled, by policies of messages that stream. */
  readonly onText?: (row: number, text: string) => void
}

/**
 * Writes the next turn of every batch element. Equal arguments, equal answer, for policies that sample from the key alone.
 *
 * `In` is what it reads, `Out` what it adds.
 */
export interface Policy<in In, out Out> {
  readonly name: string
  readonly act: (td: TensorDict<In>, key: Key, options?: ActOptions) => TaskEither<PolicyFailure, TensorDict<Out>>
}

/** Log-probabilities of given completions under some model: what a KL penalty asks of a reference. */
export interface LogProbModel {
  readonly name: string
  /** One row for each completion, one number for each of its tokens, in nats, at the temperature that sampled it. */
  readonly score: (
    prompts: Ragged<'int32'>,
    completions: Ragged<'int32'>,
    temperature: number,
  ) => TaskEither<PolicyFailure, Ragged<'float32'>>
}

/** Sampling sessions: completions, and log-probabilities of given tokens. */
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { sampleResultSchema, tokensJson } from '../protocol/jsonWire.js'
import { decodeSampleResult } from '../protocol/protobufWire.js'
import type { SampleResult } from '../protocol/values.js'
import type { Calls, TinkerFailure } from './calls.js'
import { submitRequest } from './pending.js'

/** Settings of one sampling request. */
export interface TinkerSampling {
  /** Completions. Default 1. */
  readonly n?: number
  /** Default: as many tokens as the context holds. */
  readonly maxTokens?: number
  /** Default: the server draws its own. */
  readonly seed?: number
  /** Texts or token ids that end a completion. An empty list turns off end tokens too. */
  readonly stop?: readonly string[] | readonly number[]
  /** Default 1. */
  readonly temperature?: number
  /** Default -1: all tokens. */
  readonly topK?: number
  /** Default 1. */
  readonly topP?: number
  /**
   * Log-probabilities of the prompt, and so many of the most probable tokens for each place.
   * Default: none.
   */
  readonly promptLogProbs?: { readonly top: number }
  readonly signal?: AbortSignal
}

/** Samples with weights that do not change. */
export interface TinkerSampler {
  readonly id: string
  /**
   * Samples completions of a prompt.
   *
   * Errors   `Left(TinkerFailure)`.
   */
  readonly sample: (prompt: ArrayLike<number>, options?: TinkerSampling) => TE.TaskEither<TinkerFailure, SampleResult>
  /** Log-probabilities of tokens after those before them, in nats; null for the first. */
  readonly logProbs: (tokens: ArrayLike<number>) => TE.TaskEither<TinkerFailure, readonly (number | null)[]>
}

const paramsJson = ({ maxTokens, seed, stop, temperature = 1, topK = -1, topP = 1 }: TinkerSampling): object => ({
  ...(maxTokens !== undefined && { max_tokens: maxTokens }),
  ...(seed !== undefined && { seed }),
  ...(stop !== undefined && { stop }),
  temperature,
  top_k: topK,
  top_p: topP,
})

/** Adds the first token, which has no log-probability. Some servers leave it out. */
const withFirstToken = (result: SampleResult, length: number): SampleResult => {
  const { promptLogProbs } = result
  if (promptLogProbs === null || promptLogProbs.length !== length - 1) return result
  return { ...result, promptLogProbs: [null, ...promptLogProbs] }
}

/** Makes a client of a sampling session. */
export const makeSampler = (calls: Calls, id: string): TinkerSampler => {
  let count = 0
  const sample: TinkerSampler['sample'] =
    (prompt, options = {}) =>
    async () => {
      const { n = 1, promptLogProbs, signal } = options
      const json = {
        sampling_session_id: id,
        seq_id: count++,
        num_samples: n,
        type: 'sample',
        prompt: tokensJson(prompt),
        sampling_params: paramsJson(options),
        prompt_logprobs: promptLogProbs !== undefined,
        topk_prompt_logprobs: promptLogProbs?.top ?? 0,
      }
      const request = {
        path: '/asample',
        json,
        effect: 'none' as const,
        headers: { 'x-tinker-sampling-backpressure': '1' },
      }
      const form = { json: sampleResultSchema, protobuf: decodeSampleResult }
      const submitted = await submitRequest(calls, { ...request, ...(signal && { signal }) }, form)
      if (submitted._tag === 'Left') return submitted
      calls.count('sentTokens', prompt.length)
      const { requestId } = submitted.right
      const cancel = (): void =>
        void calls.attempt({ path: '/cancel_future', json: { request_id: requestId }, effect: 'none' })
      signal?.addEventListener('abort', cancel, { once: true })
      const result = await submitted.right.result()
      signal?.removeEventListener('abort', cancel)
      if (E.isLeft(result)) return result
      calls.count(
        'sampledTokens',
        result.right.sequences.reduce((sum, { tokens }) => sum + tokens.length, 0),
      )
      return E.right(withFirstToken(result.right, prompt.length))
    }
  return {
    id,
    sample,
    logProbs: (tokens) => async () => {
      const sampled = await sample(tokens, { maxTokens: 1, promptLogProbs: { top: 0 } })()
      if (sampled._tag === 'Left') return sampled
      const { promptLogProbs } = sampled.right
      if (promptLogProbs !== null && promptLogProbs.length === tokens.length) return TE.right(promptLogProbs)()
      const reason = `the server gave ${promptLogProbs?.length ?? 'no'} log-probabilities for ${tokens.length} tokens`
      return TE.left(calls.failure('unsupported', { call: '/asample', reason }))()
    },
  }
}

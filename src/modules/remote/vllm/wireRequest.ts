/** The bodies of sampling requests for `/inference/v1/generate` and `/v1/completions`. */
import { type Key, threefry } from '@tandem-rl/base'
import type { GenerationRequest, SamplingParams } from '@tandem-rl/text'

/** The endpoint for sampling: one with token ids only, or OpenAI's with text and token ids. */
export type SamplingEndpoint = 'generate' | 'completions'

/** The paths of the endpoints. */
export const SAMPLING_PATHS: Readonly<Record<SamplingEndpoint, string>> = {
  generate: '/inference/v1/generate',
  completions: '/v1/completions',
}

/** The delivery of an answer: at once, or token by token. */
export type Delivery = 'whole' | 'stream'

/** The settings of a body other than the request. */
export interface WireSettings {
  readonly endpoint: SamplingEndpoint
  readonly delivery: Delivery
  /** Name of the base model. An adapter's name replaces it. */
  readonly model: string
  /** Unique name of the attempt. */
  readonly requestId: string
  readonly maxTokens: number
}

/**
 * Returns the seed of a request: 52 bits of its key, scrambled so that the keys of neighboring
 * seeds are far apart, plus the number of its first completion. The server gives completion k the
 * seed `seed + k`. Two requests with different keys and n completions each share a random stream
 * with probability n / 2^51.
 *
 * @example
 * requestSeed(keyFromSeed(0), 2) - requestSeed(keyFromSeed(0)) // 2
 */
export const requestSeed = (key: Key, firstCompletion = 0): number => {
  const [high, low] = threefry(key.high, key.low, 0, 0)
  return (high >>> 12) * 2 ** 32 + low + firstCompletion
}

/**
 * Returns the number of log-probabilities to request per position. `/inference/v1/generate` returns
 * k tokens with the sampled one first, so the k most probable ones need k + 1. `/v1/completions`
 * returns the sampled one in addition.
 */
export const requestedLogProbs = ({ topLogProbs: top }: SamplingParams, endpoint: SamplingEndpoint): number => {
  if (top === null || top === 0) return 0
  return endpoint === 'generate' ? top + 1 : top
}

/**
 * Makes vLLM's `SamplingParams`. Only fields whose absence has the same meaning are left to the
 * server's defaults.
 */
const samplingJson = (request: GenerationRequest, { endpoint, maxTokens }: WireSettings) => {
  const { sampling, firstCompletion } = request
  return {
    n: sampling.n,
    temperature: sampling.temperature,
    top_k: sampling.topK,
    top_p: sampling.topP,
    min_p: sampling.minP,
    repetition_penalty: sampling.repetitionPenalty,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    ...(sampling.temperature > 0 && { seed: requestSeed(sampling.key, firstCompletion) }),
    ...(sampling.logitBias.size > 0 && { logit_bias: Object.fromEntries(sampling.logitBias) }),
    ...(sampling.allowedTokens !== null && { allowed_token_ids: sampling.allowedTokens }),
    stop: sampling.stop,
    include_stop_str_in_output: sampling.stopText === 'include',
    stop_token_ids: sampling.stopTokens,
    ignore_eos: sampling.endTokens === 'ignore',
    max_tokens: maxTokens,
    min_tokens: sampling.minTokens,
    logprobs: requestedLogProbs(sampling, endpoint),
    ...(sampling.promptLogProbs !== null && { prompt_logprobs: sampling.promptLogProbs }),
    skip_special_tokens: true,
  }
}

/**
 * Makes the JSON body of a request.
 *
 * Effects  none.
 * Source   vLLM 0.32, `GenerateRequest` and `CompletionRequest`; fields unknown to 0.10 are left
 *          out unless needed.
 */
export const wireBody = (request: GenerationRequest, settings: WireSettings): Readonly<Record<string, unknown>> => {
  const { endpoint, delivery, model, requestId } = settings
  const sampling = samplingJson(request, settings)
  const prompt = Array.from(request.prompt)
  return {
    model: request.adapter ?? model,
    request_id: requestId,
    stream: delivery === 'stream',
    ...(delivery === 'stream' && { stream_options: { include_usage: true } }),
    ...(request.cacheSalt !== '' && { cache_salt: request.cacheSalt }),
    ...(endpoint === 'generate'
      ? { token_ids: prompt, sampling_params: sampling }
      : { prompt, return_token_ids: true, return_tokens_as_token_ids: true, ...sampling }),
  }
}

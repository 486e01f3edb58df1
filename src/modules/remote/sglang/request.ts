/** The body of sampling requests for SGLang's `POST /generate`. */
import type { GenerationRequest } from '../../../data/generation.js'
import { knownModes } from '../vllm/serverLogProbs.js'
import { type Delivery, requestSeed } from '../vllm/wireRequest.js'

/**
 * The stage at which SGLang computes log-probabilities of sampled tokens. `tempered`: after
 * penalties and temperature, before cuts. `edited`: after penalties, before temperature
 * (`SGLANG_RETURN_ORIGINAL_LOGPROB=1`). At temperature 0 both are those at temperature 1.
 *
 * Source   SGLang 0.5.23, `Sampler.forward`.
 */
export type SGLangLogProbs = 'edited' | 'tempered'

/**
 * Returns why a server cannot serve a request, in addition to the checks for all engines, or null.
 */
export const unservedReason = (server: SGLangLogProbs, { sampling }: GenerationRequest): string | null => {
  const { allowedTokens, topLogProbs, promptLogProbs, logProbsMode: mode, temperature } = sampling
  if (allowedTokens !== null) return 'allowedTokens must be null on an SGLang server, which has no such limit'
  if (topLogProbs !== null && !knownModes(server, sampling).has(mode)) {
    return `topLogProbs in the mode '${mode}' cannot be derived from the server's ${server} log-probabilities with these sampling parameters: request another mode, or leave topLogProbs out`
  }
  return promptLogProbs !== null && mode !== 'raw' && temperature !== 0 && temperature !== 1
    ? `promptLogProbs in the mode '${mode}' at temperature ${temperature}: the server reports only raw ones`
    : null
}

/** The settings of a body other than the request. */
export interface BodySettings {
  readonly delivery: Delivery
  /** The server's name of each completion. */
  readonly names: readonly string[]
  readonly maxTokens: number
}

/**
 * Makes SGLang's `SamplingParams` of completion `index`. Fields whose server default has another
 * meaning are always set.
 */
const samplingJson = ({ sampling, firstCompletion = 0 }: GenerationRequest, maxTokens: number, index: number) => ({
  max_new_tokens: maxTokens,
  min_new_tokens: Math.min(sampling.minTokens, maxTokens),
  temperature: sampling.temperature,
  top_p: sampling.topP,
  top_k: sampling.topK === 0 ? -1 : sampling.topK,
  min_p: sampling.minP,
  repetition_penalty: sampling.repetitionPenalty,
  presence_penalty: sampling.presencePenalty,
  frequency_penalty: sampling.frequencyPenalty,
  ...(sampling.logitBias.size > 0 && { logit_bias: Object.fromEntries(sampling.logitBias) }),
  ...(sampling.stop.length > 0 && { stop: sampling.stop }),
  ...(sampling.stopTokens.length > 0 && { stop_token_ids: sampling.stopTokens }),
  no_stop_trim: sampling.stopText === 'include',
  ignore_eos: sampling.endTokens === 'ignore',
  skip_special_tokens: true,
  sampling_seed: requestSeed(sampling.key, firstCompletion + index),
})

/**
 * Makes the JSON body of a request. Several completions are sent as a batch of equal prompts
 * instead of `n`. Each then has a name for aborting it, and its own seed; with `n`, a server with
 * deterministic inference would draw all of them alike.
 *
 * Effects  none.
 * Cost     the prompt is sent once per completion, and computed for each one that does not find it
 *          in the prefix cache.
 * Source   SGLang 0.5.10 to 0.5.23, `GenerateReqInput`.
 */
export const generateBody = (request: GenerationRequest, settings: BodySettings): Readonly<Record<string, unknown>> => {
  const { sampling, adapter, cacheSalt } = request
  const { names, maxTokens } = settings
  const prompt = Array.from(request.prompt)
  const parameters = names.map((_, index) => samplingJson(request, maxTokens, index))
  const isBatch = names.length > 1
  return {
    input_ids: isBatch ? names.map(() => prompt) : prompt,
    sampling_params: isBatch ? parameters : parameters[0],
    rid: isBatch ? names : names[0],
    stream: settings.delivery === 'stream',
    return_logprob: true,
    logprob_start_len: sampling.promptLogProbs === null ? -1 : 0,
    top_logprobs_num: Math.max(sampling.topLogProbs ?? 0, sampling.promptLogProbs ?? 0),
    return_text_in_logprobs: false,
    ...(adapter !== null && { lora_path: adapter }),
    ...(cacheSalt !== '' && { extra_key: cacheSalt }),
  }
}

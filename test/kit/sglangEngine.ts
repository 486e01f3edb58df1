/** What the scripted SGLang samples with one of our engines, so that it says what a model says. */
import { isLeft } from 'fp-ts/lib/Either.js'
import { cancellation } from '../../src/core/cancellation.js'
import { keyFromSeed } from '../../src/core/key.js'
import type { GenerationRequest, LLMEngine, SamplingParams } from '../../src/data/generation.js'
import { collectEvents, type Generated } from '../../src/modules/generation/generateAll.js'
import type { ScriptedAnswer } from './scriptedSGLang.js'
import { type Asked, askedOf, type ScriptedBody, type ScriptedItem, type ScriptedParameters } from './sglangModel.js'

const samplingOf = (asked: ScriptedParameters, { logprob_start_len: start }: ScriptedBody): SamplingParams => ({
  n: 1,
  maxTokens: asked.max_new_tokens,
  minTokens: asked.min_new_tokens ?? 0,
  temperature: asked.temperature,
  topK: Math.max(0, asked.top_k ?? 0),
  topP: asked.top_p ?? 1,
  minP: asked.min_p ?? 0,
  repetitionPenalty: asked.repetition_penalty ?? 1,
  presencePenalty: asked.presence_penalty ?? 0,
  frequencyPenalty: asked.frequency_penalty ?? 0,
  logitBias: new Map(Object.entries(asked.logit_bias ?? {}).map(([id, bias]) => [Number(id), bias])),
  allowedTokens: null,
  stop: asked.stop ?? [],
  stopText: asked.no_stop_trim === true ? 'include' : 'exclude',
  stopTokens: asked.stop_token_ids ?? [],
  endTokens: asked.ignore_eos === true ? 'ignore' : 'stop',
  key: keyFromSeed(asked.sampling_seed ?? 0),
  topLogProbs: null,
  promptLogProbs: start === 0 ? 0 : null,
  logProbsMode: 'raw',
})

/** SGLang also reports the end token as the match. */
const finishOf = ({ completions: [only] }: Generated): ScriptedItem['meta_info']['finish_reason'] =>
  only!.finishReason === 'stop'
    ? { type: 'stop', matched: only!.stopReason ?? only!.tokens.at(-1)!.id }
    : { type: only!.finishReason, length: only!.tokens.length }

const itemOf = ({ prompt }: Asked, generated: Generated): ScriptedItem => {
  const { tokens, text } = generated.completions[0]!
  return {
    text,
    output_ids: tokens.map(({ id }) => id),
    meta_info: {
      finish_reason: finishOf(generated),
      prompt_tokens: prompt.length,
      completion_tokens: tokens.length,
      cached_tokens: generated.cachedTokens,
      weight_version: 'default',
      input_token_logprobs: (generated.promptLogProbs ?? []).map((place, t) => [
        place?.logProb ?? null,
        prompt[t]!,
        null,
      ]),
      input_top_logprobs: [],
      output_token_logprobs: tokens.map(({ id, temperedLogProb }) => [temperedLogProb, id, null]),
      output_top_logprobs: [],
    },
  }
}

/**
 * Answers `POST /generate` with what an engine samples: whole, with log-probabilities at the
 * temperature, before cuts.
 */
export const completeBy =
  (engine: LLMEngine) =>
  async (body: ScriptedBody, signal: AbortSignal): Promise<ScriptedAnswer> => {
    const items: ScriptedItem[] = []
    const work = cancellation({ signal })
    const requests = askedOf(body).map((asked) => {
      const request: GenerationRequest = {
        ...{ id: asked.name, prompt: Int32Array.from(asked.prompt), adapter: null, cacheSalt: body.extra_key ?? '' },
        sampling: samplingOf(asked.parameters, body),
      }
      return { asked, answer: collectEvents(engine.generate(request, { signal: work.part().signal }), 1) }
    })
    const answers = await Promise.all(requests.map(({ answer }) => answer))
    work.release()
    for (const [i, generated] of answers.entries()) {
      if (isLeft(generated)) return { status: 400, body: { error: { message: generated.left.reason } } }
      items.push(itemOf(requests[i]!.asked, generated.right))
    }
    return { body: items.length > 1 ? items : items[0] }
  }

/**
 * The parts that the generating endpoints share: the model, the ids of requests, the length of
 * prompts.
 */
import type { SamplingParams } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { type ApiFailure, apiFailure, invalid } from './failure.js'
import type { SamplingFields } from './fields.js'
import { checkPrompt, requestedSampling, requestKey, roomFor, truncatePrompt } from './sampling.js'
import type { Served } from './served.js'

/** The model that a request names. */
export interface RequestedModel {
  /** The name in answers. */
  readonly name: string
  readonly adapter: string | null
}

/**
 * Returns the model or adapter with a name; no name is the model.
 *
 * Errors   `Left(ApiFailure)`, 404, for an unknown name, unless the model answers to all names.
 */
export const requestedModel = (
  served: Served,
  name: string | null | undefined,
): E.Either<ApiFailure, RequestedModel> => {
  const { names } = served.model
  if (name == null || name === '' || names.includes(name)) return E.right({ name: names[0]!, adapter: null })
  return served.adapters.has(name)
    ? E.right({ name, adapter: name })
    : served.model.others === 'answer'
      ? E.right({ name, adapter: null })
      : E.left(apiFailure(404, `The model \`${name}\` does not exist.`, 'model'))
}

/**
 * Returns the name of a request. The header takes precedence, as in vLLM; by default it gets a new
 * one.
 */
export const requestName = (served: Served, request: Request, given: string | null | undefined): string =>
  (request.headers.get('x-request-id') || given) ?? served.world.ids.fresh()

/** The options that affect the sampling of prompts, in addition to the fields. */
export interface PromptOptions {
  /** `null`: as many as the context has room for. */
  readonly maxTokens: number | null
  readonly logProbs: number | null
  readonly promptLogProbs?: number | null
  readonly truncate?: { readonly keep: number | null; readonly side: 'left' | 'right' }
  /** Treatment of more tokens than there is room for. */
  readonly overflow?: 'refuse' | 'cut'
}

/** A prompt that fits the context, and its sampling parameters. */
export interface SampledPrompt {
  readonly ids: Int32Array
  readonly sampling: SamplingParams
}

/**
 * Checks prompts, and returns them with their sampling parameters. Each has a random key of its own
 * unless the request has a seed.
 *
 * Errors   `Left(ApiFailure)`, 400: sampling parameters outside vLLM's limits, more completions
 *          than the server allows, a prompt that is empty, too long or has unknown ids.
 */
export const sampledPrompts = (
  served: Served,
  prompts: readonly Int32Array[],
  { fields, options }: { readonly fields: SamplingFields; readonly options: PromptOptions },
): E.Either<ApiFailure, readonly SampledPrompt[]> => {
  const { info } = served.engine
  const { maxTokens, truncate } = options
  const requested = requestedSampling(
    { ...fields, prompt_logprobs: options.promptLogProbs ?? fields.prompt_logprobs },
    {
      info,
      maxTokens,
      logProbs: options.logProbs,
      logProbsMode: served.features.logProbsMode === 'raw_logprobs' ? 'raw' : 'processed',
      maxLogProbs: served.limits.maxLogProbs,
    },
  )
  if (E.isLeft(requested)) return requested
  const { n } = requested.right
  const { maxCompletions } = served.limits
  if (n > maxCompletions) return E.left(invalid(`n must be at most ${maxCompletions}, got ${n}.`, 'n', n))
  const sampled: SampledPrompt[] = []
  for (const prompt of prompts) {
    const wanted =
      truncate === undefined
        ? prompt
        : truncatePrompt(prompt, { ...truncate, room: info.maxModelLength - (maxTokens ?? 1) })
    const ids = checkPrompt(wanted, info)
    if (E.isLeft(ids)) return ids
    const room = roomFor(ids.right, options.overflow === 'cut' ? null : maxTokens, info)
    if (E.isLeft(room)) return room
    const key = requestKey(fields.seed, served.nextKey())
    const most = Math.min(room.right, maxTokens ?? room.right)
    sampled.push({ ids: ids.right, sampling: { ...requested.right, key, maxTokens: most } })
  }
  return E.right(sampled)
}

/** Returns the failure of a streamed request for prompt log-probabilities, if it is one. */
export const streamedPromptLogProbs = (
  stream: boolean | null | undefined,
  wanted: number | null | undefined,
): ApiFailure | undefined =>
  stream === true && wanted != null && wanted !== 0
    ? invalid('`prompt_logprobs` are not available when `stream=True`.', 'prompt_logprobs')
    : undefined

/** Fields shared by requests of several endpoints, their validation, and unsupported fields. */
import { boundedList, naturalList, table } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { type ApiFailure, apiFailure, invalid } from './failure.js'
import { REQUEST_LIMITS } from './limits.js'

/** Largest token id; larger ones would overflow 32-bit storage. */
const LARGEST_ID = 2 ** 31 - 1

/** A seed of 64 bits, as vLLM has it. JSON numbers above 2^53 are rounded. */
const seed = z
  .number()
  .refine((value) => Number.isInteger(value) && Math.abs(value) <= 2 ** 63, 'expected an integer of 64 bits')

const idList = (most: number) => naturalList(LARGEST_ID, most)

/** The token ids of a prompt. */
export const tokenIds = idList(REQUEST_LIMITS.prompt)

/** Token ids of a prompt that has some. */
export const filledIds = naturalList(LARGEST_ID, REQUEST_LIMITS.prompt, { atLeast: 1 })

const stop = z.string().max(REQUEST_LIMITS.stopLength)

const STOP_ERROR = `expected a string or an array of at most ${REQUEST_LIMITS.stops} strings, each of at most ${REQUEST_LIMITS.stopLength} characters`

/** Sampling parameters and stop conditions, with the same names on every endpoint. */
export const samplingFields = {
  n: z.int().nullish(),
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  top_k: z.int().nullish(),
  min_p: z.number().nullish(),
  presence_penalty: z.number().nullish(),
  frequency_penalty: z.number().nullish(),
  repetition_penalty: z.number().nullish(),
  seed: seed.nullish(),
  stop: z.union([stop, boundedList(stop, REQUEST_LIMITS.stops)], { error: STOP_ERROR }).nullish(),
  stop_token_ids: idList(REQUEST_LIMITS.ids).nullish(),
  ignore_eos: z.boolean().nullish(),
  min_tokens: z.int().nullish(),
  max_tokens: z.int().nullish(),
  prompt_logprobs: z.int().nullish(),
  include_stop_str_in_output: z.boolean().nullish(),
  skip_special_tokens: z.boolean().nullish(),
  logit_bias: table(z.number(), REQUEST_LIMITS.biases).nullish(),
  allowed_token_ids: idList(REQUEST_LIMITS.ids).nullish(),
} as const

/** Fields for the format of answers, common to OpenAI's two endpoints. */
export const answerFields = {
  model: z.string().nullish(),
  stream: z.boolean().nullish(),
  stream_options: z
    .object({ include_usage: z.boolean().nullish(), continuous_usage_stats: z.boolean().nullish() })
    .nullish(),
  request_id: z.string().min(1).max(256).nullish(),
  cache_salt: z.string().min(1).max(1024).nullish(),
  return_token_ids: z.boolean().nullish(),
  return_tokens_as_token_ids: z.boolean().nullish(),
  truncate_prompt_tokens: z.int().min(-1).nullish(),
  truncation_side: z.enum(['left', 'right']).nullish(),
} as const

const sampling = z.object(samplingFields)

/** The sampling fields of a request. */
export type SamplingFields = z.infer<typeof sampling>

type Refusals = Readonly<Record<string, { readonly harmless: readonly unknown[]; readonly why: string }>>

const needs = (what: string): string => `needs ${what}, which this server does not have`

/** Unsupported fields of vLLM. They are accepted only with values that have no effect. */
const REFUSED: Refusals = {
  best_of: { harmless: [], why: 'is not supported: request `n` completions and choose among them' },
  use_beam_search: { harmless: [false], why: needs('beam search') },
  suffix: { harmless: [], why: 'is not currently supported' },
  prompt_embeds: { harmless: [], why: needs('prompts as embeddings') },
  structured_outputs: { harmless: [], why: needs('constrained decoding') },
  guided_json: { harmless: [], why: needs('constrained decoding') },
  guided_regex: { harmless: [], why: needs('constrained decoding') },
  guided_choice: { harmless: [], why: needs('constrained decoding') },
  guided_grammar: { harmless: [], why: needs('constrained decoding') },
  logits_processors: { harmless: [], why: needs('logits processors') },
  bad_words: { harmless: [], why: needs('banned sequences of tokens') },
  logprob_token_ids: { harmless: [], why: needs('log-probabilities of chosen tokens') },
  repetition_detection: { harmless: [], why: needs('detection of repetitions') },
  thinking_token_budget: { harmless: [-1], why: needs('a reasoning budget') },
  kv_transfer_params: { harmless: [], why: needs('transfer of keys and values') },
  priority: { harmless: [0], why: needs('scheduling by priority') },
  features: { harmless: [], why: needs('multimodal inputs') },
  output_mode: { harmless: ['tokens'], why: 'must be "tokens": use /v1/completions for text' },
  content_parts: { harmless: [], why: needs('multimodal inputs') },
  functions: { harmless: [], why: 'is deprecated: use `tools`' },
  function_call: { harmless: ['none'], why: 'is deprecated: use `tool_choice`' },
}

const isEmpty = (value: unknown): boolean => value === null || (Array.isArray(value) && value.length === 0)

/**
 * Returns true for formats that require constrained decoding, such as `json_schema` and
 * `json_object`.
 */
const refusedFormat = (value: unknown): boolean =>
  value !== undefined && value !== null && !(typeof value === 'object' && 'type' in value && value.type === 'text')

const refusalOf = (body: object, prefix: string): ApiFailure | undefined => {
  for (const [name, value] of Object.entries(body)) {
    const refusal = Object.hasOwn(REFUSED, name) ? REFUSED[name] : undefined
    if (refusal !== undefined && !isEmpty(value) && !refusal.harmless.includes(value)) {
      return apiFailure(400, `\`${name}\` ${refusal.why}.`, `${prefix}${name}`)
    }
    if (name === 'response_format' && refusedFormat(value)) {
      return apiFailure(400, `\`${name}\` ${needs('constrained decoding')}.`, name)
    }
  }
  return undefined
}

const firstIssue = (error: z.ZodError): ApiFailure => {
  const reported = error.issues.map(({ path, message }) => `${path.join('.') || 'body'}: ${message}`)
  const shown = reported.length > 5 ? [...reported.slice(0, 5), `and ${reported.length - 5} more`] : reported
  const path = error.issues[0]?.path.join('.') ?? ''
  return apiFailure(400, shown.join('; '), path === '' ? null : path)
}

/**
 * Parses a body with its schema. Unknown fields are ignored, as in vLLM.
 *
 * Errors   `Left(ApiFailure)`: 400 with every ill-typed field, the first of them as `param`, and
 *          for fields that require unsupported features. The status is below 500, because clients
 *          retry requests that fail with 500 and above.
 */
export const parseFields = <T>(schema: z.ZodType<T>, body: unknown): E.Either<ApiFailure, T> => {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return E.left(apiFailure(400, 'The request body must be a JSON object.'))
  }
  const parsed = schema.safeParse(body)
  if (!parsed.success) return E.left(firstIssue(parsed.error))
  const nested = 'sampling_params' in body ? body.sampling_params : undefined
  const refusal =
    refusalOf(body, '') ??
    (typeof nested === 'object' && nested !== null ? refusalOf(nested, 'sampling_params.') : undefined)
  return refusal === undefined ? E.right(parsed.data) : E.left(refusal)
}

/** The stream options of a request. */
export interface StreamUsage {
  readonly final: boolean
  readonly continuous: boolean
}

/**
 * Returns how token usage is reported in a stream.
 *
 * Errors   `Left(ApiFailure)` for options without a stream.
 */
export const streamUsage = ({
  stream,
  stream_options: options,
}: {
  readonly stream?: boolean | null | undefined
  readonly stream_options?:
    | {
        readonly include_usage?: boolean | null | undefined
        readonly continuous_usage_stats?: boolean | null | undefined
      }
    | null
    | undefined
}): E.Either<ApiFailure, StreamUsage> => {
  if (options == null) return E.right({ final: false, continuous: false })
  if (stream !== true)
    return E.left(invalid('Stream options can only be defined when `stream=True`.', 'stream_options'))
  const final = options.include_usage ?? true
  return E.right({ final, continuous: final && options.continuous_usage_stats === true })
}

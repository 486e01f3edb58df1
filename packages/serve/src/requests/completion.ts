/** Requests of `POST /v1/completions`. */
import { boundedList } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { requestedModel, requestName, type SampledPrompt, sampledPrompts, streamedPromptLogProbs } from './common.js'
import { type ApiFailure, invalid } from './failure.js'
import { answerFields, parseFields, type StreamUsage, samplingFields, streamUsage, tokenIds } from './fields.js'
import type { Job } from './generation.js'
import { breathe } from './length.js'
import { REQUEST_LIMITS } from './limits.js'
import type { ReadingEnv, Served } from './served.js'

const DEFAULT_MAX_TOKENS = 16

/** Number of prompts encoded between two pauses for other requests. */
const PROMPTS_AT_ONCE = 4

const schema = z.object({
  ...samplingFields,
  ...answerFields,
  prompt: z
    .union(
      [
        z.string(),
        tokenIds,
        boundedList(z.string(), REQUEST_LIMITS.prompt),
        boundedList(tokenIds, REQUEST_LIMITS.prompt),
      ],
      {
        error: 'expected a string, an array of strings, an array of token ids, or an array of arrays of token ids',
      },
    )
    .nullish(),
  echo: z.boolean().nullish(),
  logprobs: z.int().nullish(),
  add_special_tokens: z.boolean().nullish(),
})

type Fields = z.infer<typeof schema>

/** A prompt of a completion request. Its text is needed for `echo`. */
export interface CompletionPrompt extends SampledPrompt {
  readonly text: string
}

/** A checked completion request. */
export interface CompletionBody {
  readonly job: Job
  readonly prompts: readonly CompletionPrompt[]
  readonly model: string
  /** Number of completions per prompt. */
  readonly n: number
  readonly stream: StreamUsage | null
  /** 'only' returns the prompt and generates nothing. */
  readonly echo: 'none' | 'before' | 'only'
  readonly logProbs: number | null
  readonly promptLogProbs: 'included' | 'omitted'
  readonly tokenIds: 'included' | 'omitted'
  readonly tokensAs: 'text' | 'ids'
}

interface GivenPrompt {
  readonly ids: Int32Array
  readonly text: string
}

const isText = (prompt: string | readonly number[]): prompt is string => typeof prompt === 'string'

/** Returns the prompts of a request as a list. */
const promptList = (prompt: NonNullable<Fields['prompt']>): readonly (string | readonly number[])[] => {
  if (typeof prompt === 'string') return [prompt]
  const ids = prompt.filter((item) => typeof item === 'number')
  if (ids.length === prompt.length && ids.length > 0) return [ids]
  return prompt.filter((item) => typeof item !== 'number')
}

/** Encodes the prompts of a request. */
const readPrompts = async (
  { text: { tokenizer }, limits }: ReadingEnv,
  fields: Fields,
): Promise<E.Either<ApiFailure, readonly GivenPrompt[]>> => {
  const { prompt } = fields
  if (prompt == null || prompt.length === 0) {
    return E.left(invalid('Either prompt or prompt_embeds must be provided and non-empty.', 'prompt'))
  }
  const template = fields.add_special_tokens === false ? 'omit' : 'add'
  const list = promptList(prompt)
  const { maxPrompts, maxCompletions } = limits
  if (list.length > maxPrompts) {
    return E.left(
      invalid(`prompt list length ${list.length} exceeds the maximum allowed count of ${maxPrompts}.`, 'prompt'),
    )
  }
  if (list.length * (fields.n ?? 1) > maxCompletions) {
    const all = `${list.length} prompts with n=${fields.n}`
    return E.left(invalid(`At most ${maxCompletions} completions can be requested at once, got ${all}.`, 'n', fields.n))
  }
  const prompts: GivenPrompt[] = []
  for (const item of list) {
    prompts.push(
      isText(item)
        ? { ids: tokenizer.encode(item, { template }), text: item }
        : { ids: Int32Array.from(item), text: fields.echo === true ? tokenizer.decode(item, 'keep') : '' },
    )
    if (prompts.length % PROMPTS_AT_ONCE === 0) await breathe()
  }
  return E.right(prompts)
}

/** The fields of a completion request besides its prompts. */
type CompletionSettings = Omit<Fields, 'prompt'>

/** A completion request as its body and the tokenizer determine it. */
export interface ReadCompletion {
  readonly fields: CompletionSettings
  readonly prompts: E.Either<ApiFailure, readonly GivenPrompt[]>
}

/**
 * Parses the body of a completion request, and encodes its prompts.
 *
 * Errors   `Left(ApiFailure)`, 400, with the field. A failure of the prompts is in the result,
 *          because those of other fields come first.
 */
export const readCompletion = async (env: ReadingEnv, body: unknown): Promise<E.Either<ApiFailure, ReadCompletion>> => {
  const parsed = parseFields(schema, body)
  if (E.isLeft(parsed)) return parsed
  const { prompt: _, ...fields } = parsed.right
  return E.right({ fields, prompts: await readPrompts(env, parsed.right) })
}

const echoOf = ({ echo, max_tokens: maxTokens }: CompletionSettings): CompletionBody['echo'] => {
  if (echo !== true) return 'none'
  return maxTokens === 0 ? 'only' : 'before'
}

const samplePrompts = (
  served: Served,
  fields: CompletionSettings,
  given: readonly GivenPrompt[],
): E.Either<ApiFailure, readonly CompletionPrompt[]> => {
  const echo = echoOf(fields)
  const options = {
    maxTokens: echo === 'only' ? 1 : (fields.max_tokens ?? DEFAULT_MAX_TOKENS),
    logProbs: fields.logprobs ?? null,
    promptLogProbs: echo === 'none' ? null : (fields.prompt_logprobs ?? fields.logprobs ?? null),
    truncate: { keep: fields.truncate_prompt_tokens ?? null, side: fields.truncation_side ?? 'left' },
  } as const
  const ids = given.map((prompt) => prompt.ids)
  return E.map((prompts: readonly SampledPrompt[]) =>
    prompts.map((prompt, i): CompletionPrompt => ({ ...prompt, text: given[i]!.text })),
  )(sampledPrompts(served, ids, { fields, options }))
}

/**
 * Checks a completion request.
 *
 * Errors   `Left(ApiFailure)`: 400 with the field, 404 for an unknown model.
 */
export const completionRequest = (
  served: Served,
  { fields, prompts: given }: ReadCompletion,
  request: Request,
): E.Either<ApiFailure, CompletionBody> => {
  const model = requestedModel(served, fields.model)
  if (E.isLeft(model)) return model
  const usage = streamUsage(fields)
  if (E.isLeft(usage)) return usage
  const refused = streamedPromptLogProbs(fields.stream, fields.prompt_logprobs)
  if (refused !== undefined) return E.left(refused)
  if (E.isLeft(given)) return given
  const prompts = samplePrompts(served, fields, given.right)
  if (E.isLeft(prompts)) return prompts
  const name = requestName(served, request, fields.request_id)
  return E.right({
    job: {
      name,
      id: `cmpl-${name}`,
      prompts: prompts.right,
      adapter: model.right.adapter,
      cacheSalt: fields.cache_salt ?? '',
      specialTokens: fields.skip_special_tokens === false ? 'keep' : 'skip',
    },
    prompts: prompts.right,
    model: model.right.name,
    n: fields.n ?? 1,
    stream: fields.stream === true ? usage.right : null,
    echo: echoOf(fields),
    logProbs: fields.logprobs ?? null,
    promptLogProbs: fields.prompt_logprobs == null ? 'omitted' : 'included',
    tokenIds: fields.return_token_ids === true ? 'included' : 'omitted',
    tokensAs: fields.return_tokens_as_token_ids === true ? 'ids' : 'text',
  })
}

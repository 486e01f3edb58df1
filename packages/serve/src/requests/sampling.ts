/** Conversion of sampling fields to the engine's parameters, with vLLM's limits. */
import { child, type Key, keyFromSeed } from '@tandem-rl/base'
import type { EngineInfo, LogProbsMode, SamplingParams } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { type ApiFailure, apiFailure, invalid } from './failure.js'
import type { SamplingFields } from './fields.js'

/** Smallest positive temperature. Lower ones, except 0, are raised to it. */
const MIN_TEMPERATURE = 0.01

const MAX_BIAS = 100

/** The server's settings for a request. */
export interface SamplingContext {
  readonly info: EngineInfo
  readonly logProbsMode: LogProbsMode
  /** Maximum number of log-probabilities per position; -1: all. */
  readonly maxLogProbs: number
  /** Requested number of log-probabilities per sampled token: null for none, -1 for all. */
  readonly logProbs: number | null
  /** Limit before the room in the context is known. `null`: as many as there is room for. */
  readonly maxTokens: number | null
}

type Check = readonly [ok: boolean, message: string, param: string, value: unknown]

/** vLLM's checks of values, in its order. */
const valueChecks = (p: Omit<SamplingParams, 'key'>): readonly Check[] => [
  [p.n >= 1, `n must be at least 1, got ${p.n}.`, 'n', p.n],
  [
    Math.abs(p.presencePenalty) <= 2,
    `presence_penalty must be in [-2, 2], got ${p.presencePenalty}.`,
    'presence_penalty',
    p.presencePenalty,
  ],
  [
    Math.abs(p.frequencyPenalty) <= 2,
    `frequency_penalty must be in [-2, 2], got ${p.frequencyPenalty}.`,
    'frequency_penalty',
    p.frequencyPenalty,
  ],
  [
    p.repetitionPenalty > 0,
    `repetition_penalty must be greater than zero, got ${p.repetitionPenalty}.`,
    'repetition_penalty',
    p.repetitionPenalty,
  ],
  [p.temperature >= 0, `temperature must be non-negative, got ${p.temperature}.`, 'temperature', p.temperature],
  [p.temperature <= 2, `temperature must be in [0, 2], got ${p.temperature}.`, 'temperature', p.temperature],
  [p.topP > 0 && p.topP <= 1, `top_p must be in (0, 1], got ${p.topP}.`, 'top_p', p.topP],
  [p.topK >= 0, `top_k must be 0 (disable), or at least 1, got ${p.topK}.`, 'top_k', p.topK],
  [p.minP >= 0 && p.minP <= 1, `min_p must be in [0, 1], got ${p.minP}.`, 'min_p', p.minP],
  [
    p.maxTokens === null || p.maxTokens >= 1,
    `max_tokens must be at least 1, got ${p.maxTokens}.`,
    'max_tokens',
    p.maxTokens,
  ],
  [p.minTokens >= 0, `min_tokens must be greater than or equal to 0, got ${p.minTokens}.`, 'min_tokens', p.minTokens],
  [
    p.maxTokens === null || p.minTokens <= p.maxTokens,
    `min_tokens must be less than or equal to max_tokens=${p.maxTokens}, got ${p.minTokens}.`,
    'min_tokens',
    p.minTokens,
  ],
  [!p.stop.includes(''), 'stop cannot contain an empty string.', 'stop', undefined],
  [p.temperature > 0 || p.n === 1, `n must be 1 when using greedy sampling, got ${p.n}.`, 'n', p.n],
  [
    p.allowedTokens === null || p.allowedTokens.length > 0,
    'allowed_token_ids is not None and empty!',
    'allowed_token_ids',
    undefined,
  ],
]

/** Returns the ids outside the vocabulary. */
const outOfVocabulary = (ids: Iterable<number>, info: EngineInfo): readonly number[] =>
  [...ids].filter((id) => id >= info.vocabularySize)

const vocabularyChecks = (p: Omit<SamplingParams, 'key'>, info: EngineInfo): readonly Check[] => {
  const lists: readonly (readonly [string, readonly number[]])[] = [
    ['logit_bias', outOfVocabulary(p.logitBias.keys(), info)],
    ['allowed_token_ids', outOfVocabulary(p.allowedTokens ?? [], info)],
    ['stop_token_ids', outOfVocabulary(p.stopTokens, info)],
  ]
  return lists.map(([param, ids]) => [
    ids.length === 0,
    `token_id(s) ${JSON.stringify(ids.slice(0, 10))} in ${param} contain out-of-vocab token ids. Vocabulary size: ${info.vocabularySize}`,
    param,
    undefined,
  ])
}

const checkAll = (checks: readonly Check[]): ApiFailure | undefined => {
  const failed = checks.find(([ok]) => !ok)
  return failed === undefined ? undefined : invalid(failed[1], failed[2], failed[3])
}

/**
 * Returns the number of reported alternatives, or null if none were requested. Checks the server's
 * limit.
 */
const alternatives = (
  request: number | null,
  kind: 'sample' | 'prompt',
  { maxLogProbs, info }: SamplingContext,
): E.Either<ApiFailure, number | null> => {
  const param = kind === 'sample' ? 'logprobs' : 'prompt_logprobs'
  if (request === null) return E.right(null)
  if (request < -1) return E.left(invalid(`\`${param}\` must be a positive value or -1.`, param, request))
  const count = request === -1 ? info.vocabularySize : request
  const most = maxLogProbs === -1 ? info.vocabularySize : maxLogProbs
  return count > most
    ? E.left(
        invalid(`Requested ${kind} logprobs of ${count}, which is greater than max allowed: ${most}`, param, request),
      )
    : E.right(count)
}

const biasOf = (fields: SamplingFields): E.Either<ApiFailure, ReadonlyMap<number, number>> => {
  const entries = Object.entries(fields.logit_bias ?? {})
  const wrong = entries.map(([id]) => id).filter((id) => !/^\d{1,10}$/.test(id))
  return wrong.length > 0
    ? E.left(
        invalid(
          `logit_bias contains key(s) that cannot be converted to integer token IDs: ${JSON.stringify(wrong.slice(0, 10))}`,
          'logit_bias',
        ),
      )
    : E.right(new Map(entries.map(([id, bias]) => [Number(id), Math.min(MAX_BIAS, Math.max(-MAX_BIAS, bias))])))
}

/** Returns the key of a seed, or `key`. Seeds may be negative, and -1 counts as no seed. */
export const requestKey = (seed: number | null | undefined, key: Key): Key => {
  if (seed === null || seed === undefined || seed === -1) return key
  const size = Math.abs(seed)
  const own = size <= Number.MAX_SAFE_INTEGER ? keyFromSeed(size) : child(keyFromSeed(size % 2 ** 32), `${size}`)
  return seed >= 0 ? own : child(own, 'negative')
}

const temperatureOf = (request: number | null | undefined): number => {
  const temperature = request ?? 1
  return temperature > 0 && temperature < MIN_TEMPERATURE ? MIN_TEMPERATURE : temperature
}

const unique = (ids: readonly number[] | null | undefined): readonly number[] => [...new Set(ids ?? [])]

/**
 * Returns the sampling parameters of a request, without its random key. Missing fields get vLLM's
 * defaults with `--generation-config vllm`; the model's folder does not affect them. Temperatures
 * between 0 and 0.01 become 0.01, -1 disables `top_k` and counts as no `seed`, biases are clipped
 * to ±100.
 *
 * Errors   `Left(ApiFailure)`, 400, that names the field, its value and its limits.
 */
export const requestedSampling = (
  fields: SamplingFields,
  context: SamplingContext,
): E.Either<ApiFailure, Omit<SamplingParams, 'key'>> => {
  const bias = biasOf(fields)
  if (E.isLeft(bias)) return bias
  const top = alternatives(context.logProbs, 'sample', context)
  if (E.isLeft(top)) return top
  const promptTop = alternatives(fields.prompt_logprobs ?? null, 'prompt', context)
  if (E.isLeft(promptTop)) return promptTop
  const { stop } = fields
  const isGreedy = temperatureOf(fields.temperature) === 0
  const topK = fields.top_k ?? 0
  const params: Omit<SamplingParams, 'key'> = {
    n: fields.n ?? 1,
    maxTokens: context.maxTokens,
    minTokens: fields.min_tokens ?? 0,
    temperature: temperatureOf(fields.temperature),
    topK: topK === -1 ? 0 : topK,
    topP: fields.top_p ?? 1,
    minP: fields.min_p ?? 0,
    repetitionPenalty: fields.repetition_penalty ?? 1,
    presencePenalty: fields.presence_penalty ?? 0,
    frequencyPenalty: fields.frequency_penalty ?? 0,
    logitBias: bias.right,
    allowedTokens: fields.allowed_token_ids ?? null,
    stop: typeof stop === 'string' ? [stop] : (stop ?? []),
    stopText: fields.include_stop_str_in_output === true ? 'include' : 'exclude',
    stopTokens: unique(fields.stop_token_ids),
    endTokens: fields.ignore_eos === true ? 'ignore' : 'stop',
    topLogProbs: top.right,
    promptLogProbs: promptTop.right,
    logProbsMode: context.logProbsMode,
  }
  const failed = checkAll([...valueChecks(params), ...vocabularyChecks(params, context.info)])
  if (failed !== undefined) return E.left(failed)
  return E.right(isGreedy ? { ...params, topK: 0, topP: 1, minP: 0 } : params)
}

/** Checks that the prompt is not empty, and that all its ids are in the vocabulary. */
export const checkPrompt = (prompt: Int32Array, info: EngineInfo): E.Either<ApiFailure, Int32Array> => {
  if (prompt.length === 0) return E.left(invalid('The prompt has no token.', 'prompt'))
  const wrong = prompt.find((id) => id < 0 || id >= info.vocabularySize)
  return wrong === undefined
    ? E.right(prompt)
    : E.left(invalid(`Token id ${wrong} is out of vocabulary`, 'prompt', wrong))
}

/**
 * Returns the number of tokens that a completion may have after its prompt. `null` for `asked`
 * means as many as there is room for.
 *
 * Errors   `Left(ApiFailure)`, 400 with vLLM's numbers, if prompt and completion do not fit the
 *          context.
 */
export const roomFor = (
  prompt: Int32Array,
  request: number | null,
  { maxModelLength }: EngineInfo,
): E.Either<ApiFailure, number> => {
  const room = maxModelLength - prompt.length
  const output = request ?? 0
  return room >= Math.max(output, 1)
    ? E.right(request ?? room)
    : E.left(
        apiFailure(
          400,
          `This model's maximum context length is ${maxModelLength} tokens. However, you requested ${output} output tokens and your prompt contains ` +
            `at least ${prompt.length} input tokens, for a total of at least ${prompt.length + output} tokens. Please reduce the length of ` +
            `the input prompt or the number of requested output tokens. (parameter=input_tokens, value=${prompt.length})`,
          'input_tokens',
        ),
      )
}

/**
 * Truncates a prompt to the requested number of tokens. -1: to the length that leaves room for the
 * completion.
 */
export const truncatePrompt = (
  prompt: Int32Array,
  { keep, side, room }: { readonly keep: number | null; readonly side: 'left' | 'right'; readonly room: number },
): Int32Array => {
  if (keep === null) return prompt
  const count = keep === -1 ? Math.max(room, 0) : keep
  if (prompt.length <= count) return prompt
  return side === 'left' ? prompt.slice(prompt.length - count) : prompt.slice(0, count)
}

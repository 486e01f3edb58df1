/** Sampling parameters: defaults and checks. */
import { keyFromSeed } from '@tandem-rl/base'
import type { GenerationFailure, SamplingParams } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'

/**
 * Defaults: one completion from the model's unchanged distribution, until an end token or the end
 * of the context.
 */
export const DEFAULT_SAMPLING: SamplingParams = {
  n: 1,
  maxTokens: null,
  minTokens: 0,
  temperature: 1,
  topK: 0,
  topP: 1,
  minP: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  logitBias: new Map(),
  allowedTokens: null,
  stop: [],
  stopText: 'exclude',
  stopTokens: [],
  endTokens: 'stop',
  key: keyFromSeed(0),
  topLogProbs: null,
  promptLogProbs: null,
  logProbsMode: 'raw',
}

/** Maximum number of completions of one request (vLLM's limit). */
const MAX_COMPLETIONS = 16384

/**
 * Smallest positive temperature, because logits lose precision below it. Lower ones are raised to
 * it, as in vLLM.
 */
const LEAST_TEMPERATURE = 0.01

/** The allowed values of a field, in words and as a check. */
interface Rule {
  readonly allowed: string
  readonly holds: (value: unknown) => boolean
}

const whole = (low: number, high = Number.MAX_SAFE_INTEGER): Rule => ({
  allowed: high === Number.MAX_SAFE_INTEGER ? `an integer of at least ${low}` : `an integer from ${low} to ${high}`,
  holds: (value) => typeof value === 'number' && Number.isSafeInteger(value) && value >= low && value <= high,
})

/** `interval` is the rest of the range in words, such as 'in (0, 1]'. */
const finite = (interval: string, holds: (value: number) => boolean): Rule => ({
  allowed: `a finite number ${interval}`,
  holds: (value) => typeof value === 'number' && Number.isFinite(value) && holds(value),
})

const between = (low: number, high: number): Rule =>
  finite(`in [${low}, ${high}]`, (value) => value >= low && value <= high)

const orNull = ({ allowed, holds }: Rule): Rule => ({
  allowed: `${allowed}, or null`,
  holds: (value) => value === null || holds(value),
})

const oneOf = (...names: readonly string[]): Rule => ({
  allowed: names.map((name) => `'${name}'`).join(' or '),
  holds: (value) => names.some((name) => name === value),
})

const listOf = (items: string, holds: (value: unknown) => boolean): Rule => ({
  allowed: `a list of ${items}`,
  holds: (value) => Array.isArray(value) && value.every(holds),
})

const isId = whole(0).holds

const isText = (value: unknown): boolean => typeof value === 'string' && value !== '' && !/\p{Surrogate}/u.test(value)

const isWord = whole(0, 0xffffffff).holds

const RULES: Readonly<Record<keyof SamplingParams, Rule>> = {
  n: whole(1, MAX_COMPLETIONS),
  maxTokens: orNull(whole(1)),
  minTokens: whole(0),
  temperature: finite('of at least 0', (value) => value >= 0),
  topK: { ...whole(-1), allowed: 'an integer of at least 1, or 0 or -1 for all tokens' },
  topP: finite('in (0, 1]', (value) => value > 0 && value <= 1),
  minP: between(0, 1),
  repetitionPenalty: finite('above 0', (value) => value > 0),
  presencePenalty: between(-2, 2),
  frequencyPenalty: between(-2, 2),
  logitBias: {
    allowed: 'a Map of token ids to finite numbers',
    holds: (value) =>
      value instanceof Map && Array.from(value).every(([id, bias]) => isId(id) && Number.isFinite(bias)),
  },
  allowedTokens: orNull({
    allowed: 'a list of token ids, not empty',
    holds: (value) => Array.isArray(value) && value.length > 0 && value.every(isId),
  }),
  stop: listOf('texts, none empty, of whole characters', isText),
  stopText: oneOf('exclude', 'include'),
  stopTokens: listOf('token ids', isId),
  endTokens: oneOf('stop', 'ignore'),
  key: {
    allowed: 'a Key',
    holds: (value) =>
      typeof value === 'object' &&
      value !== null &&
      '_tag' in value &&
      value._tag === 'Key' &&
      'high' in value &&
      isWord(value.high) &&
      'low' in value &&
      isWord(value.low),
  },
  topLogProbs: orNull(whole(0)),
  promptLogProbs: orNull(whole(0)),
  logProbsMode: oneOf('raw', 'tempered', 'processed'),
}

const SHOWN_ITEMS = 5
const SHOWN_UNITS = 60

/** Shortens any value except a list for a message. */
const shownItem = (value: unknown): string => {
  if (typeof value === 'string') {
    return JSON.stringify(value.length > SHOWN_UNITS ? `${value.slice(0, SHOWN_UNITS)}...` : value)
  }
  return (typeof value === 'object' && value !== null) || typeof value === 'function' ? 'an object' : String(value)
}

/** Shows the first entries of a list. */
const shownList = (list: readonly unknown[], show: (value: unknown) => string): string => {
  const rest = list.length > SHOWN_ITEMS ? ', ...' : ''
  return `[${list.slice(0, SHOWN_ITEMS).map(show).join(', ')}${rest}]`
}

/** Shows a value of any kind for a message, shortened. */
const shown = (value: unknown): string => {
  if (value instanceof Map) {
    return `Map ${shownList(
      Array.from(value, ([id, item]) => `${shownItem(id)} => ${shownItem(item)}`),
      String,
    )}`
  }
  return Array.isArray(value) ? shownList(value, shownItem) : shownItem(value)
}

const invalid = (problems: readonly string[]): E.Either<GenerationFailure, never> =>
  E.left({ _tag: 'GenerationFailure', kind: 'invalid', reason: problems.join('; ') })

const isField = (name: string): name is keyof SamplingParams => Object.hasOwn(RULES, name)

/** Returns the contradictions between fields that are valid by themselves. */
const conflicts = ({ n, temperature, minTokens, maxTokens }: SamplingParams): readonly string[] => [
  ...(n > 1 && temperature === 0 ? [`n must be 1 at temperature 0, where all completions are equal, got ${n}`] : []),
  ...(maxTokens !== null && minTokens > maxTokens
    ? [`minTokens must be at most maxTokens, which is ${maxTokens}, got ${minTokens}`]
    : []),
]

/**
 * Completes sampling parameters with `DEFAULT_SAMPLING` and checks everything that does not depend
 * on a model.
 *
 * A temperature above 0 and below 0.01 becomes 0.01; topK -1 becomes 0. The default key is that of
 * seed 0.
 *
 * Errors   `Left(GenerationFailure)` of kind `invalid` with every invalid field, its value and the
 *          allowed values. Unknown fields are invalid.
 * Effects  none.
 * Source   the limits of vLLM's `SamplingParams`, except that `maxTokens` is null by default and
 *          stop texts with incomplete characters are refused.
 *
 * @example
 * orThrow(samplingParams({ temperature: 0 })).topP // 1
 * samplingParams({ topP: 0 }).left.reason          // 'topP must be a finite number in (0, 1], got 0'
 */
export const samplingParams = (partial: Partial<SamplingParams>): E.Either<GenerationFailure, SamplingParams> => {
  const given = Object.entries(partial).filter(([, value]) => value !== undefined)
  const problems = given.flatMap(([name, value]) => {
    if (!isField(name)) return [`${name} is not a sampling parameter`]
    const { allowed, holds } = RULES[name]
    return holds(value) ? [] : [`${name} must be ${allowed}, got ${shown(value)}`]
  })
  if (problems.length > 0) return invalid(problems)
  const request: SamplingParams = { ...DEFAULT_SAMPLING, ...Object.fromEntries(given) }
  const params: SamplingParams = {
    ...request,
    topK: Math.max(request.topK, 0),
    temperature: request.temperature === 0 ? 0 : Math.max(request.temperature, LEAST_TEMPERATURE),
  }
  const between = conflicts(params)
  return between.length > 0 ? invalid(between) : E.right(params)
}

/** The properties of an engine that limit sampling parameters. */
export interface SamplingLimits {
  readonly vocabularySize: number
  readonly endTokens: readonly number[]
  /** `decoded` if completions are decoded. Stop strings need text. */
  readonly text: 'decoded' | 'absent'
}

const outside = (name: string, ids: Iterable<number>, vocabularySize: number): readonly string[] => {
  const wrong = Array.from(ids).filter((id) => id >= vocabularySize)
  if (wrong.length === 0) return []
  return [`${name} must have ids below the vocabulary size ${vocabularySize}, got ${shown(wrong)}`]
}

const tooMany = (name: string, count: number | null, vocabularySize: number): readonly string[] =>
  count !== null && count > vocabularySize
    ? [`${name} must be at most the vocabulary size ${vocabularySize}, got ${count}`]
    : []

/** Returns true if every allowed token would end a completion that must not end yet. */
const startsBanned = ({ minTokens, allowedTokens, stopTokens }: SamplingParams, limits: SamplingLimits): boolean => {
  if (minTokens === 0) return false
  const banned = new Set([...stopTokens, ...limits.endTokens])
  return allowedTokens === null
    ? Array.from(banned).filter((id) => id < limits.vocabularySize).length === limits.vocabularySize
    : allowedTokens.every((id) => banned.has(id))
}

/**
 * Checks sampling parameters against the model to be sampled.
 *
 * Errors   `Left(GenerationFailure)` of kind `invalid` with every problem: ids outside the
 *          vocabulary, more log-probabilities than tokens, stop strings without decoded text, and
 *          `minTokens` above 0 although all allowed tokens would end the completion.
 * Effects  none.
 *
 * @example
 * const limits = { vocabularySize: 8, endTokens: [7], text: 'absent' }
 * checkSampling(DEFAULT_SAMPLING, limits)                                      // right(DEFAULT_SAMPLING)
 * checkSampling({ ...DEFAULT_SAMPLING, stopTokens: [8] }, limits).left.reason  // 'stopTokens must have ids below the vocabulary size 8, got [8]'
 */
export const checkSampling = (
  params: SamplingParams,
  limits: SamplingLimits,
): E.Either<GenerationFailure, SamplingParams> => {
  const size = limits.vocabularySize
  const problems = [
    ...outside('logitBias', params.logitBias.keys(), size),
    ...outside('allowedTokens', params.allowedTokens ?? [], size),
    ...outside('stopTokens', params.stopTokens, size),
    ...tooMany('topLogProbs', params.topLogProbs, size),
    ...tooMany('promptLogProbs', params.promptLogProbs, size),
    ...(params.stop.length > 0 && limits.text === 'absent'
      ? [`stop must be empty, because the engine has no tokenizer, got ${shown(params.stop)}`]
      : []),
    ...(startsBanned(params, limits)
      ? [`minTokens must be 0, because every allowed token ends the completion, got ${params.minTokens}`]
      : []),
  ]
  return problems.length > 0 ? invalid(problems) : E.right(params)
}

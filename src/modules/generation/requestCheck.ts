/** Checks of requests before they run. */
import type { EngineInfo, GenerationFailure, GenerationRequest } from '@tandem-rl/text'
import { type Either, isLeft, left, right } from 'fp-ts/lib/Either.js'
import { checkSampling, type SamplingLimits, samplingParams } from './sampling/params.js'

/** The limits that requests are checked against. */
export interface RequestLimits {
  readonly info: EngineInfo
  /** `decoded` if the engine has a tokenizer. */
  readonly text: SamplingLimits['text']
}

/** Maximum number of invalid ids to list. */
const SHOWN = 5

const promptProblems = (prompt: unknown, { maxModelLength, vocabularySize }: EngineInfo): readonly string[] => {
  if (!(prompt instanceof Int32Array)) return ['prompt must be an Int32Array of token ids']
  if (prompt.length === 0) return ['prompt must have at least one token']
  if (prompt.length >= maxModelLength) {
    return [`prompt must leave room for one token below the engine's limit of ${maxModelLength}, got ${prompt.length}`]
  }
  const wrong = [...prompt.entries()].filter(([, id]) => id < 0 || id >= vocabularySize)
  if (wrong.length === 0) return []
  const listed = wrong.slice(0, SHOWN).map(([i, id]) => `${id} at ${i}`)
  return [
    `prompt must have ids from 0 to ${vocabularySize - 1}, got ${listed.join(', ')}${wrong.length > SHOWN ? ', ...' : ''}`,
  ]
}

/** Returns true if all completion numbers from this one on are valid for keys. */
const isFirst = (value: number): boolean => Number.isSafeInteger(value) && value >= 0 && value < 2 ** 52

const fieldProblems = ({ id, adapter, cacheSalt, firstCompletion = 0 }: GenerationRequest): readonly string[] => [
  ...(typeof id === 'string' && id !== '' ? [] : ['id must be a text, not empty']),
  ...(adapter === null || typeof adapter === 'string' ? [] : ['adapter must be a name or null']),
  ...(typeof cacheSalt === 'string' ? [] : ['cacheSalt must be a text']),
  ...(isFirst(firstCompletion)
    ? []
    : [`firstCompletion must be an integer from 0 to 2^52 - 1, got ${firstCompletion}`]),
]

/** Makes a failure of kind `invalid`. */
export const invalidRequest = (reason: string): GenerationFailure => ({
  _tag: 'GenerationFailure',
  kind: 'invalid',
  reason,
})

/**
 * Returns the request with completed sampling parameters and a copy of the prompt.
 *
 * Errors   `Left(GenerationFailure)` of kind `invalid` that lists all problems of the prompt and
 *          the sampling parameters.
 * Cost     O(T) for T prompt tokens.
 */
export const checkRequest = (
  request: GenerationRequest,
  { info, text }: RequestLimits,
): Either<GenerationFailure, GenerationRequest> => {
  const own = [...fieldProblems(request), ...promptProblems(request.prompt, info)]
  const completed = samplingParams(request.sampling)
  const sampling = isLeft(completed) ? completed : checkSampling(completed.right, { ...info, text })
  if (isLeft(sampling)) return left(invalidRequest([...own, sampling.left.reason].join('; ')))
  if (own.length > 0) return left(invalidRequest(own.join('; ')))
  return right({ ...request, prompt: request.prompt.slice(), sampling: sampling.right })
}

/** Converts an engine's answers to rows of an action, after checking them. */
import type { GeneratedToken, PromptLogProbs, SamplingParams } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { EngineAbilities } from '../../../data/engineClient.js'
import type { StopReason } from '../../../data/policy.js'
import type { GeneratedCompletion } from '../generateAll.js'

/** One row of an action. */
export interface ActionRow {
  readonly ids: Int32Array
  /** Nats. */
  readonly logProbs: Float32Array
  readonly stopReason: StopReason
  /** The version of the oldest token. */
  readonly version: number
  /** The version of each token. */
  readonly versions: Int32Array
}

/**
 * Treatment of completions with tokens of several weight versions. `refuse`: a failure. `oldest`:
 * the row gets the oldest version. `each`: the version of each token is recorded too
 * (`versions.response`).
 */
export type MixedVersions = 'refuse' | 'oldest' | 'each'

export interface RowRules {
  readonly sampling: SamplingParams
  readonly mixedVersions: MixedVersions
  readonly abilities: Pick<EngineAbilities, 'vocabularySize'>
}

/** vLLM writes -9999 for missing numbers, and as the lowest number. */
const NO_NUMBER = -9998

/** Returns the problem with a log-probability, or null. */
const logProbProblem = (value: number): string | null => {
  if (Number.isNaN(value)) return 'no log-probability'
  if (value > 0) return `the log-probability ${value}, which is above 0`
  return value <= NO_NUMBER ? `the log-probability ${value}, which engines write for missing numbers` : null
}

const tokenProblem = (token: GeneratedToken, t: number, { abilities }: RowRules): string | null => {
  const { id, version } = token
  if (!Number.isInteger(id) || id < 0 || id >= abilities.vocabularySize) {
    return `token ${t} has id ${id}, the vocabulary has ${abilities.vocabularySize} tokens`
  }
  if (!Number.isSafeInteger(version) || version < 0) return `token ${t} has version ${version}`
  const problem = logProbProblem(token.temperedLogProb)
  return problem === null ? null : `token ${t} has ${problem}`
}

const countProblem = (count: number, stopReason: StopReason, maxTokens: number | null): string | null => {
  if (count === 0) return 'a completion without tokens'
  if (maxTokens === null) return null
  if (count > maxTokens) return `${count} tokens although at most ${maxTokens} were requested`
  return stopReason === 'length' && count < maxTokens ? `an end by length after ${count} of ${maxTokens} tokens` : null
}

/**
 * Converts a completion to a row.
 *
 * Errors   `Left` for a completion that was aborted or failed, has no tokens, has too many tokens,
 *          ends by length too early, has ids outside the vocabulary, has log-probabilities that are
 *          NaN, above 0 or at most -9998, or has several versions although `mixedVersions` is
 *          `refuse`.
 */
export const actionRow = (
  { tokens, finishReason }: GeneratedCompletion,
  rules: RowRules,
): E.Either<string, ActionRow> => {
  if (finishReason === 'abort' || finishReason === 'error') return E.left(`a completion ended with '${finishReason}'`)
  const wrongCount = countProblem(tokens.length, finishReason, rules.sampling.maxTokens)
  if (wrongCount !== null) return E.left(`the engine gave ${wrongCount}`)
  for (const [t, token] of tokens.entries()) {
    const problem = tokenProblem(token, t, rules)
    if (problem !== null) return E.left(`the engine gave an invalid answer: ${problem}`)
  }
  const version = tokens.reduce((oldest, token) => Math.min(oldest, token.version), Number.POSITIVE_INFINITY)
  const newest = tokens.reduce((n, token) => Math.max(n, token.version), version)
  if (newest !== version && rules.mixedVersions === 'refuse') {
    return E.left(
      `the weights changed inside a completion, from version ${version} to ${newest}: let running requests end before ` +
        "(pause mode 'wait'), or set mixedVersions: 'oldest' or 'each'",
    )
  }
  return E.right({
    ids: Int32Array.from(tokens, ({ id }) => id),
    logProbs: Float32Array.from(tokens, ({ temperedLogProb }) => temperedLogProb),
    stopReason: finishReason,
    version,
    versions: Int32Array.from(tokens, (token) => token.version),
  })
}

/**
 * Returns the log-probabilities of a sequence's tokens, starting at `first`.
 *
 * Errors   `Left` if the number of positions or the ids differ from the sequence, or numbers are
 *          not log-probabilities.
 */
export const scoredRow = (
  logProbs: PromptLogProbs | null,
  sequence: Int32Array,
  first: number,
): E.Either<string, Float32Array> => {
  if (logProbs === null) return E.left('the engine gave no log-probabilities of the prompt')
  if (logProbs.length !== sequence.length) {
    return E.left(`the engine gave ${logProbs.length} log-probabilities for a prompt of ${sequence.length} tokens`)
  }
  const numbers = new Float32Array(sequence.length - first)
  for (let t = first; t < sequence.length; t++) {
    const place = logProbs[t] ?? null
    if (place === null) return E.left(`the engine gave no log-probability at place ${t} of the prompt`)
    if (place.id !== sequence[t])
      return E.left(`the engine scored id ${place.id} at place ${t}, but the request has ${sequence[t]}`)
    const problem = logProbProblem(place.logProb)
    if (problem !== null) return E.left(`the engine gave an invalid answer: place ${t} of the prompt has ${problem}`)
    numbers[t - first] = place.logProb
  }
  return E.right(numbers)
}

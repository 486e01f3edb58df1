/** Log-probabilities of a server's answers, and those that it cannot report. */
import type { GeneratedToken, LogProbsMode, PromptLogProbs, SamplingParams, TokenLogProb } from '@tandem-rl/text'
import { knownModes, type ServerLogProbs } from '../../generation/policy/knownModes.js'
import type { WireLogProb, WirePromptPlace, WireToken } from './wireAnswer.js'

/** Smallest valid log-probability. -9999 marks an excluded token or a missing number. */
const LEAST_LOG_PROB = -9998

/** Largest valid log-probability, allowing for rounding. Larger numbers are logits. */
const MOST_LOG_PROB = 0.01

/** Returns true if a number can be the log-probability of a sampled or given token. */
export const isLogProb = (value: number): boolean => value > LEAST_LOG_PROB && value <= MOST_LOG_PROB

/**
 * Returns why a server cannot report a request's alternatives or prompt log-probabilities, or null
 * if it can. Those of a prompt are raw in every mode, because no token is sampled.
 */
export const missingLogProbs = (server: ServerLogProbs, sampling: SamplingParams): string | null => {
  const { topLogProbs, promptLogProbs, logProbsMode: mode, temperature } = sampling
  if (topLogProbs !== null && !knownModes(server, sampling).has(mode)) {
    return `topLogProbs in the mode '${mode}' cannot be derived from the server's ${server} log-probabilities: start it with another --logprobs-mode, or leave topLogProbs out`
  }
  return promptLogProbs !== null && mode !== 'raw' && temperature !== 0 && temperature !== 1
    ? `promptLogProbs in the mode '${mode}' at temperature ${temperature}: the server reports only raw ones`
    : null
}

const byLogProb = (a: WireLogProb, b: WireLogProb): number => b.logProb - a.logProb

/**
 * Returns the `count` most probable of some tokens, with their ranks by order. The tokens must
 * contain the most probable ones.
 */
const mostProbable = (entries: readonly WireLogProb[], count: number): readonly TokenLogProb[] => {
  const unique = [...new Map(entries.map((entry) => [entry.id, entry])).values()]
  return unique
    .filter(({ logProb }) => logProb > LEAST_LOG_PROB)
    .sort((a, b) => (a.rank !== null && b.rank !== null ? a.rank - b.rank : byLogProb(a, b)))
    .slice(0, count)
    .map(({ id, logProb }, i) => ({ id, logProb, rank: i + 1 }))
}

/** Returns the token's rank: the server's, or its position among the alternatives, or 0. */
const rankOf = (token: WireToken, top: readonly TokenLogProb[]): number =>
  token.rank ?? top.find(({ id }) => id === token.id)?.rank ?? 0

/**
 * Makes a sampled token. Log-probabilities that are not reported and cannot be derived are NaN.
 */
export const generatedToken = (
  token: WireToken,
  modes: ReadonlySet<LogProbsMode>,
  { topLogProbs, version }: { readonly topLogProbs: number | null; readonly version: number },
): GeneratedToken => {
  const top = mostProbable([token, ...token.top], topLogProbs ?? 0)
  const known = (mode: LogProbsMode): number => (modes.has(mode) ? token.logProb : Number.NaN)
  return {
    id: token.id,
    rawLogProb: known('raw'),
    temperedLogProb: known('tempered'),
    processedLogProb: known('processed'),
    rank: topLogProbs === null ? 0 : rankOf(token, top),
    top,
    version,
  }
}

/**
 * Returns the log-probabilities of a prompt, or the problem with them: another length, a position
 * without its own token, an invalid number.
 */
export const readPromptLogProbs = (
  places: readonly WirePromptPlace[],
  prompt: Int32Array,
  count: number,
): PromptLogProbs | string => {
  if (places.length !== prompt.length) return `it has ${places.length} places for a prompt of ${prompt.length} tokens`
  if (places.length > 0 && places[0] !== null) return 'the first token of the prompt has a log-probability'
  const problem = places.findIndex((place, t) => t > 0 && !isLogProb(place?.get(prompt[t]!)?.logProb ?? Number.NaN))
  if (problem !== -1) return `place ${problem} of the prompt has no usable log-probability of token ${prompt[problem]}`
  return places.map((place, t) => {
    if (place === null) return null
    const id = prompt[t]!
    const entries = [...place].map(([other, { logProb, rank }]) => ({ id: other, logProb, rank }))
    const top = mostProbable(entries, count)
    const own = place.get(id)! // checked above
    return { id, logProb: own.logProb, rank: rankOf({ id, ...own, top: [] }, top), top }
  })
}

/** Which of a token's three log-probabilities follow from the one that a server tells. */
import type {
  GeneratedToken,
  LogProbsMode,
  PromptLogProbs,
  SamplingParams,
  TokenLogProb,
} from '../../../data/generation.js'
import type { WireLogProb, WirePromptPlace, WireToken } from './wireAnswer.js'

/** What a server takes log-probabilities from: `--logprobs-mode`. */
export type ServerLogProbs = 'raw' | 'processed'

/**
 * What any server takes them from: besides vLLM's, SGLang's, whose penalties, biases and banned ends come first. `edited`: after these, before
 * temperature. `tempered`: after temperature too, before cuts.
 */
export type KnownLogProbs = ServerLogProbs | 'edited' | 'tempered'

/** Least log-probability of a token that had a chance: -9999 stands for none, or for a number that is missing. */
const LEAST_LOG_PROB = -9998

/** Rounding may lift a log-probability a little above 0; what is higher is a logit. */
const MOST_LOG_PROB = 0.01

/** Whether a number can be the log-probability of a token that was sampled or given. */
export const isLogProb = (value: number): boolean => value > LEAST_LOG_PROB && value <= MOST_LOG_PROB

const hasEdits = (p: SamplingParams): boolean =>
  p.repetitionPenalty !== 1 ||
  p.presencePenalty !== 0 ||
  p.frequencyPenalty !== 0 ||
  p.logitBias.size > 0 ||
  p.allowedTokens !== null ||
  p.minTokens > 0

/** At temperature 0 nothing is cut. */
const hasCuts = ({ temperature, topK, topP, minP }: SamplingParams): boolean =>
  temperature > 0 && (topK > 0 || topP < 1 || minP > 0)

/** At temperature 0 logits are taken as they are. */
const isUnit = ({ temperature }: SamplingParams): boolean => temperature === 0 || temperature === 1

const MODES: readonly LogProbsMode[] = ['raw', 'tempered', 'processed']

/**
 * The modes whose numbers equal those that the server tells.
 *
 * @example
 * [...knownModes('raw', { ...DEFAULT_SAMPLING, temperature: 0.5 })] // ['raw']
 * [...knownModes('raw', DEFAULT_SAMPLING)]                          // ['raw', 'tempered', 'processed']
 */
export const knownModes = (server: KnownLogProbs, sampling: SamplingParams): ReadonlySet<LogProbsMode> => {
  const [edits, cuts, unit] = [hasEdits(sampling), hasCuts(sampling), isUnit(sampling)]
  const holds: Readonly<Record<KnownLogProbs, Readonly<Record<LogProbsMode, boolean>>>> = {
    raw: { raw: true, tempered: unit, processed: unit && !edits && !cuts },
    edited: { raw: !edits, tempered: unit && !edits, processed: unit && !cuts },
    tempered: { raw: unit && !edits, tempered: !edits, processed: !cuts },
    processed: { raw: unit && !edits && !cuts, tempered: !edits && !cuts, processed: true },
  }
  return new Set(MODES.filter((mode) => holds[server][mode]))
}

/**
 * Why a server cannot tell the alternatives or the prompt's log-probabilities of a request; null if it can. Those of a prompt are raw
 * whatever the server's mode: nothing is drawn there.
 */
export const missingLogProbs = (server: ServerLogProbs, sampling: SamplingParams): string | null => {
  const { topLogProbs, promptLogProbs, logProbsMode: mode, temperature } = sampling
  if (topLogProbs !== null && !knownModes(server, sampling).has(mode)) {
    return `topLogProbs in the mode '${mode}' does not follow from the ${server} log-probabilities that the server tells: start it with another --logprobs-mode, or leave topLogProbs out`
  }
  return promptLogProbs !== null && mode !== 'raw' && !isUnit(sampling)
    ? `promptLogProbs in the mode '${mode}' at temperature ${temperature}: the server tells them raw`
    : null
}

const byLogProb = (a: WireLogProb, b: WireLogProb): number => b.logProb - a.logProb

/** The `count` most probable of some tokens, which contain them; with ranks by their order. */
const mostProbable = (entries: readonly WireLogProb[], count: number): readonly TokenLogProb[] => {
  const unique = [...new Map(entries.map((entry) => [entry.id, entry])).values()]
  return unique
    .filter(({ logProb }) => logProb > LEAST_LOG_PROB)
    .sort((a, b) => (a.rank !== null && b.rank !== null ? a.rank - b.rank : byLogProb(a, b)))
    .slice(0, count)
    .map(({ id, logProb }, i) => ({ id, logProb, rank: i + 1 }))
}

/** The token's rank: the server's word, or its place among the alternatives; 0 where neither tells it. */
const rankOf = (token: WireToken, top: readonly TokenLogProb[]): number =>
  token.rank ?? top.find(({ id }) => id === token.id)?.rank ?? 0

/**
 * A sampled token with what is known about it. What the server does not tell, and does not follow from what it tells, is NaN.
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
 * The log-probabilities of a prompt, or what is wrong with them: another length, a place without its own token, a number that is none.
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

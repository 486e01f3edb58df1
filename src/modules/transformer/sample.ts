/** Choosing the next token from a row of log-probabilities. Pure functions on plain arrays. */

/** How tokens are chosen. Defaults: temperature 1, no truncation. */
export interface TokenChoice {
  /** 0 takes the most probable token; otherwise logits are divided by it. */
  readonly temperature: number
  /** Keep the k most probable tokens. */
  readonly topK?: number
  /** Keep the smallest set of most probable tokens whose probability reaches p. */
  readonly topP?: number
}

/** The id of the most probable token that is not banned; the first of equals. */
const argMax = (logProbs: Float32Array, banned: readonly number[]): number => {
  let best = -1
  for (let i = 0; i < logProbs.length; i++) {
    if ((best < 0 || logProbs[i]! > logProbs[best]!) && !banned.includes(i)) best = i
  }
  return best
}

/** Token ids that may be chosen, from most to least probable; ties in order of id. */
const ranked = (logProbs: Float32Array, banned: readonly number[]): Uint32Array =>
  Uint32Array.from(logProbs, (_, i) => i)
    .filter((id) => !banned.includes(id))
    .sort((a, b) => logProbs[b]! - logProbs[a]! || a - b)

/** How many of the ranked tokens survive top-k and top-p. At least one. */
const survivors = (logProbs: Float32Array, order: Uint32Array, choice: TokenChoice): number => {
  const limit = Math.max(1, Math.min(choice.topK ?? order.length, order.length))
  if (choice.topP === undefined) return limit
  let mass = 0
  for (let i = 0; i < limit; i++) {
    mass += Math.exp(logProbs[order[i]!]!)
    if (mass >= choice.topP) return i + 1
  }
  return limit
}

/** The token at `point`, a uniform number in [0, 1), of the distribution restricted to `candidates`. */
const pick = (logProbs: Float32Array, candidates: ArrayLike<number>, point: number): number => {
  let mass = 0
  for (let i = 0; i < candidates.length; i++) mass += Math.exp(logProbs[candidates[i]!]!)
  let rest = point * mass
  for (let i = 0; i < candidates.length; i++) {
    rest -= Math.exp(logProbs[candidates[i]!]!)
    if (rest < 0) return candidates[i]!
  }
  return candidates[candidates.length - 1]! // rounding left a crumb: the last one
}

/** Like `pick` over the whole vocabulary without the banned tokens: one pass, no sorting. */
const pickAny = (logProbs: Float32Array, banned: readonly number[], point: number): number => {
  let rest =
    point * [...new Set(banned)].reduce((mass, id) => mass - Math.exp(logProbs[id] ?? Number.NEGATIVE_INFINITY), 1)
  let last = 0
  for (let i = 0; i < logProbs.length; i++) {
    if (banned.includes(i)) continue
    const probability = Math.exp(logProbs[i]!)
    if (probability > 0) last = i
    rest -= probability
    if (rest < 0) return i
  }
  return last // rounding left a crumb: the last one
}

const NOTHING: readonly number[] = []

/**
 * Chooses a token by inverse transform sampling: equal arguments, equal choice.
 *
 * Shapes   logProbs `[V]`, normalized, at the temperature of `choice`; `point` uniform in [0, 1). The tokens of `banned` have no chance.
 *
 * @example
 * chooseToken(Float32Array.from([0.5, 0.5], Math.log), { temperature: 1 }, { point: 0.7 }) // 1
 */
export const chooseToken = (
  logProbs: Float32Array,
  choice: TokenChoice,
  draw: { readonly point: number; readonly banned?: readonly number[] },
): number => {
  const { point, banned = NOTHING } = draw
  if (choice.temperature === 0) return argMax(logProbs, banned)
  if (choice.topK === undefined && choice.topP === undefined) return pickAny(logProbs, banned, point)
  const order = ranked(logProbs, banned)
  return pick(logProbs, order.subarray(0, survivors(logProbs, order, choice)), point)
}

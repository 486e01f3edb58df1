/** Ranks and most probable tokens of a row, and log-probabilities of a prompt. */
import type { GenerationFailure, LogProbsMode, PromptLogProbs, PromptTokenLogProb, TokenLogProb } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { keep, keptIds, NO_CUTS } from './cuts.js'

/** Returns the index of the first of the largest logits, or -1 if all are -Infinity. */
export const argMaxOf = (logits: Float32Array): number => {
  let best = -1
  let most = Number.NEGATIVE_INFINITY
  for (let i = 0; i < logits.length; i++) {
    if (logits[i]! > most) {
      most = logits[i]!
      best = i
    }
  }
  return best
}

/**
 * Returns the number of tokens that are at least as probable as this one, including itself. Of
 * equal ones, those of lower ids count.
 *
 * Cost     O(V)
 *
 * @example
 * rankOf(Float32Array.of(1, 2, 2), 2) // 2
 */
export const rankOf = (logits: Float32Array, id: number): number => {
  const own = logits[id]!
  let rank = 1
  for (let i = 0; i < id; i++) if (logits[i]! >= own) rank++
  for (let i = id + 1; i < logits.length; i++) if (logits[i]! > own) rank++
  return rank
}

/**
 * Returns the `count` most probable tokens, most probable first, or fewer if fewer have a finite
 * logit.
 *
 * Shapes   logits `[V]`, no NaN; `max` is the largest.
 * Cost     O(V + count log count)
 *
 * @example
 * mostProbable(Float32Array.of(0, 2, 1), { count: 2, max: 2, logProbOf: (logit) => logit - 3 }).map(({ id }) => id) // [1, 2]
 */
export const mostProbable = (
  logits: Float32Array,
  options: { readonly count: number; readonly max: number; readonly logProbOf: (logit: number) => number },
): readonly TokenLogProb[] => {
  const { count, max, logProbOf } = options
  if (count === 0) return []
  const kept = keep(logits, { max, inverseTemperature: 1 }, { ...NO_CUTS, topK: count })
  return keptIds(logits, kept).map((id, i) => ({ id, logProb: logProbOf(logits[id]!), rank: i + 1 }))
}

/** Makes a failure for model outputs that cannot be sampled from. */
export const unusable = (reason: string): GenerationFailure => ({
  _tag: 'GenerationFailure',
  kind: 'internal',
  reason,
})

/**
 * Returns why logits are not a distribution, or null: the token of the first NaN or Infinity, or
 * the lack of a finite logit.
 *
 * Cost     O(V)
 *
 * @example
 * wrongLogits(Float32Array.of(0, Number.NaN)) // 'the model gave the logit NaN to token 1'
 */
export const wrongLogits = (logits: Float32Array): string | null => {
  const place = logits.findIndex((logit) => Number.isNaN(logit) || logit === Number.POSITIVE_INFINITY)
  if (place >= 0) return `the model gave the logit ${logits[place]} to token ${place}`
  return logits.some(Number.isFinite) ? null : 'the model excluded every token: every logit is -Infinity'
}

export interface PromptLogProbOptions {
  /** Number of most probable tokens to report at each position. */
  readonly top: number
  /**
   * `raw`: of the logits. Otherwise: of logits / temperature, without cuts, because no token is
   * sampled.
   */
  readonly mode: LogProbsMode
  /** 0 counts as 1. */
  readonly temperature: number
}

/** Returns one token's log-probability, or the problem with its logits. */
const tokenLogProb = (
  logits: Float32Array,
  id: number,
  { top, mode, temperature }: PromptLogProbOptions,
): E.Either<string, PromptTokenLogProb> => {
  const wrong = wrongLogits(logits)
  if (wrong !== null) return E.left(wrong)
  const inverseTemperature = mode === 'raw' || temperature === 0 ? 1 : 1 / temperature
  const max = logits[argMaxOf(logits)]!
  const logMass = Math.log(keep(logits, { max, inverseTemperature }, NO_CUTS).mass)
  const logProbOf = (logit: number): number => (logit - max) * inverseTemperature - logMass
  return E.right({
    id,
    logProb: logProbOf(logits[id]!),
    rank: rankOf(logits, id),
    top: mostProbable(logits, { count: top, max, logProbOf }),
  })
}

/**
 * Computes log-probabilities of tokens from the preceding rows of logits, for a piece of a prompt.
 *
 * Shapes   logits `[T, V]` row-major, ids `[T]`: row t is the model's output before `ids[t]`. Nats.
 * Errors   `Left(GenerationFailure)` of kind `internal` that names row and token of a logit that is
 *          NaN or Infinity. Throws RangeError unless there is one row of logits per id.
 * Cost     O(T V)
 *
 * @example
 * const options = { top: 0, mode: 'raw', temperature: 1 }
 * orThrow(tokenLogProbs(Float32Array.of(0, 0), [1], options))[0].rank // 2
 */
export const tokenLogProbs = (
  logits: Float32Array,
  ids: ArrayLike<number>,
  options: PromptLogProbOptions,
): E.Either<GenerationFailure, readonly PromptTokenLogProb[]> => {
  const width = ids.length === 0 ? 0 : logits.length / ids.length
  if (!Number.isInteger(width) || width * ids.length !== logits.length) {
    throw new RangeError(`tokenLogProbs: ${logits.length} logits are not a row for each of ${ids.length} tokens`)
  }
  const result: PromptTokenLogProb[] = []
  for (let t = 0; t < ids.length; t++) {
    const row = tokenLogProb(logits.subarray(t * width, (t + 1) * width), ids[t]!, options)
    if (E.isLeft(row)) return E.left(unusable(`${row.left}, at row ${t}`))
    result.push(row.right)
  }
  return E.right(result)
}

/**
 * Computes log-probabilities of a whole prompt. The first token has none, so its entry is null.
 *
 * Shapes   logits `[T, V]` row-major: the model's output after each token of `prompt` `[T]`,
 *          `T >= 1`; the last row is not read. Nats.
 * Errors   those of `tokenLogProbs`.
 * Cost     O(T V)
 * Source   vLLM's `prompt_logprobs`; a rank counts equal logits of lower ids only.
 *
 * @example
 * const options = { top: 1, mode: 'raw', temperature: 1 }
 * orThrow(promptLogProbs(Float32Array.of(0, 0, 0, 0), [0, 1], options))[0] // null
 */
export const promptLogProbs = (
  logits: Float32Array,
  prompt: ArrayLike<number>,
  options: PromptLogProbOptions,
): E.Either<GenerationFailure, PromptLogProbs> => {
  const width = logits.length / prompt.length
  const rest = Array.from(prompt).slice(1)
  return E.map((rows: readonly PromptTokenLogProb[]): PromptLogProbs => [null, ...rows])(
    tokenLogProbs(logits.subarray(0, logits.length - width), rest, options),
  )
}

/** Changes of single logits before sampling: bans, allowed tokens, biases, penalties. */
import type { SamplingParams } from '@tandem-rl/text'
import type { TokenCounts } from './counts.js'

/** The counts and bans that the changes depend on, in addition to the parameters. */
export interface EditContext {
  readonly promptCounts: TokenCounts
  readonly outputCounts: TokenCounts
  /** Token ids that must not be sampled. */
  readonly banned: readonly number[]
}

const hasPenalty = (params: SamplingParams, { promptCounts, outputCounts }: EditContext): boolean => {
  const counting = params.presencePenalty !== 0 || params.frequencyPenalty !== 0
  const seen = outputCounts.size > 0
  return (seen && counting) || (params.repetitionPenalty !== 1 && (seen || promptCounts.size > 0))
}

/** Returns true if anything except bans changes a logit. */
export const hasEdits = (params: SamplingParams, context: EditContext): boolean =>
  params.logitBias.size > 0 || params.allowedTokens !== null || hasPenalty(params, context)

const onlyAllowed = (logits: Float32Array, allowed: readonly number[] | null): Float32Array => {
  if (allowed === null) return logits.slice()
  const result = new Float32Array(logits.length).fill(Number.NEGATIVE_INFINITY)
  for (const id of allowed) result[id] = logits[id]!
  return result
}

/** Divides positive logits and multiplies negative ones. */
const repeat = (logits: Float32Array, id: number, penalty: number): void => {
  const logit = logits[id]!
  logits[id] = logit > 0 ? logit / penalty : logit * penalty
}

/** Applies penalties to `logits` in place. The array must not be shared. */
const penalize = (logits: Float32Array, params: SamplingParams, { promptCounts, outputCounts }: EditContext): void => {
  const { repetitionPenalty, presencePenalty, frequencyPenalty } = params
  if (repetitionPenalty !== 1) {
    for (const id of promptCounts.keys()) repeat(logits, id, repetitionPenalty)
    for (const id of outputCounts.keys()) if (!promptCounts.has(id)) repeat(logits, id, repetitionPenalty)
  }
  if (presencePenalty === 0 && frequencyPenalty === 0) return
  for (const [id, count] of outputCounts) logits[id]! -= frequencyPenalty * count + presencePenalty
}

/**
 * Returns the logits after bans, allowed tokens, biases and penalties, as a new array rounded to
 * float32 as in vLLM.
 *
 * Shapes   logits and the result `[V]`; excluded tokens have -Infinity.
 * Cost     O(V) for the copy, plus the number of changed tokens.
 * Source   vLLM's logits processors: bias, then repetition penalty, then frequency and presence
 *          penalty.
 *
 * @example
 * const context = { promptCounts: countTokens([]), outputCounts: countTokens([1]), banned: [0] }
 * editLogits(Float32Array.of(3, 2, 1), { ...DEFAULT_SAMPLING, presencePenalty: 0.5 }, context) // [-Infinity, 1.5, 1]
 */
export const editLogits = (logits: Float32Array, params: SamplingParams, context: EditContext): Float32Array => {
  const result = onlyAllowed(logits, params.allowedTokens)
  for (const id of context.banned) result[id] = Number.NEGATIVE_INFINITY
  for (const [id, bias] of params.logitBias) result[id]! += bias
  penalize(result, params, context)
  return result
}

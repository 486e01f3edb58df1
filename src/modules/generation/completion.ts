/** The sampling of one completion: the pure functions of `sampling` with their state. */
import { child } from '@tandem-rl/base'
import type { DecodeState, GenerationRequest } from '@tandem-rl/text'
import { map } from 'fp-ts/lib/Either.js'
import { addToken, countTokens } from './sampling/counts.js'
import { type SampledToken, sampleToken } from './sampling/sampleToken.js'
import { bannedTokens, readEnd, readTokens, type StopRules, stopTracker } from './sampling/stopTracker.js'
import type { CompletionSampler } from './ticket.js'

/** The settings of one completion. */
export interface CompletionSettings {
  /** Index of the completion in the request. */
  readonly index: number
  /** Maximum number of tokens to sample. */
  readonly maxTokens: number
  readonly endTokens: readonly number[]
  /** `null` for completions without text. */
  readonly decoding: DecodeState | null
}

/**
 * Starts completion `index` of a request. It draws from `child(key, firstCompletion + index)`.
 *
 * Effects  a mutable value that keeps the sampled tokens.
 * Cost     counts the prompt's tokens only if a penalty needs them.
 */
export const startCompletion = (request: GenerationRequest, settings: CompletionSettings): CompletionSampler => {
  const { sampling } = request
  const { index, ...limits } = settings
  const rules: StopRules = { sampling, ...limits }
  const key = child(sampling.key, (request.firstCompletion ?? 0) + index)
  const promptCounts = sampling.repetitionPenalty === 1 ? new Map() : countTokens(request.prompt)
  const outputCounts = countTokens([])
  let state = stopTracker(rules)
  return {
    next: (scores, version) => {
      const step = state.count
      const banned = bannedTokens(rules, step)
      return map((token: SampledToken) => {
        addToken(outputCounts, token.id)
        const [after, { text, finish }] = readTokens(state, [token.id])
        state = after
        return { token: { ...token, version }, text, finish }
      })(sampleToken(scores, sampling, { promptCounts, outputCounts, banned, key, step }))
    },
    rest: () => readEnd(state).text,
  }
}

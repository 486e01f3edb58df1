/** Complete answers of an engine, for callers that do not stream. */
import type {
  FinishReason,
  GeneratedToken,
  GenerationEvent,
  GenerationFailure,
  GenerationRequest,
  LLMEngine,
  PromptLogProbs,
} from '@tandem-rl/text'
import { type Either, left, right } from 'fp-ts/lib/Either.js'

/** One completion, from its first token to its last. */
export interface GeneratedCompletion {
  readonly tokens: readonly GeneratedToken[]
  readonly text: string
  readonly finishReason: FinishReason
  readonly stopReason: string | number | null
}

/** The complete result of a request. */
export interface Generated {
  /** The completions by index. */
  readonly completions: readonly GeneratedCompletion[]
  /** 0 for a request that ended before it started. */
  readonly cachedTokens: number
  readonly promptLogProbs: PromptLogProbs | null
}

const broken = (kind: GenerationFailure['kind'], reason: string): Either<GenerationFailure, never> =>
  left({ _tag: 'GenerationFailure', kind, reason })

/**
 * Collects the events of one request. Partial results of a failed stream are dropped.
 *
 * Errors   `Left` with the engine's failure; of kind `internal` if the stream ends too early, and
 *          of kind `protocol` for an event of a completion that was not requested or has ended.
 */
export const collectEvents = async (
  events: AsyncIterable<GenerationEvent>,
  count: number,
): Promise<Either<GenerationFailure, Generated>> => {
  const parts = Array.from({ length: count }, () => ({
    tokens: [] as GeneratedToken[], // grows with the events
    text: [] as string[], // likewise
    finish: null as Pick<GeneratedCompletion, 'finishReason' | 'stopReason'> | null, // until its last event
  }))
  let [cachedTokens, promptLogProbs]: [number, PromptLogProbs | null] = [0, null]
  for await (const event of events) {
    if ('index' in event && parts[event.index]?.finish !== null) {
      return broken(
        'protocol',
        `the engine sent an event of completion ${event.index} of ${count}, which does not exist or has ended`,
      )
    }
    switch (event._tag) {
      case 'Started':
        ;({ cachedTokens, promptLogProbs } = event)
        break
      case 'Tokens':
        for (const token of event.tokens) parts[event.index]!.tokens.push(token)
        parts[event.index]!.text.push(event.text)
        break
      case 'Finished':
        parts[event.index]!.finish = { finishReason: event.finishReason, stopReason: event.stopReason }
        break
      case 'Failed':
        return left(event.failure)
    }
  }
  const completions = parts.flatMap(({ tokens, text, finish }) =>
    finish === null ? [] : [{ tokens, text: text.join(''), ...finish }],
  )
  return completions.length === count
    ? right({ completions, cachedTokens, promptLogProbs })
    : broken('internal', 'the stream of the engine ended before all completions did')
}

/**
 * Generates the completions of all requests together, and waits for all of them.
 *
 * Errors   a `Left` for each failed request; the others are not affected. Never rejects.
 */
export const generateAll = (
  engine: Pick<LLMEngine, 'generate'>,
  requests: readonly GenerationRequest[],
  options: { readonly signal?: AbortSignal } = {},
): Promise<readonly Either<GenerationFailure, Generated>[]> =>
  Promise.all(requests.map((request) => collectEvents(engine.generate(request, options), request.sampling.n)))

/** An engine that reports the tokens it sampled. */
import { formatKey } from '@tandem-rl/base'
import type {
  CapturedSampling,
  FinishReason,
  GeneratedToken,
  GenerationEvent,
  GenerationRequest,
  LLMEngine,
  SamplingParams,
} from '@tandem-rl/text'

/** A completion as it came out of the engine. */
export interface RecordedCompletion {
  readonly tokens: readonly GeneratedToken[]
  readonly text: string
  /** Null if its end never came. */
  readonly finishReason: FinishReason | null
  readonly stopReason: string | number | null
}

/** A request that has ended, in whatever way. */
export interface RecordedGeneration {
  readonly request: GenerationRequest
  /** One for each of the `n` that were asked for. */
  readonly completions: readonly RecordedCompletion[]
  /** The engine's failure, if any. */
  readonly failure: string | null
}

interface Growing {
  readonly tokens: GeneratedToken[]
  text: string
  finishReason: FinishReason | null
  stopReason: string | number | null
}

const grow = (completions: readonly Growing[], event: GenerationEvent): void => {
  if (event._tag !== 'Tokens' && event._tag !== 'Finished') return
  const completion = completions[event.index]!
  if (event._tag === 'Tokens') {
    for (const token of event.tokens) completion.tokens.push(token)
    completion.text += event.text
  } else {
    completion.finishReason = event.finishReason
    completion.stopReason = event.stopReason
  }
}

/** Returns true for the last event of a request. */
const isLast = (event: GenerationEvent, completions: readonly Growing[]): boolean =>
  event._tag === 'Failed' || completions.every(({ finishReason }) => finishReason !== null)

/**
 * Wraps an engine so that `onEnd` is called once for each request when it has ended: finished,
 * failed, or abandoned by its reader. The last event of a request is passed on after `onEnd` has
 * resolved, so a client that has seen the end of a completion can rely on its record.
 *
 * Errors   a rejection of `onEnd` ends the stream of the request.
 * Effects  those of the engine; it holds the tokens of running requests.
 */
export const recordingEngine = (
  engine: LLMEngine,
  onEnd: (record: RecordedGeneration) => Promise<void>,
): LLMEngine => ({
  ...engine,
  async *generate(request, options) {
    const completions = Array.from(
      { length: request.sampling.n },
      (): Growing => ({ tokens: [], text: '', finishReason: null, stopReason: null }),
    )
    let isReported = false
    const report = async (failure: string | null): Promise<void> => {
      if (isReported) return
      isReported = true
      await onEnd({ request, completions, failure })
    }
    try {
      for await (const event of engine.generate(request, options)) {
        grow(completions, event)
        if (isLast(event, completions)) await report(event._tag === 'Failed' ? event.failure.reason : null)
        yield event
      }
    } finally {
      await report(null)
    }
  },
})

/** Sampling as JSON: the bias of tokens as pairs, no key. */
export const samplingJson = (sampling: SamplingParams): CapturedSampling => {
  const { n, key, logitBias, topLogProbs, promptLogProbs, logProbsMode, stopText, ...rest } = sampling
  return { ...rest, key: formatKey(key), logitBias: [...logitBias] }
}

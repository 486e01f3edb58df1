/**
 * An engine that answers with the events that a test writes down: right ones, wrong ones, or none
 * at all.
 */
import type { FinishReason, GeneratedToken, GenerationEvent, GenerationRequest } from '@tandem-rl/text'
import { right } from 'fp-ts/lib/Either.js'
import type { EngineAbilities, EngineClient } from '../../src/data/engineClient.js'

const EVENT_ABILITIES: EngineAbilities = {
  maxModelLength: 32,
  vocabularySize: 100,
  maxConcurrent: 8,
  endTokens: [0],
  server: 'events',
  logProbs: 'all',
  promptLogProbs: 'yes',
  stamps: 'yes',
  updates: [],
  control: 'no',
}

/** A token with everything that it must have. */
export const tokenOf = (id: number, changes: Partial<GeneratedToken> = {}): GeneratedToken => ({
  ...{ id, rawLogProb: -1, temperedLogProb: -1, processedLogProb: -1, rank: 1, top: [], version: 0 },
  ...changes,
})

export const started: GenerationEvent = { _tag: 'Started', cachedTokens: 0, promptLogProbs: null }

export const tokensOf = (index: number, tokens: readonly GeneratedToken[]): GenerationEvent => ({
  ...{ _tag: 'Tokens', index, tokens, text: '' },
})

export const finished = (index: number, finishReason: FinishReason = 'stop'): GenerationEvent => ({
  ...{ _tag: 'Finished', index, finishReason, stopReason: null },
})

/** The event of a successful completion: one token. */
export const goodEvents = ({ sampling: { n } }: GenerationRequest): readonly GenerationEvent[] => [
  started,
  ...Array.from({ length: n }, (_, i) => [tokensOf(i, [tokenOf(7)]), finished(i)]).flat(),
]

/** Nothing follows, whether or not the signal aborts. */
export const HANG = 'hang'

/** A client that answers with events, `HANG` among them, and throws for an error. */
export interface EventEngine extends Pick<EngineClient, 'name' | 'connect' | 'generate'> {
  readonly seen: readonly GenerationRequest[]
  /** Requests whose stream is being read. */
  readonly open: () => number
  /** Requests whose signal was aborted. */
  readonly aborted: () => number
}

export const eventEngine = (
  answer: (request: GenerationRequest, nth: number) => readonly (GenerationEvent | typeof HANG | Error)[],
  abilities: Partial<EngineAbilities> = {},
): EventEngine => {
  const seen: GenerationRequest[] = []
  let [open, aborted] = [0, 0]
  async function* events(request: GenerationRequest): AsyncGenerator<GenerationEvent> {
    open++
    try {
      for (const event of answer(request, seen.push(request))) {
        if (event === HANG) await new Promise(() => {})
        else if (event instanceof Error) throw event
        else yield event
      }
    } finally {
      open--
    }
  }
  return {
    name: 'events',
    seen,
    open: () => open,
    aborted: () => aborted,
    connect: async () => right({ ...EVENT_ABILITIES, ...abilities }),
    generate: (request, { signal } = {}) => {
      signal?.addEventListener('abort', () => aborted++)
      return events(request)
    },
  }
}

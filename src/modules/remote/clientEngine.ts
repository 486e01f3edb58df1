/**
 * An engine behind a wire in the place of one in this process: it samples, and leaves control to
 * the owner of the client.
 */
import {
  type DecodeState,
  decodeEnd,
  decodeNext,
  type EngineMetrics,
  type GenerationEvent,
  type GenerationRequest,
  type Histogram,
  type LLMEngine,
  type SamplingParams,
  type TextTokenizer,
  type WeightFailure,
} from '@tandem-rl/text'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { EngineAbilities, EngineClient } from '../../data/engineClient.js'

const NONE: Histogram = { bounds: [], counts: [], sum: 0, count: 0 }

/** A client knows how many of its requests run, and no more. */
const metricsOf = (running: number): EngineMetrics => ({
  running,
  waiting: 0,
  cacheUsage: 0,
  cacheBytes: 0,
  prefixQueries: 0,
  prefixHits: 0,
  promptTokens: 0,
  generatedTokens: 0,
  preemptions: 0,
  finished: { stop: 0, length: 0, abort: 0, error: 0 },
  timeToFirstToken: NONE,
  interTokenLatency: NONE,
  queueTime: NONE,
  endToEnd: NONE,
})

/**
 * The text of a completion so far: the part that was emitted, and the part that a stop string may
 * still cut.
 */
interface Writing {
  readonly decoding: DecodeState
  readonly held: string
}

/** Returns the text to emit at the end: up to the stop string, or all of it. */
const lastText = (
  { decoding, held }: Writing,
  { stopText }: SamplingParams,
  stopReason: string | number | null,
): string => {
  const text = held + decodeEnd(decoding)
  const at = typeof stopReason === 'string' ? text.indexOf(stopReason) : -1
  if (at === -1) return text
  return text.slice(0, at + (stopText === 'include' ? String(stopReason).length : 0))
}

/**
 * Adds the text of their tokens to events. It is decoded here, because not all servers return it,
 * and those that do decode differently.
 */
async function* withText(
  events: AsyncIterable<GenerationEvent>,
  sampling: SamplingParams,
  start: DecodeState,
): AsyncGenerator<GenerationEvent> {
  const most = sampling.stop.reduce((n, { length }) => Math.max(n, length - 1), 0)
  const writings = new Map<number, Writing>()
  for await (const event of events) {
    if (event._tag === 'Tokens') {
      const { decoding, held } = writings.get(event.index) ?? { decoding: start, held: '' }
      const [next, more] = decodeNext(
        decoding,
        event.tokens.map(({ id }) => id),
      )
      // A stop string ends in the newest text, and begins at most so many characters before it.
      const certain = sampling.stop.length === 0 ? held.length + more.length : Math.max(0, held.length - most)
      writings.set(event.index, { decoding: next, held: (held + more).slice(certain) })
      yield { ...event, text: (held + more).slice(0, certain) }
    } else if (event._tag === 'Finished') {
      const text = lastText(writings.get(event.index) ?? { decoding: start, held: '' }, sampling, event.stopReason)
      if (text !== '') yield { _tag: 'Tokens', index: event.index, tokens: [], text }
      yield event
    } else yield event
  }
}

/**
 * Requests to stop at the model's end tokens too, which may be more than the server knows of its
 * own. That a completion ended with one of them is not a stop reason, as in an engine here.
 */
async function* stoppingAt(
  client: EngineClient,
  request: GenerationRequest,
  { endTokens, signal }: { readonly endTokens: readonly number[]; readonly signal: AbortSignal | undefined },
): AsyncGenerator<GenerationEvent> {
  const { sampling } = request
  const added = sampling.endTokens === 'ignore' ? [] : endTokens.filter((id) => !sampling.stopTokens.includes(id))
  const stopTokens = [...sampling.stopTokens, ...added]
  for await (const event of client.generate(
    { ...request, sampling: { ...sampling, stopTokens } },
    { ...(signal && { signal }) },
  )) {
    const isEnd = event._tag === 'Finished' && typeof event.stopReason === 'number' && added.includes(event.stopReason)
    yield isEnd ? { ...event, stopReason: null } : event
  }
}

/**
 * The engine of a client that is connected. Requests go to it; its weights, adapters and pauses are
 * its owner's: those calls are refused.
 *
 * Errors   `version` rejects while the server does not answer; control that gives no `Either`
 *          rejects.
 * Effects  those of the client's requests. `close` closes the client.
 */
export const clientEngine = (
  client: EngineClient,
  { maxModelLength, vocabularySize, maxConcurrent, endTokens }: EngineAbilities,
  { tokenizer }: { readonly tokenizer: TextTokenizer },
): LLMEngine => {
  const reason = `${client.name} is controlled by whoever updates it, not from here`
  const refuse = async (): Promise<never> => {
    throw new Error(reason)
  }
  const refused = TE.left<WeightFailure>({ _tag: 'WeightFailure', receiver: client.name, reason })
  return {
    info: { maxModelLength, vocabularySize, maxConcurrent, endTokens },
    generate: (request, { signal } = {}) =>
      withText(stoppingAt(client, request, { endTokens, signal }), request.sampling, tokenizer.decodeStart('skip')),
    abort: async (ids) => {
      const aborted = await client.abort(ids)()
      if (aborted._tag === 'Left') throw new Error(aborted.left.reason)
      return aborted.right
    },
    pause: refuse,
    resume: refuse,
    isPaused: refuse,
    resetPrefixCache: refuse,
    loadAdapter: () => refused,
    unloadAdapter: () => refused,
    loadWeights: () => refused,
    adapters: async () => [],
    version: async () => {
      const alive = await client.health()
      if (alive._tag === 'Left') throw new Error(alive.left.reason)
      return client.serving().version
    },
    metrics: async () => metricsOf(client.inFlight()),
    close: () => client.close(),
  }
}

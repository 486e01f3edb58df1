/**
 * Shared parts of the cases of `engineSuite`: requests, ways to read a stream, and the output that
 * the model must have.
 */
import { keyFromSeed } from '@tandem-rl/base'
import { requireLeft, requireRight } from '@tandem-rl/testing'
import type {
  AdapterWeights,
  GenerationEvent,
  GenerationFailure,
  GenerationRequest,
  LLMEngine,
  SamplingParams,
  WeightSource,
} from '@tandem-rl/text'
import { expect } from 'vitest'
import { type Generated, generateAll } from '../../src/modules/generation/generateAll.js'
import { DEFAULT_SAMPLING } from '../../src/modules/generation/sampling/params.js'

/** The weights that sample. */
export interface SuiteWeights {
  readonly base: 'first' | 'second'
  readonly adapter: 'none' | 'loaded'
}

/** The model under test: at least 16 tokens and 128 positions. */
export interface SuiteModel {
  /** Scores after `tokens`, computed by other means than the engine. `[V]` */
  readonly logits: (tokens: readonly number[], weights: SuiteWeights) => Float32Array
  /** Other base weights, to be loaded. */
  readonly second: WeightSource
  /** Weights that must be refused. */
  readonly broken: WeightSource
  readonly adapter: AdapterWeights
  /** The tolerance for log-probabilities, compared with those of `logits`, in nats. */
  readonly tolerance: number
  /** The text of ids; null if the engine has no tokenizer. */
  readonly decode: ((ids: readonly number[]) => string) | null
  /** Keys and values that are shared: tokens of a block; 0 if the engine has no prefix cache. */
  readonly cacheBlock: number
}

/** An engine that serves version 1 of the first weights, and its model. */
export interface SuiteEngine {
  readonly engine: LLMEngine
  readonly model: SuiteModel
}

/** The initial weights of an engine. */
export const FIRST: SuiteWeights = { base: 'first', adapter: 'none' }

let names = 0

/** A request with a name of its own. */
export const requestOf = (
  prompt: readonly number[],
  sampling: Partial<SamplingParams> = {},
  rest: Partial<GenerationRequest> = {},
): GenerationRequest => ({
  id: `request ${names++}`,
  prompt: Int32Array.from(prompt),
  sampling: { ...DEFAULT_SAMPLING, key: keyFromSeed(5), maxTokens: 8, endTokens: 'ignore', ...sampling },
  adapter: null,
  cacheSalt: '',
  ...rest,
})

/** Reads a stream that must not fail. */
export const answer = async (engine: LLMEngine, request: GenerationRequest): Promise<Generated> =>
  requireRight((await generateAll(engine, [request]))[0]!)

/** Why a request fails that must. */
export const refusal = async (engine: LLMEngine, request: GenerationRequest): Promise<GenerationFailure> =>
  requireLeft((await generateAll(engine, [request]))[0]!)

/** The ids of a completion. */
export const idsOf = ({ completions }: Generated, index = 0): readonly number[] =>
  completions[index]!.tokens.map(({ id }) => id)

/** Log-probabilities of scores at a temperature. `[V]`, nats. */
export const logSoftmax = (logits: Float32Array, temperature: number): readonly number[] => {
  const scaled = Array.from(logits, (x) => x / temperature)
  const max = Math.max(...scaled)
  const normalizer = max + Math.log(scaled.reduce((sum, x) => sum + Math.exp(x - max), 0))
  return scaled.map((x) => x - normalizer)
}

/** The default request. */
export const PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]

/** Checks the log-probabilities of a completion against the model. */
export const expectLogProbs = (
  {
    model,
    prompt,
    temperature,
  }: { readonly model: SuiteModel; readonly prompt: readonly number[]; readonly temperature: number },
  generated: Generated,
  weights: SuiteWeights,
): void => {
  for (const { tokens } of generated.completions) {
    const before = [...prompt]
    for (const { id, rawLogProb, temperedLogProb } of tokens) {
      const logits = model.logits(before, weights)
      expect(Math.abs(rawLogProb - logSoftmax(logits, 1)[id]!)).toBeLessThanOrEqual(model.tolerance)
      expect(Math.abs(temperedLogProb - logSoftmax(logits, temperature)[id]!)).toBeLessThanOrEqual(model.tolerance)
      before.push(id)
    }
  }
}

/** Checks that each token is the most probable one, or as probable as rounding can tell. */
export const expectGreedy = (model: SuiteModel, generated: Generated, weights: SuiteWeights): void => {
  const before = [...PROMPT]
  for (const id of idsOf(generated)) {
    const logProbs = logSoftmax(model.logits(before, weights), 1)
    expect(Math.max(...logProbs) - logProbs[id]!).toBeLessThanOrEqual(2 * model.tolerance)
    before.push(id)
  }
}

/** The most probable token at each step. */
export const greedy: Partial<SamplingParams> = { temperature: 0 }

/** Long enough that it is still running when something is done to it. */
export const endless: Partial<SamplingParams> = { maxTokens: null }

/** Reads a stream until it has brought a token, and gives what can be read after that. */
export const untilFirstToken = async (
  stream: AsyncIterable<GenerationEvent>,
): Promise<AsyncIterator<GenerationEvent>> => {
  const reader = stream[Symbol.asyncIterator]()
  for (;;) {
    const { done, value } = await reader.next()
    if (done === true) throw new Error('the stream ended before its first token')
    if (value._tag === 'Tokens') return reader
    if (value._tag === 'Failed') throw new Error(value.failure.reason)
  }
}

/** All that is left of a stream. */
export const rest = async (reader: AsyncIterator<GenerationEvent>): Promise<readonly GenerationEvent[]> => {
  const events: GenerationEvent[] = []
  for (;;) {
    const { done, value } = await reader.next()
    if (done === true) return events
    events.push(value)
  }
}

/** The stop reasons of completions, in the order of their ends. */
export const endsOf = (events: readonly GenerationEvent[]): readonly string[] =>
  events.flatMap((event) =>
    event._tag === 'Finished' ? [event.finishReason] : event._tag === 'Failed' ? [event.failure.kind] : [],
  )

/** Waits until the engine has nothing left to do. */
export const idle = async (engine: LLMEngine): Promise<void> => {
  for (let turn = 0; turn < 10_000; turn++) {
    const { running, waiting } = await engine.metrics()
    if (running + waiting === 0) return
    await new Promise((go) => setImmediate(go))
  }
  throw new Error('the engine does not become idle')
}

/** The engine of the running test. */
export type Made = () => SuiteEngine

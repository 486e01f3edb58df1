/** Load for a generation engine: requests of mixed lengths, a fixed number at a time, and what each reader sees. */
import { child, type Key, keyFromSeed, normals, uniformInteger } from '@tandem-rl/base'
import type { GenerationRequest, LLMEngine } from '@tandem-rl/text'
import { DEFAULT_SAMPLING } from '../../src/modules/generation/sampling/params.js'

export interface MixOptions {
  /** Of prompts and of completions. */
  readonly shortest: number
  readonly longest: number
  readonly seed: number
}

/** Lognormal around the geometric mean of the ends, which are two standard deviations away; cut there. */
const lengthOf = (key: Key, { shortest, longest }: MixOptions): number => {
  const [low, high] = [Math.log(shortest), Math.log(longest)]
  const drawn = Math.exp((low + high) / 2 + (normals(key, 1)[0]! * (high - low)) / 4)
  return Math.min(longest, Math.max(shortest, Math.round(drawn)))
}

/**
 * Requests whose prompts and completions have mixed lengths: equal arguments give equal requests. Completions have exactly their length.
 *
 * Errors   throws RangeError unless `1 <= shortest <= longest`.
 */
export const mixedRequests = (
  name: string,
  count: number,
  mix: MixOptions & { readonly vocabulary: number },
): readonly GenerationRequest[] => {
  if (!(mix.shortest >= 1 && mix.shortest <= mix.longest)) {
    throw new RangeError(`mixedRequests: lengths from ${mix.shortest} to ${mix.longest} are asked for`)
  }
  return Array.from({ length: count }, (_, i) => {
    const key = child(child(keyFromSeed(mix.seed), name), i)
    const [promptKey, tokens] = [child(key, 'prompt'), lengthOf(child(key, 'completion'), mix)]
    return {
      id: `${name}/${i}`,
      prompt: Int32Array.from({ length: lengthOf(promptKey, mix) }, (_, t) =>
        uniformInteger(promptKey, mix.vocabulary, t),
      ),
      sampling: {
        ...DEFAULT_SAMPLING,
        maxTokens: tokens,
        minTokens: tokens,
        endTokens: 'ignore',
        key: child(key, 'sampling'),
      },
      adapter: null,
      cacheSalt: '',
    }
  })
}

interface Percentiles {
  readonly p50: number
  readonly p99: number
}

/** The measurements of a load's readers. */
export interface LoadResult {
  readonly requests: number
  readonly promptTokens: number
  readonly tokens: number
  readonly seconds: number
  /** Completion tokens of all requests. */
  readonly tokensPerSecond: number
  /** From asking to the first token. */
  readonly firstTokenMs: Percentiles
  /** Between two events with tokens of one request, for each token of the second. */
  readonly betweenTokensMs: Percentiles
}

/** Nearest rank. NaN of nothing. */
const percentile = (sorted: readonly number[], p: number): number =>
  sorted[Math.max(0, Math.ceil(p * sorted.length) - 1)] ?? Number.NaN

const percentiles = (times: readonly number[]): Percentiles => {
  const sorted = [...times].sort((a, b) => a - b)
  return { p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99) }
}

interface Reading {
  readonly first: number
  readonly between: readonly number[]
  readonly tokens: number
}

/** Reads one request to its end. Throws if it fails or if its length is another one than was asked for. */
const read = async (engine: LLMEngine, request: GenerationRequest): Promise<Reading> => {
  const started = performance.now()
  const between: number[] = []
  let [first, last, tokens] = [Number.NaN, started, 0]
  for await (const event of engine.generate(request)) {
    if (event._tag === 'Failed') throw new Error(`${request.id}: ${event.failure.reason}`)
    if (event._tag !== 'Tokens') continue
    const now = performance.now()
    if (tokens === 0) first = now - started
    else for (const _ of event.tokens) between.push((now - last) / event.tokens.length)
    last = now
    tokens += event.tokens.length
  }
  if (tokens !== request.sampling.maxTokens) {
    throw new Error(`${request.id}: ${tokens} tokens came, ${request.sampling.maxTokens} were asked for`)
  }
  return { first, between, tokens }
}

/**
 * Sends requests, `concurrency` at a time: when one ends, the next begins.
 *
 * Errors   rejects if a request fails or has another length than was asked for: a load that is not served is no measurement.
 */
export const runLoad = async (
  engine: LLMEngine,
  requests: readonly GenerationRequest[],
  concurrency: number,
): Promise<LoadResult> => {
  const readings: Reading[] = []
  let next = 0
  const reader = async (): Promise<void> => {
    for (let request = requests[next++]; request !== undefined; request = requests[next++]) {
      readings.push(await read(engine, request))
    }
  }
  const started = performance.now()
  await Promise.all(Array.from({ length: Math.min(concurrency, requests.length) }, reader))
  const seconds = (performance.now() - started) / 1000
  const tokens = readings.reduce((sum, reading) => sum + reading.tokens, 0)
  return {
    requests: requests.length,
    promptTokens: requests.reduce((sum, { prompt }) => sum + prompt.length, 0),
    tokens,
    seconds,
    tokensPerSecond: tokens / seconds,
    firstTokenMs: percentiles(readings.map(({ first }) => first)),
    betweenTokensMs: percentiles(readings.flatMap(({ between }) => between)),
  }
}

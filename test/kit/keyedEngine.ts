/**
 * An engine without a model: token t of completion i is drawn with the request's key alone. It
 * needs no tensors, so that a thread has it at once, computes for a given time, and dies on demand.
 */
import { child, type Failure, type Key, uniformInteger } from '@tandem-rl/base'
import { liveClock } from '@tandem-rl/base/host'
import type {
  EngineMetrics,
  FinishReason,
  GeneratedToken,
  GenerationEvent,
  GenerationRequest,
  Histogram,
  LLMEngine,
  PlainArray,
  SamplingParams,
} from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { DEFAULT_SAMPLING } from '../../src/modules/generation/sampling/params.js'

export interface KeyedEngineOptions {
  /** Time that each token takes of the thread. Default 0. */
  readonly burnMs?: number
  /** An action after a number of generated tokens. */
  readonly death?: { readonly tokens: number; readonly how: 'exit' | 'throw' | 'memory' | 'spin' }
  /** The engine refuses to be made, for this reason. */
  readonly refusal?: string
  /** `generate` throws, against its contract. */
  readonly breach?: 'throws'
}

const VOCABULARY = 256

/** Token `t` of completion `index`. */
const keyedToken = (key: Key, index: number, t: number): number => uniformInteger(child(key, index), VOCABULARY, t)

const burn = (milliseconds: number): void => {
  const end = performance.now() + milliseconds
  while (performance.now() < end);
}

const die = (how: NonNullable<KeyedEngineOptions['death']>['how']): void => {
  switch (how) {
    case 'exit':
      process.exit(3)
      break
    case 'throw':
      queueMicrotask(() => {
        throw new RangeError('the engine broke')
      })
      break
    case 'memory': {
      const held: number[][] = []
      for (;;) held.push(Array.from({ length: 1e5 }, (_, i) => i + held.length))
    }
    case 'spin':
      for (;;);
  }
}

const NO_TIMES: Histogram = { bounds: [], counts: [], sum: 0, count: 0 }

const token = (id: number, version: number): GeneratedToken => ({
  id,
  rawLogProb: -id / 8,
  temperedLogProb: -id / 8,
  processedLogProb: -id / 8,
  rank: 0,
  top: [],
  version,
})

/** A request with defaults. */
export const keyedRequest = (
  id: string,
  sampling: Partial<SamplingParams> & Pick<SamplingParams, 'key'>,
): GenerationRequest => ({
  id,
  prompt: Int32Array.of(1, 2, 3),
  sampling: {
    ...DEFAULT_SAMPLING,
    maxTokens: 16,
    ...sampling,
  },
  adapter: null,
  cacheSalt: '',
})

const sum = (arrays: ReadonlyMap<string, PlainArray>): number =>
  [...arrays.values()].reduce((total, { data }) => data.reduce((a, b) => a + b, total), 0)

/** Makes the engine: for this thread, or for another one under its name in this module. */
export const keyedEngine = (given: unknown): TaskEither<Failure, LLMEngine> => {
  const { burnMs = 0, death, refusal, breach } = given as KeyedEngineOptions // the test's own value
  const running = new Map<string, AbortController>()
  const adapters = new Map<string, number>()
  const finished: Record<FinishReason, number> = { stop: 0, length: 0, abort: 0, error: 0 }
  let [state, version, generated]: [state: 'running' | 'paused' | 'closed', version: number, generated: number] = [
    'running',
    0,
    0,
  ]

  async function* completions(request: GenerationRequest, signal: AbortSignal): AsyncGenerator<GenerationEvent> {
    const { n, maxTokens, key } = request.sampling
    yield { _tag: 'Started', cachedTokens: 0, promptLogProbs: null }
    for (let t = 0; t < (maxTokens ?? Number.POSITIVE_INFINITY) && !signal.aborted; t++) {
      do await liveClock.breathe()
      while (state === 'paused' && !signal.aborted)
      for (let index = 0; index < n && !signal.aborted; index++) {
        burn(burnMs)
        if (death !== undefined && generated >= death.tokens) die(death.how)
        generated++
        yield { _tag: 'Tokens', index, tokens: [token(keyedToken(key, index, t), version)], text: `${t} ` }
      }
    }
    const finishReason = signal.aborted ? 'abort' : 'length'
    finished[finishReason]++
    for (let index = 0; index < n; index++) yield { _tag: 'Finished', index, finishReason, stopReason: null }
  }

  async function* events(request: GenerationRequest, signal: AbortSignal | undefined): AsyncGenerator<GenerationEvent> {
    if (state === 'closed' || running.has(request.id)) {
      const kind = state === 'closed' ? 'closed' : 'invalid'
      yield { _tag: 'Failed', failure: { _tag: 'GenerationFailure', kind, reason: 'not now' } }
      return
    }
    const controller = new AbortController()
    running.set(request.id, controller)
    try {
      if (breach === 'throws') throw new RangeError('no engine throws here')
      yield* completions(request, AbortSignal.any([controller.signal, ...(signal === undefined ? [] : [signal])]))
    } finally {
      running.delete(request.id)
    }
  }

  const metrics = (): EngineMetrics => ({
    running: running.size,
    waiting: 0,
    cacheUsage: 0,
    cacheBytes: 0,
    prefixQueries: 0,
    prefixHits: 0,
    promptTokens: 0,
    generatedTokens: generated,
    preemptions: 0,
    finished: { ...finished },
    timeToFirstToken: NO_TIMES,
    interTokenLatency: NO_TIMES,
    queueTime: NO_TIMES,
    endToEnd: NO_TIMES,
  })

  const abort = async (ids: readonly string[] = [...running.keys()]): Promise<number> => {
    const found = ids.filter((id) => running.has(id))
    for (const id of found) running.get(id)!.abort()
    return found.length
  }

  const refuse = (
    reason: string,
  ): E.Either<Failure & { readonly _tag: 'WeightFailure'; readonly receiver: string }, never> =>
    E.left({ _tag: 'WeightFailure', receiver: 'keyedEngine', reason })

  const engine: LLMEngine = {
    info: { maxModelLength: 4096, vocabularySize: VOCABULARY, maxConcurrent: 256, endTokens: [] },
    generate: (request, { signal } = {}) => events(request, signal),
    abort,
    pause: async ({ mode }) => {
      if (mode === 'wait') throw new RangeError('this engine cannot wait')
      state = 'paused'
    },
    resume: async () => {
      state = 'running'
    },
    isPaused: async () => state === 'paused',
    /** Its alpha must be the sum of its numbers. */
    loadAdapter:
      (name, { alpha, tensors }) =>
      async () => {
        if (sum(tensors) !== alpha) return refuse(`the sum is ${sum(tensors)}`)
        adapters.set(name, alpha)
        return E.right(undefined)
      },
    unloadAdapter: (name) => async () => (adapters.delete(name) ? E.right(undefined) : refuse(`no adapter ${name}`)),
    adapters: async () => [...adapters.keys()],
    /** Their sum must be the version. */
    loadWeights: (weights, options) => async () => {
      const total = weights._tag === 'Arrays' ? sum(weights.arrays) : weights.path.length
      if (total !== options.version) return refuse(`the sum is ${total}`)
      version = options.version
      return E.right(version)
    },
    resetPrefixCache: async () => undefined,
    version: async () => version,
    metrics: async () => metrics(),
    close: async () => {
      state = 'closed'
      await abort()
    },
  }
  return async () => (refusal === undefined ? E.right(engine) : E.left({ _tag: 'EngineRefusal', reason: refusal }))
}

/** An engine that never comes to be. */
export const endlessEngine = (): TaskEither<Failure, LLMEngine> => () => new Promise(() => undefined)

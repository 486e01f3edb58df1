/**
 * The generation engine of this process: continuous batching over a decoder.
 *
 * This folder holds the generation engine: scheduling, prefix cache, continuous batching, and the
 * engine on a thread. It does not hold the decoder (`../transformer`) or the server in front of it
 * (`src/serve`).
 */
import { type Either, isLeft, left, right } from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Clock, Memory } from '../../core/capabilities.js'
import { errorMessage } from '../../core/failure.js'
import { aFunction, aRecord, checkOptions, type OptionKinds } from '../../core/options.js'
import type {
  EngineInfo,
  GenerationEvent,
  GenerationFailure,
  GenerationRequest,
  LLMEngine,
  WeightSource,
} from '../../data/generation.js'
import type { WeightFailure } from '../../data/weights.js'
import { own } from '../../engine/scope.js'
import { liveClock } from '../../live/clock.js'
import { liveMemory } from '../../live/memory.js'
import type { TextTokenizer } from '../../text/tokenizer/textTokenizer.js'
import type { Params } from '../transformer/params.js'
import { startCompletion } from './completion.js'
import { startEngineLoop } from './engineLoop.js'
import { makeMetricsRecorder } from './engineMetrics.js'
import { makeEngineWeights, type WithAdapter } from './engineWeights.js'
import { makeOutbox } from './outbox.js'
import { checkRequest, invalidRequest } from './requestCheck.js'
import type { ModelRunner } from './runner/modelRunner.js'
import { makeScheduler, type SchedulerLimits } from './scheduler.js'
import { makeTicket, type Ticket } from './ticket.js'

/** What an engine is made of. */
export interface LLMEngineOptions {
  /** Belongs to the engine from now on: `close` releases it. */
  readonly runner: ModelRunner
  /** The first weights. The engine is one more owner of their tensors; the caller's ownership stays. */
  readonly params: Params
  readonly model: {
    /** The version of `params`. */
    readonly version: number
    readonly endTokens: readonly number[]
    /** Null: events have no text, and stop strings are refused. */
    readonly tokenizer: Pick<TextTokenizer, 'decodeStart'> | null
  }
  /** Checked parameters of new weights: all names, shapes and numbers, or none. Nobody owns the tensors: the engine will. */
  readonly readWeights: (source: WeightSource) => TaskEither<WeightFailure, Params>
  readonly withAdapter: WithAdapter
  readonly limits?: Partial<EngineLimits>
  readonly clock?: Clock
  /** Says how much is free, where `limits` does not say how much may be taken. */
  readonly memory?: Memory
}

/** Limits of an engine. */
export interface EngineLimits extends SchedulerLimits {
  /** Prompt and completion together; not more than the model has positions. */
  readonly maxModelLength: number
  /** Requests that wait, at most: more are refused as `overloaded`. */
  readonly maxWaiting: number
}

/** Besides what every engine can: what only works in the same thread. */
export interface LocalLLMEngine extends LLMEngine {
  /**
   * Like `loadWeights`, with tensors that are there already: no number is copied. The engine is one more owner until it has others.
   *
   * Errors   `Left(WeightFailure)` if an adapter does not fit on them, the version is none, or the engine is closed: the old ones stay,
   *          and tensors that nobody else owns are freed.
   */
  readonly loadParams: (
    params: Params,
    options: { readonly version: number; readonly running: 'keep' | 'recompute' },
  ) => Either<WeightFailure, number>
  /** Bytes of keys and values: of rows, of prompts that are being computed, and kept for later prompts. */
  readonly bytes: () => { readonly lanes: number; readonly prompts: number; readonly prefixCache: number }
}

/** The share of free memory that keys and values may take. */
const MEMORY_SHARE = 0.25

const limitsOf = ({ runner, limits = {}, memory = liveMemory }: LLMEngineOptions): EngineLimits => {
  const { maxModelLength = runner.maxLength } = limits
  return {
    maxConcurrent: 64,
    prefillTokens: 512,
    prefixCache: 'on',
    maxWaiting: 4096,
    ...limits,
    memoryBytes: limits.memoryBytes ?? Math.floor(MEMORY_SHARE * memory.free()),
    maxModelLength: Math.min(maxModelLength, runner.maxLength),
  }
}

const closedFailure = (error: string | null): GenerationFailure => ({
  _tag: 'GenerationFailure',
  kind: 'closed',
  reason: error === null ? 'the engine is closed' : `the engine has failed: ${error}`,
})

/** Other people's code may reject, against its type. */
const settled = async <T>(task: TaskEither<WeightFailure, T>): Promise<Either<WeightFailure, T>> => {
  try {
    return await task()
  } catch (error) {
    return refusedWeights(errorMessage(error))
  }
}

const refusedWeights = (reason: string): Either<WeightFailure, never> =>
  left({ _tag: 'WeightFailure', receiver: 'engine', reason })

const LLM_ENGINE_OPTIONS: OptionKinds<LLMEngineOptions> = {
  runner: aRecord,
  params: aRecord,
  model: aRecord,
  readWeights: aFunction,
  withAdapter: aFunction,
  limits: aRecord,
  clock: aRecord,
  memory: aRecord,
}

/**
 * Makes an engine that decodes requests together and gives each a stream of its own.
 *
 * What a request gets depends on the request and the weights alone: not on what else is decoded, nor on when it came, nor on whether it was
 * interrupted. Requests begin in the order of arrival. When memory for keys and values runs out, the youngest rows are computed again
 * later. Loading several weights takes them one after the other.
 *
 * Effects  owns the runner and one share of `params` until `close`. Runs in this thread, one step at a time.
 * Cost     each step computes up to `prefillTokens` prompt tokens and one token of each row.
 */
export const makeLLMEngine = (options: LLMEngineOptions): LocalLLMEngine => {
  checkOptions('makeLLMEngine', options, LLM_ENGINE_OPTIONS)
  const { runner, model, clock = liveClock } = options
  const limits = limitsOf(options)
  const info: EngineInfo = {
    maxModelLength: limits.maxModelLength,
    vocabularySize: runner.vocabularySize,
    maxConcurrent: limits.maxConcurrent,
    endTokens: model.endTokens,
  }
  const metrics = makeMetricsRecorder()
  const weights = makeEngineWeights(options.params, { version: model.version, withAdapter: options.withAdapter })
  const scheduler = makeScheduler({ runner, weights, metrics, limits })
  const ids = new Set<string>()
  let arrivals = 0
  let isClosed = false
  let loading: Promise<unknown> = Promise.resolve()
  let closing: Promise<void> | null = null
  const loop = startEngineLoop({ scheduler, clock, nextArrival: () => arrivals })

  const isDown = (): boolean => isClosed || loop.error() !== null

  const longestOf = ({ prompt, sampling }: GenerationRequest): number =>
    Math.min(prompt.length + (sampling.maxTokens ?? limits.maxModelLength), limits.maxModelLength)

  /** The request as it is run, or why it is not. */
  const accepted = (request: GenerationRequest): Either<GenerationFailure, GenerationRequest> => {
    if (isDown()) return left(closedFailure(loop.error()))
    const checked = checkRequest(request, { info, text: model.tokenizer === null ? 'absent' : 'decoded' })
    if (isLeft(checked)) return checked
    const { prompt, sampling } = checked.right
    if (ids.has(request.id)) return left(invalidRequest(`id must be unique, got ${request.id}, which is not finished`))
    const problem = scheduler.problem({ rows: sampling.n, tokens: prompt.length, longest: longestOf(checked.right) })
    if (problem !== null) return left(invalidRequest(problem))
    if (scheduler.inLine() < limits.maxWaiting) return checked
    const reason = `${limits.maxWaiting} requests wait already: try again later`
    return left({ _tag: 'GenerationFailure', kind: 'overloaded', reason })
  }

  const refuse = (failure: GenerationFailure): AsyncIterator<GenerationEvent> => {
    const outbox = makeOutbox(() => {})
    outbox.push({ _tag: 'Failed', failure })
    outbox.end()
    return outbox.reader
  }

  const admit = (request: GenerationRequest, signal: AbortSignal | undefined): AsyncIterator<GenerationEvent> => {
    const use = weights.use(request.adapter)
    if (use === undefined) {
      const loaded = weights.adapters().join(', ') || 'none'
      const reason = `no adapter named ${request.adapter} is loaded; loaded: ${loaded}`
      return refuse({ _tag: 'GenerationFailure', kind: 'unknown-adapter', reason })
    }
    const cancel = (): void => {
      loop.change(() => scheduler.abort((other) => other === ticket))
    }
    const outbox = makeOutbox(cancel)
    const ticket: Ticket = makeTicket({
      request,
      arrival: arrivals++,
      use,
      outbox,
      metrics,
      now: clock.now,
      start: (index) =>
        startCompletion(request, {
          index,
          maxTokens: longestOf(request) - request.prompt.length,
          endTokens: model.endTokens,
          decoding: model.tokenizer?.decodeStart('skip') ?? null,
        }),
      closed: () => {
        ids.delete(request.id)
        signal?.removeEventListener('abort', cancel)
        scheduler.forget(ticket)
      },
    })
    ids.add(request.id)
    scheduler.submit(ticket)
    if (signal?.aborted) cancel()
    else signal?.addEventListener('abort', cancel, { once: true })
    loop.wake()
    return outbox.reader
  }

  const replaceProblem = (version: number): string | null => {
    if (isDown()) return closedFailure(loop.error()).reason
    return Number.isSafeInteger(version) && version >= 0 ? null : `a version is an integer from 0 on, got ${version}`
  }

  const replace: LocalLLMEngine['loadParams'] = (params, { version, running }) => {
    const owned = own(params)
    const problem = replaceProblem(version)
    if (problem !== null) {
      owned.release()
      return refusedWeights(problem)
    }
    const replaced = weights.replace(owned, version)
    if (isLeft(replaced)) return replaced
    loop.change(() => {
      scheduler.clearCache()
      if (running === 'recompute') scheduler.recompute()
      else scheduler.keepStale()
    })
    return replaced
  }

  const load: LLMEngine['loadWeights'] = (source, how) => async () => {
    if (isDown()) return refusedWeights(closedFailure(loop.error()).reason)
    const read = await settled(() => options.readWeights(source)())
    return isLeft(read) ? read : replace(read.right, how)
  }

  const shutDown = async (): Promise<void> => {
    isClosed = true
    loop.change(() => scheduler.abort(() => true))
    await loop.stop()
    await loading
    scheduler.clearCache()
    scheduler.release()
    weights.release()
    runner.release()
  }

  return {
    info,
    generate: (request, { signal } = {}) => ({
      [Symbol.asyncIterator]: () => {
        const checked = accepted(request)
        return isLeft(checked) ? refuse(checked.left) : admit(checked.right, signal)
      },
    }),
    abort: async (names) => {
      const named = names === undefined ? null : new Set(names)
      return loop.change(() => scheduler.abort(({ request }) => named === null || named.has(request.id))) ?? 0
    },
    pause: loop.pause,
    resume: async () => loop.resume(),
    isPaused: async () => loop.isPaused(),
    loadAdapter: (name, adapter) => async () =>
      isDown() ? refusedWeights(closedFailure(loop.error()).reason) : weights.load(name, adapter),
    unloadAdapter: (name) => async () => {
      const unloaded = weights.unload(name)
      if (isLeft(unloaded)) return unloaded
      await unloaded.right
      return right(undefined)
    },
    adapters: async () => weights.adapters(),
    loadWeights: (source, how) => () => {
      const result = loading.then(load(source, how))
      loading = result
      return result
    },
    loadParams: replace,
    resetPrefixCache: async () => scheduler.clearCache(),
    version: async () => weights.version(),
    metrics: async () => {
      const { lanes, prompts } = scheduler.bytes()
      const waiting = scheduler.waiting()
      return metrics.read({
        running: scheduler.tickets().length - waiting,
        waiting,
        cacheUsage: Math.min(1, (lanes + prompts) / limits.memoryBytes),
      })
    },
    bytes: scheduler.bytes,
    close: () => {
      closing ??= shutDown()
      return closing
    },
  }
}

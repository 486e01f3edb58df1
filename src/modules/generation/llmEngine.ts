/** The in-process generation engine: continuous batching over a decoder. */
import { type Clock, checkOptions, errorMessage, type Memory } from '@tandem-rl/base'
import { liveClock } from '@tandem-rl/base/host'
import { liveMemory } from '@tandem-rl/host'
import type {
  EngineInfo,
  GenerationFailure,
  LLMEngine,
  TextTokenizer,
  WeightFailure,
  WeightSource,
} from '@tandem-rl/text'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import { type Either, isLeft, left, right } from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { MAKE_LLM_ENGINE_OPTIONS } from '../optionKinds.js'
import type { Params } from '../transformer/params.js'
import { makeAdmission, refusedRequest } from './admission.js'
import { startEngineLoop } from './engineLoop.js'
import { makeMetricsRecorder } from './engineMetrics.js'
import { makeEngineWeights, type WithAdapter } from './engineWeights.js'
import type { ModelRunner } from './runner/modelRunner.js'
import { makeScheduler, type SchedulerLimits } from './scheduler.js'

/** The parts and options of an engine. */
export interface LLMEngineOptions {
  /** The runner. The engine owns it from now on, and `close` releases it. */
  readonly runner: ModelRunner
  /**
   * The initial weights. The engine becomes one more owner of their tensors; the caller stays an
   * owner.
   */
  readonly params: Params
  readonly model: {
    /** The version of `params`. */
    readonly version: number
    readonly endTokens: readonly number[]
    /** `null`: events have no text, and stop strings are refused. */
    readonly tokenizer: Pick<TextTokenizer, 'decodeStart'> | null
  }
  /**
   * Reads and checks all parameters of new weights. The engine becomes the owner of the tensors.
   */
  readonly readWeights: (source: WeightSource) => TaskEither<WeightFailure, Params>
  readonly withAdapter: WithAdapter
  readonly limits?: Partial<EngineLimits>
  readonly clock?: Clock
  /** Reports free memory, which sets the default of `limits.memoryBytes`. */
  readonly memory?: Memory
}

/** Limits of an engine. */
export interface EngineLimits extends SchedulerLimits {
  /** Maximum length of prompt and completion together; at most the model's number of positions. */
  readonly maxModelLength: number
  /** Maximum number of waiting requests. Further ones are refused as `overloaded`. */
  readonly maxWaiting: number
}

/** An engine with operations that work only in the same thread. */
export interface LocalLLMEngine extends LLMEngine {
  /**
   * Like `loadWeights`, with existing tensors and without a copy. The engine becomes one more owner
   * until it loads other weights.
   *
   * Errors   `Left(WeightFailure)` if an adapter does not match them, the version is invalid, or
   *          the engine is closed. The old weights stay, and tensors without another owner are
   *          freed.
   */
  readonly loadParams: (
    params: Params,
    options: { readonly version: number; readonly running: 'keep' | 'recompute' },
  ) => Either<WeightFailure, number>
  /** Bytes of keys and values: of rows, of prompts being computed, and of the prefix cache. */
  readonly bytes: () => { readonly lanes: number; readonly prompts: number; readonly prefixCache: number }
}

/** Default share of free memory for keys and values. */
const MEMORY_SHARE = 0.25

/** Default number of sequences of full length for each row, those of the prefix cache included. */
const SEQUENCES_PER_ROW = 2

/**
 * Default bytes for keys and values: a share of free memory, at least one sequence of full length,
 * and at most what the model can use.
 */
const defaultBytes = (
  { bytesPerToken }: ModelRunner,
  { maxModelLength, maxConcurrent }: Pick<EngineLimits, 'maxModelLength' | 'maxConcurrent'>,
  memory: Memory,
): number => {
  const sequence = maxModelLength * bytesPerToken
  return Math.min(
    Math.max(sequence, Math.floor(MEMORY_SHARE * memory.free())),
    SEQUENCES_PER_ROW * maxConcurrent * sequence,
  )
}

const limitsOf = ({ runner, limits = {} }: LLMEngineOptions, memory: Memory): EngineLimits => {
  const { maxConcurrent = 64 } = limits
  const maxModelLength = Math.min(limits.maxModelLength ?? runner.maxLength, runner.maxLength)
  return {
    prefillTokens: 512,
    prefixCache: 'on',
    maxWaiting: 4096,
    ...limits,
    memoryBytes: limits.memoryBytes ?? defaultBytes(runner, { maxModelLength, maxConcurrent }, memory),
    maxConcurrent,
    maxModelLength,
  }
}

const closedFailure = (error: string | null): GenerationFailure => ({
  _tag: 'GenerationFailure',
  kind: 'closed',
  reason: error === null ? 'the engine is closed' : `the engine has failed: ${error}`,
})

/** Converts rejections of a caller's function, against its type, to failures. */
const settled = async <T>(task: TaskEither<WeightFailure, T>): Promise<Either<WeightFailure, T>> => {
  try {
    return await task()
  } catch (error) {
    return refusedWeights(errorMessage(error))
  }
}

const refusedWeights = (reason: string): Either<WeightFailure, never> =>
  left({ _tag: 'WeightFailure', receiver: 'engine', reason })

/**
 * Makes an engine that decodes requests together and returns a stream for each.
 *
 * The result of a request depends only on the request and the weights. It does not depend on other
 * requests, arrival times or interruptions. Requests start in the order of arrival. When memory for
 * keys and values runs out, the youngest rows are computed again later. Calls that load weights run
 * one after the other.
 *
 * Effects  owns the runner and one share of `params` until `close`, and reserves the memory for
 *          keys and values, which other engines of this machine leave free. Runs in this thread,
 *          one step at a time.
 * Cost     each step computes up to `prefillTokens` prompt tokens and one token of each row.
 */
export const makeLLMEngine = (options: LLMEngineOptions): LocalLLMEngine => {
  checkOptions('makeLLMEngine', options, MAKE_LLM_ENGINE_OPTIONS)
  const { runner, model, clock = liveClock, memory = liveMemory } = options
  const limits = limitsOf(options, memory)
  const unreserve = memory.reserve(limits.memoryBytes)
  const { maxModelLength, maxConcurrent } = limits
  const { vocabularySize } = runner
  const info: EngineInfo = { maxModelLength, vocabularySize, maxConcurrent, endTokens: model.endTokens }
  const metrics = makeMetricsRecorder()
  const weights = makeEngineWeights(options.params, { version: model.version, withAdapter: options.withAdapter })
  const scheduler = makeScheduler({ runner, weights, metrics, limits })
  let isClosed = false
  let loading: Promise<unknown> = Promise.resolve()
  let closing: Promise<void> | null = null
  const loop = startEngineLoop({ scheduler, clock, nextArrival: () => admission.arrivals() })

  const isDown = (): boolean => isClosed || loop.error() !== null

  const admission = makeAdmission({
    info,
    model,
    maxWaiting: limits.maxWaiting,
    scheduler,
    weights,
    loop,
    metrics,
    clock,
  })

  const replaceProblem = (version: number): string | null => {
    if (isDown()) return closedFailure(loop.error()).reason
    return Number.isSafeInteger(version) && version >= 0
      ? null
      : `version must be an integer of at least 0, got ${version}`
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
    unreserve()
  }

  return {
    info,
    generate: (request, { signal } = {}) => ({
      [Symbol.asyncIterator]: () =>
        isDown() ? refusedRequest(closedFailure(loop.error())) : admission.open(request, signal),
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
        cacheBytes: limits.memoryBytes,
      })
    },
    bytes: scheduler.bytes,
    close: () => {
      closing ??= shutDown()
      return closing
    },
  }
}

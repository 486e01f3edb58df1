/** An engine on its own thread, so that generation never blocks the caller's event loop. */
import {
  checkOptions,
  describe,
  type Failure,
  FailureError,
  type Thread,
  type ThreadFailure,
  type ThreadPort,
  type Threads,
} from '@tandem-rl/base'
import { liveThreads } from '@tandem-rl/host'
import type { EngineInfo, GenerationFailure, LLMEngine, WeightFailure } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { LLM_ON_DEVICE_OPTIONS } from '../optionKinds.js'
import { type EngineConnection, engineConnection } from './engineConnection.js'
import { type EngineGreeting, type EngineReply, postedArrays, type WeightTransport } from './engineMessages.js'
import { refuseEngine, serveEngine } from './serveEngine.js'

/**
 * An exported function `(options: unknown) => TaskEither<Failure, LLMEngine>` of an ES module,
 * which the thread calls.
 */
export interface EngineModule {
  /** `file:` URL, such as `import.meta.url` of the module that has the function. */
  readonly module: string
  readonly exportName: string
  /** Its argument: anything that survives `structuredClone`. */
  readonly options: unknown
}

export interface OnDeviceOptions {
  /** Maximum number of unread events per stream. Later ones are held back. Default 64. */
  readonly window?: number
  /**
   * `move` transfers the buffers of arrays given to `loadWeights` and `loadAdapter`, which are
   * empty afterwards. Default `copy`.
   */
  readonly weights?: WeightTransport
  /** Time limit for the start of the engine in milliseconds. Default ten minutes. */
  readonly startLimitMs?: number
  /**
   * Longest wait of `close` for the engine, after which the thread is terminated. Default ten
   * seconds.
   */
  readonly closeLimitMs?: number
  /** Largest JavaScript heap of the thread, without the weights. */
  readonly heapMegabytes?: number
  readonly threads?: Threads
}

const RECEIVER = 'LLMOnDevice'

const isFactory = (value: unknown): value is (options: unknown) => TaskEither<Failure, LLMEngine> =>
  typeof value === 'function'

/**
 * Makes an engine on the current thread and serves it.
 *
 * Errors   rejects, which ends the thread, if the module cannot be imported or the function throws.
 *
 * @public by its name, in the thread
 */
export const runEngineThread = async (port: ThreadPort, input: unknown): Promise<void> => {
  const { module, exportName, options } = input as EngineModule // from `LLMOnDevice`
  const exported: Readonly<Record<string, unknown>> = await import(/* webpackIgnore: true */ /* @vite-ignore */ module)
  const make = exported[exportName]
  if (!isFactory(make)) throw new TypeError(`${module} exports no function '${exportName}'`)
  const made = await make(options)()
  if (E.isLeft(made)) refuseEngine(port, made.left)
  else serveEngine(port, made.right)
}

const closed = (reason: string): GenerationFailure => ({ _tag: 'GenerationFailure', kind: 'closed', reason })

type EngineMethods = Pick<LLMEngine, 'generate' | 'loadAdapter' | 'unloadAdapter' | 'loadWeights'>

const weightMethods = (connection: EngineConnection, transport: WeightTransport): EngineMethods => {
  /** Converts the end of the engine to a failed update. Errors of the engine are thrown. */
  const update =
    <T>(run: () => Promise<E.Either<WeightFailure, T>>): TaskEither<WeightFailure, T> =>
    async () => {
      try {
        return await run()
      } catch (error) {
        if (!(error instanceof FailureError)) throw error
        return E.left({ _tag: 'WeightFailure', receiver: RECEIVER, reason: error.failure.reason })
      }
    }
  return {
    generate: (request, { signal } = {}) => ({ [Symbol.asyncIterator]: () => connection.open(request, signal) }),
    loadAdapter: (name, adapter) =>
      update(() => {
        const { arrays, transfer } = postedArrays(adapter.tensors, transport)
        return connection.call({ method: 'loadAdapter', name, adapter: { ...adapter, tensors: arrays } }, transfer)
      }),
    unloadAdapter: (name) => update(() => connection.call({ method: 'unloadAdapter', name })),
    loadWeights: (weights, options) =>
      update(() => {
        if (weights._tag === 'Folder') return connection.call({ method: 'loadWeights', weights, options })
        const { arrays, transfer } = postedArrays(weights.arrays, transport)
        return connection.call({ method: 'loadWeights', weights: { ...weights, arrays }, options }, transfer)
      }),
  }
}

interface RemoteSettings {
  readonly info: EngineInfo
  readonly weights: WeightTransport
  readonly closeLimitMs: number
}

const remoteEngine = (thread: Thread, connection: EngineConnection, settings: RemoteSettings): LLMEngine => {
  const { call } = connection
  let closing: Promise<void> | undefined
  const close = async (): Promise<void> => {
    const answered = call({ method: 'close' }).then(() => connection.finish(closed('the engine is closed')))
    await thread.stop(answered, settings.closeLimitMs)
  }
  return {
    info: settings.info,
    ...weightMethods(connection, settings.weights),
    abort: (ids) => call({ method: 'abort', ids: ids ?? null }),
    pause: (options) => call({ method: 'pause', options }),
    resume: () => call({ method: 'resume' }),
    isPaused: () => call({ method: 'isPaused' }),
    adapters: () => call({ method: 'adapters' }),
    resetPrefixCache: () => call({ method: 'resetPrefixCache' }),
    version: () => call({ method: 'version' }),
    metrics: () => call({ method: 'metrics' }),
    close: () => (closing ??= close()),
  }
}

/**
 * Starts an engine on its own thread. It is the counterpart of TorchRL's `LLMOnDevice`, an engine
 * constructed by the actor that runs it.
 *
 * The thread imports the module, makes the engine with its function, and serves it. Equal requests
 * give the same events as on this thread. Weights are copied once, or not at all if they are moved
 * or the thread reads a folder. Arrays in shared memory are copied on the thread.
 *
 * Errors   `Left(ThreadFailure)` if the thread did not start, ended, or exceeded the time limit, or
 *          if the function failed. When the thread dies later, or after `close`, every open stream
 *          ends with `Failed` of kind `closed` and the reason, updates of weights are `Left`, and
 *          other methods reject with FailureError.
 * Effects  starts a thread, which keeps the process alive until `close`.
 * Cost     one message per turn of the thread's event loop, for any number of events.
 * Source   TorchRL before July 2025, `LLMOnDevice`, which is a Ray actor with vLLM.
 */
export const LLMOnDevice = (
  engine: EngineModule,
  options: OnDeviceOptions = {},
): TaskEither<ThreadFailure, LLMEngine> => {
  checkOptions('LLMOnDevice', options, LLM_ON_DEVICE_OPTIONS)
  return async () => {
    const { threads = liveThreads, window = 64, weights = 'copy', closeLimitMs = 10_000 } = options
    if (!(Number.isInteger(window) && window >= 1)) {
      throw new RangeError(`LLMOnDevice: window must be a positive integer, got ${window}`)
    }
    const started = await threads.start(
      { module: import.meta.url, exportName: 'runEngineThread' },
      {
        input: engine,
        firstWordMs: options.startLimitMs ?? 600_000,
        ...(options.heapMegabytes !== undefined && { heapMegabytes: options.heapMegabytes }),
      },
    )()
    if (E.isLeft(started)) return started
    const thread = started.right
    const connection = engineConnection(thread, window)
    void thread.ended.then(({ reason }) => connection.finish(closed(reason)))
    const greeting = await new Promise<EngineGreeting | ThreadFailure>((resolve) => {
      thread.listen((message) => {
        const received = message as EngineGreeting | EngineReply // from `serveEngine`
        if (received._tag === 'Ready' || received._tag === 'Refused') resolve(received)
        else connection.receive(received)
      })
      void thread.ended.then(resolve)
    })
    if (greeting._tag === 'ThreadFailure') return E.left(greeting)
    if (greeting._tag === 'Ready') {
      return E.right(remoteEngine(thread, connection, { info: greeting.info, weights, closeLimitMs }))
    }
    await thread.stop(Promise.resolve(), 0)
    const { failure } = greeting
    return E.left({ _tag: 'ThreadFailure', kind: 'refused', reason: describe(failure), cause: failure })
  }
}

/**
 * Servers behind a wire that a test scripts: their weights are numbers, and any call may go wrong
 * in any way.
 */
import type { Clock, Timers } from '@tandem-rl/base'
import type { GenerationEvent, GenerationRequest, WeightSource } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { EngineClient, EngineFailure, EngineState } from '../../src/data/engineClient.js'
import { makeRequestGate } from '../../src/modules/remote/requestGate.js'

/**
 * The outcome of a call. `lost-done`: it is done and its answer is lost; `lost`: not done, no
 * answer. `late`: the answer is lost, and it is
 * done a while later; `slow`: as `late`, after a long while, and whoever loads weights meanwhile
 * comes after it. `dies`: the server is gone from now on. `throws`: the client breaks its promise.
 * `hangs`, `hangs-done`: no answer ever.
 * `spoils`: it is done, but wrongly: loaded weights are other ones, and a version that is told is another.
 */
export type Fault =
  | 'none'
  | 'refused'
  | 'lost-done'
  | 'lost'
  | 'late'
  | 'slow'
  | 'dies'
  | 'throws'
  | 'hangs'
  | 'hangs-done'
  | 'spoils'

/**
 * Turns of the event loop as time: deadlines pass only when nothing else is left to do for a while.
 */
export const turnWorld = (): { readonly clock: Clock; readonly timers: Timers } => {
  let now = 0
  const pending = new Map<symbol, { readonly at: number; readonly ring: () => void }>()
  let isTurning = false
  const turn = (): void => {
    now++
    for (const [id, { at, ring }] of [...pending]) {
      if (at > now) continue
      pending.delete(id)
      ring()
    }
    isTurning = pending.size > 0
    if (isTurning) setImmediate(turn)
  }
  return {
    clock: { now: () => now, breathe: () => Promise.resolve() },
    timers: {
      after: (ms, ring) => {
        const id = Symbol('alarm')
        pending.set(id, { at: now + ms, ring })
        if (!isTurning) setImmediate(turn)
        isTurning = true
        return () => void pending.delete(id)
      },
    },
  }
}

/** The truth about a server, which its client may not tell. */
interface ServerTruth {
  /** Content of the base weights: the version that they are, unless spoiled. */
  base: number
  label: number | null
  isPaused: boolean
  isAlive: boolean
  readonly adapters: Map<string, number>
  /** Each change that was done, in order: `load 3`, `adapter policy-v3`, `pause`. */
  readonly done: string[]
  /**
   * Policy requests that were answered: the version they were stamped with, and the contents that
   * sampled them.
   */
  readonly answered: { readonly version: number; readonly contents: readonly number[] }[]
}

export interface ScriptedClientOptions {
  readonly name?: string
  /** What becomes of the calls, in order; afterwards nothing goes wrong. */
  readonly faults?: readonly Fault[]
  /** True if the server reports a version of its base weights. */
  readonly label?: 'told' | 'untold'
  readonly updates?: readonly ('adapter' | 'full')[]
  /** Adapters that it holds, at most. */
  readonly maxAdapters?: number
}

/** A client, and what is really there. */
export interface ScriptedClient {
  readonly client: EngineClient
  readonly truth: ServerTruth
  /** Faults of the calls to come. */
  readonly script: Fault[]
}

const turns = async (count: number): Promise<void> => {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve))
}

/** What weights of a content say about a row: one log-probability for each token but the first. */
export const scriptedLogProbs = (content: number, row: ArrayLike<number>): Float32Array =>
  Float32Array.from({ length: row.length - 1 }, (_, t) => -1 - ((content * 37 + row[t + 1]! * 5 + t) % 101) / 10)

/** Weights of a content, whole or as an adapter. */
export const scriptedWeights = (content: number): ReadonlyMap<string, { shape: number[]; data: Float32Array }> =>
  new Map([['content', { shape: [], data: Float32Array.of(content) }]])

const contentOf = (source: WeightSource): number =>
  source._tag === 'Arrays' ? source.arrays.get('content')!.data[0]! : Number(source.path.split('v').at(-1))

/** A server that follows its client, except for injected faults. */
export const scriptedClient = (options: ScriptedClientOptions = {}): ScriptedClient => {
  const { name = 'server', faults = [], label = 'told', updates = ['adapter', 'full'], maxAdapters = 99 } = options
  const script = [...faults]
  const gate = makeRequestGate()
  let running = 0
  let underWay: Promise<unknown> = Promise.resolve()
  const truth: ServerTruth = {
    ...{ base: 0, label: label === 'told' ? 0 : null, isPaused: false, isAlive: true },
    ...{ adapters: new Map(), done: [], answered: [] },
  }
  const failure = (kind: EngineFailure['kind'], reason: string): E.Either<EngineFailure, never> =>
    E.left({ _tag: 'EngineFailure', engine: name, kind, reason })

  /**
   * A call to which something may happen. `act` changes the server and may refuse; `in line` it
   * waits for slow ones before it.
   */
  const call =
    <A>(
      act: (spoiled: boolean) => E.Either<string, A> | Promise<E.Either<string, A>>,
      when: 'at once' | 'in line' = 'at once',
    ): TaskEither<EngineFailure, A> =>
    async () => {
      const fault = script.shift() ?? 'none'
      await turns(1)
      if (!truth.isAlive) return failure('unreachable', 'no connection')
      const acted = async () => {
        if (when === 'in line' && fault !== 'slow') await underWay
        return E.mapLeft(
          (reason: string): EngineFailure => ({ _tag: 'EngineFailure', engine: name, kind: 'refused', reason }),
        )(await act(fault === 'spoils'))
      }
      switch (fault) {
        case 'none':
        case 'spoils':
          return acted()
        case 'refused':
          return failure('refused', 'the script says no')
        case 'lost-done':
          await acted()
          return failure('unknown', 'the connection broke')
        case 'lost':
          return failure('unknown', 'the connection broke')
        case 'late':
          void turns(3).then(acted)
          return failure('unknown', 'the connection broke')
        case 'slow':
          underWay = turns(40).then(acted)
          return failure('unknown', 'the connection broke')
        case 'dies':
          truth.isAlive = false
          return failure('unknown', 'the connection broke')
        case 'throws':
          throw new Error('a client that throws')
        case 'hangs':
          return new Promise(() => {})
        case 'hangs-done':
          await acted()
          return new Promise(() => {})
      }
    }

  const done = (what: string): E.Either<string, void> => {
    truth.done.push(what)
    return E.right(undefined)
  }

  async function* send(request: GenerationRequest, version: number): AsyncGenerator<GenerationEvent> {
    const failed = (reason: string): GenerationEvent => ({
      _tag: 'Failed',
      failure: { _tag: 'GenerationFailure', kind: 'unreachable', reason },
    })
    const fault = request.cacheSalt.startsWith('probe') ? (script.shift() ?? 'none') : 'none'
    if (fault === 'dies') truth.isAlive = false
    if (fault === 'hangs') await new Promise(() => {})
    await turns(1)
    while (truth.isPaused && truth.isAlive) await turns(1)
    if (!truth.isAlive || fault === 'refused' || fault === 'lost') return yield failed('no connection')
    const content = (): number | undefined =>
      request.adapter === null ? truth.base : truth.adapters.get(request.adapter)
    if (content() === undefined) return yield failed(`no adapter ${request.adapter}`)
    running++
    const contents: number[] = []
    try {
      for (let t = 0; t < 3; t++) {
        contents.push(content() ?? -1)
        await turns(1)
      }
    } finally {
      running--
    }
    const numbers = scriptedLogProbs(contents[0]! + (fault === 'spoils' ? 1 : 0), request.prompt)
    const entry = (id: number, logProb: number) => ({ id, logProb, rank: 1, top: [] })
    const asked = request.sampling.promptLogProbs !== null
    yield {
      _tag: 'Started',
      cachedTokens: 0,
      promptLogProbs: asked ? [...request.prompt].map((id, i) => (i === 0 ? null : entry(id, numbers[i - 1]!))) : null,
    }
    const logProbs = { rawLogProb: -1, temperedLogProb: -1, processedLogProb: -1 }
    yield { _tag: 'Tokens', index: 0, tokens: [{ id: 1, ...logProbs, rank: 1, top: [], version }], text: '' }
    if (!request.cacheSalt.startsWith('probe')) truth.answered.push({ version, contents })
    yield { _tag: 'Finished', index: 0, finishReason: 'length', stopReason: null }
  }

  const state = call(
    (spoiled): E.Either<string, EngineState> =>
      E.right({
        version: truth.label === null ? null : spoiled ? truth.label + 1000 : truth.label,
        isPaused: truth.isPaused,
        adapters: [...truth.adapters.keys()],
      }),
  )
  const client: EngineClient = {
    name,
    connect: async () =>
      E.right({
        ...{ maxModelLength: 1024, vocabularySize: 64, maxConcurrent: 8, endTokens: [], server: 'scripted 1' },
        ...{ logProbs: 'all', promptLogProbs: 'yes', stamps: 'no', updates, control: 'yes' },
      }),
    generate: (request, { signal } = {}) => gate.pass(request, signal ? { signal } : {}, send),
    abort: () => async () => E.right(0),
    health: call(() => E.right(undefined)),
    state,
    pause: ({ mode }) =>
      call(async () => {
        truth.isPaused = true
        while (mode === 'wait' && running > 0) await turns(1)
        return done('pause')
      }),
    resume: call(() => {
      truth.isPaused = false
      return done('resume')
    }),
    resetPrefixCache: call(() => done('reset')),
    loadAdapter: (adapterName, adapter) =>
      call((spoiled) => {
        if (truth.adapters.has(adapterName)) return E.left(`${adapterName} is loaded already`)
        if (truth.adapters.size >= maxAdapters) return E.left('there is no slot for another adapter')
        truth.adapters.set(adapterName, adapter.tensors.get('content')!.data[0]! + (spoiled ? 0.5 : 0))
        return done(`adapter ${adapterName}`)
      }),
    unloadAdapter: (adapterName) =>
      call(() => (truth.adapters.delete(adapterName) ? done(`unload ${adapterName}`) : E.left('no such adapter'))),
    loadWeights: (source, { version }) =>
      call((spoiled) => {
        truth.base = contentOf(source) + (spoiled ? 0.5 : 0)
        if (truth.label !== null) truth.label = version
        return done(`load ${version}`)
      }, 'in line'),
    ...{ serving: gate.serving, serve: gate.serve, hold: gate.hold, inFlight: gate.inFlight },
    close: async () => {},
  }
  return { client, truth, script }
}

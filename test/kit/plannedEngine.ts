/** A scripted engine: it keeps the contract of `LLMEngine` and computes nothing. */
import { child, formatKey, uniform } from '@tandem-rl/base'
import {
  type DecodeState,
  decodeEnd,
  decodeNext,
  type EngineMetrics,
  type FinishReason,
  type GeneratedToken,
  type GenerationEvent,
  type GenerationFailure,
  type GenerationRequest,
  type Histogram,
  type LLMEngine,
  type TextTokenizer,
  type TokenLogProb,
} from '@tandem-rl/text'
import * as TE from 'fp-ts/lib/TaskEither.js'

export interface EngineScript {
  readonly tokenizer: TextTokenizer
  readonly endToken: number
  /** The text of completion `index` of a request. */
  readonly says: (request: GenerationRequest, index: number) => string
  readonly maxModelLength?: number
  readonly maxConcurrent?: number
  /** Awaited before every token: a test holds requests here. */
  readonly beforeToken?: (request: GenerationRequest, t: number) => Promise<void> | undefined
  /** Ends a request in place of its `t`-th token. */
  readonly fails?: (request: GenerationRequest, t: number) => GenerationFailure | 'error' | undefined
}

export interface ScriptedEngine extends LLMEngine {
  /** Requests that hold a slot. */
  readonly running: () => number
  readonly waiting: () => number
  /** Every request that came, in order. */
  readonly seen: readonly GenerationRequest[]
  /** Folders of `loadWeights`. */
  readonly loaded: readonly string[]
}

/** A text that depends on the key of its completion alone. */
export const saysByKey = (request: GenerationRequest, index: number): string => {
  const key = child(request.sampling.key, (request.firstCompletion ?? 0) + index)
  return `${formatKey(key).slice(0, 4)} ${Math.floor(uniform(key, 0) * 100)}`
}

const rawOf = (id: number): number => -((id % 7) + 1) / 8

const topOf = (id: number, count: number, size: number): readonly TokenLogProb[] =>
  Array.from({ length: count }, (_, i) => ({ id: (id + i) % size, logProb: rawOf(id) - i, rank: i + 1 }))

/** Waits for a promise, or until the signal aborts. */
const unlessAborted = (wait: Promise<void>, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const onAbort = (): void => resolve()
    signal.addEventListener('abort', onAbort, { once: true })
    wait.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })

interface Completion {
  readonly ids: readonly number[]
  t: number
  text: string
  told: number
  decoding: DecodeState
  done: boolean
}

type Ended = { readonly finishReason: FinishReason; readonly stopReason: string | number | null }

const empty: Histogram = { bounds: [0.1, 1], counts: [0, 0], sum: 0, count: 0 }

export const scriptedEngine = (script: EngineScript): ScriptedEngine => {
  const { tokenizer, endToken, maxModelLength = 512, maxConcurrent = 8 } = script
  const vocabularySize = tokenizer.vocabularySize
  const seen: GenerationRequest[] = []
  const loaded: string[] = []
  const controls = new Map<string, AbortController>()
  const queue: (() => void)[] = []
  const adapters = new Set<string>()
  const finished = { stop: 0, length: 0, abort: 0, error: 0 }
  let [running, promptTokens, generatedTokens, version] = [0, 0, 0, 0]
  let paused: { readonly until: Promise<void>; readonly resume: () => void } | undefined
  let closed = false

  const acquire = async (signal: AbortSignal): Promise<boolean> => {
    while (running >= maxConcurrent && !signal.aborted) {
      await unlessAborted(new Promise<void>((resolve) => queue.push(resolve)), signal)
    }
    if (signal.aborted) return false
    running++
    return true
  }
  const release = (): void => {
    running--
    for (const wake of queue.splice(0)) wake()
  }

  const token = ({ sampling }: GenerationRequest, id: number): GeneratedToken => ({
    id,
    rawLogProb: rawOf(id),
    temperedLogProb: rawOf(id) * 1.5,
    processedLogProb: rawOf(id) * 2,
    rank: 1,
    top: topOf(id, sampling.topLogProbs ?? 0, vocabularySize),
    version,
  })

  /** The text that is certain: what may become a stop string waits. */
  const certain = (c: Completion, stop: readonly string[]): string => {
    const longest = Math.max(0, ...stop.map((s) => s.length - 1))
    const text = c.text.slice(c.told, Math.max(c.told, c.text.length - longest))
    c.told += text.length
    return text
  }

  const advance = (request: GenerationRequest, c: Completion): readonly [GeneratedToken, string, Ended | undefined] => {
    const { sampling } = request
    const id = c.ids[c.t++] ?? endToken
    const [decoding, more] = decodeNext(c.decoding, [id])
    c.decoding = decoding
    c.text += more
    generatedTokens++
    const isEnd = id === endToken && sampling.endTokens === 'stop' && c.t > sampling.minTokens
    const last = isEnd || c.t >= (sampling.maxTokens ?? maxModelLength - request.prompt.length)
    const stop = sampling.stop.find((s) => c.text.includes(s))
    const cut = stop === undefined ? -1 : c.text.indexOf(stop) + (sampling.stopText === 'include' ? stop.length : 0)
    if (cut !== -1) {
      const text = c.text.slice(c.told, cut)
      return [token(request, id), text, { finishReason: 'stop', stopReason: stop! }]
    }
    if (sampling.stopTokens.includes(id)) {
      return [token(request, id), c.text.slice(c.told), { finishReason: 'stop', stopReason: id }]
    }
    if (!last) return [token(request, id), certain(c, sampling.stop), undefined]
    const text = c.text.slice(c.told) + decodeEnd(c.decoding)
    return [token(request, id), text, { finishReason: isEnd ? 'stop' : 'length', stopReason: null }]
  }

  async function* work(request: GenerationRequest, signal: AbortSignal): AsyncGenerator<GenerationEvent> {
    const { sampling, prompt } = request
    const completions = Array.from({ length: sampling.n }, (_, i): Completion => {
      const ids = [...tokenizer.encode(script.says(request, i)), endToken]
      return { ids, t: 0, text: '', told: 0, decoding: tokenizer.decodeStart('skip'), done: false }
    })
    const promptLogProbs =
      sampling.promptLogProbs === null
        ? null
        : Array.from(prompt, (id, i) =>
            i === 0
              ? null
              : { id, logProb: rawOf(id), rank: 1, top: topOf(id, sampling.promptLogProbs!, vocabularySize) },
          )
    promptTokens += prompt.length
    yield { _tag: 'Started', cachedTokens: prompt.length > 4 ? 4 : 0, promptLogProbs }
    for (let t = 0; completions.some(({ done }) => !done); t++) {
      if (paused !== undefined) await unlessAborted(paused.until, signal)
      await unlessAborted(script.beforeToken?.(request, t) ?? Promise.resolve(), signal)
      const failure = script.fails?.(request, t)
      if (failure !== undefined && failure !== 'error') return yield { _tag: 'Failed', failure }
      for (const [index, c] of completions.entries()) {
        if (c.done) continue
        if (signal.aborted || failure === 'error') {
          c.done = true
          const finishReason = failure === 'error' ? 'error' : 'abort'
          finished[finishReason]++
          yield { _tag: 'Finished', index, finishReason, stopReason: null }
          continue
        }
        const [sampled, text, ended] = advance(request, c)
        yield { _tag: 'Tokens', index, tokens: [sampled], text }
        if (ended === undefined) continue
        c.done = true
        finished[ended.finishReason]++
        yield { _tag: 'Finished', index, ...ended }
      }
    }
  }

  async function* generate(
    request: GenerationRequest,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<GenerationEvent> {
    seen.push(request)
    const refuse = (kind: GenerationFailure['kind'], reason: string): GenerationEvent => ({
      _tag: 'Failed',
      failure: { _tag: 'GenerationFailure', kind, reason },
    })
    if (closed) return yield refuse('closed', 'the engine is closed')
    if (request.adapter !== null && !adapters.has(request.adapter)) {
      return yield refuse('unknown-adapter', `there is no adapter '${request.adapter}'`)
    }
    const control = new AbortController()
    const abort = (): void => control.abort()
    if (signal?.aborted === true) abort()
    signal?.addEventListener('abort', abort)
    controls.set(request.id, control)
    const hasSlot = await acquire(control.signal)
    try {
      if (hasSlot) yield* work(request, control.signal)
      else
        for (let i = 0; i < request.sampling.n; i++)
          yield { _tag: 'Finished', index: i, finishReason: 'abort', stopReason: null } as const
    } finally {
      if (hasSlot) release()
      controls.delete(request.id)
      signal?.removeEventListener('abort', abort)
    }
  }

  const abort = async (ids?: readonly string[]): Promise<number> => {
    const chosen = [...controls].filter(([id]) => ids === undefined || ids.includes(id))
    for (const [, control] of chosen) control.abort()
    return chosen.length
  }
  const resume = async (): Promise<void> => {
    paused?.resume()
    paused = undefined
  }
  const metrics = async (): Promise<EngineMetrics> => ({
    ...{ running, waiting: controls.size - running, cacheUsage: running / maxConcurrent, cacheBytes: 0 },
    ...{ prefixQueries: promptTokens, prefixHits: 0, promptTokens, generatedTokens, preemptions: 0, finished },
    timeToFirstToken: { bounds: [0.1, 1], counts: [1, 2], sum: 1.5, count: 3 },
    ...{ interTokenLatency: empty, queueTime: empty, endToEnd: empty },
  })
  return {
    ...{ seen, loaded, generate, abort, resume, metrics },
    running: () => running,
    waiting: () => controls.size - running,
    info: { maxModelLength, vocabularySize, maxConcurrent, endTokens: [endToken] },
    pause: async ({ mode }) => {
      let wake = (): void => {}
      const until = new Promise<void>((resolve) => {
        wake = resolve
      })
      if (mode === 'abort') await abort()
      while (mode === 'wait' && controls.size > 0) await new Promise((resolve) => setTimeout(resolve, 1))
      paused = { until, resume: wake }
    },
    isPaused: async () => paused !== undefined,
    loadAdapter: (name) => TE.fromIO(() => void adapters.add(name)),
    unloadAdapter: (name) => TE.fromIO(() => void adapters.delete(name)),
    adapters: async () => [...adapters],
    loadWeights: (weights, options) =>
      weights._tag === 'Folder' && weights.path.includes('missing')
        ? TE.left({ _tag: 'WeightFailure', receiver: 'engine', reason: `there is no ${weights.path}` })
        : TE.fromIO(() => {
            if (weights._tag === 'Folder') loaded.push(weights.path)
            version = options.version
            return version
          }),
    resetPrefixCache: async () => {},
    version: async () => {
      if (closed) throw new Error('the engine is closed')
      return version
    },
    close: async () => {
      closed = true
      await abort()
    },
  }
}

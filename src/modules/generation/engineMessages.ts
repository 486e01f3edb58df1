/**
 * Messages between an engine on another thread and its owner: plain values for `structuredClone`.
 *
 * A stream is one request. The engine sends its events only as far as the owner has given credit,
 * so that at most a window of them is in transit, even for a slow reader.
 */
import type { Failure } from '@tandem-rl/base'
import type {
  AdapterWeights,
  EngineInfo,
  EngineMetrics,
  GenerationEvent,
  GenerationRequest,
  LLMEngine,
  PauseMode,
  PlainArray,
  WeightFailure,
  WeightSource,
} from '@tandem-rl/text'
import type { Either } from 'fp-ts/lib/Either.js'

/** A method call of the engine. */
export type EngineCall =
  | { readonly method: 'abort'; readonly ids: readonly string[] | null }
  | { readonly method: 'pause'; readonly options: { readonly mode: PauseMode; readonly cache: 'clear' | 'keep' } }
  | { readonly method: 'loadAdapter'; readonly name: string; readonly adapter: AdapterWeights }
  | { readonly method: 'unloadAdapter'; readonly name: string }
  | {
      readonly method: 'loadWeights'
      readonly weights: WeightSource
      readonly options: Parameters<LLMEngine['loadWeights']>[1]
    }
  | { readonly method: 'resume' | 'isPaused' | 'adapters' | 'resetPrefixCache' | 'version' | 'metrics' | 'close' }

/** The answer of each method. */
export interface EngineAnswers {
  readonly abort: number
  readonly pause: undefined
  readonly resume: undefined
  readonly isPaused: boolean
  readonly loadAdapter: Either<WeightFailure, void>
  readonly unloadAdapter: Either<WeightFailure, void>
  readonly adapters: readonly string[]
  readonly loadWeights: Either<WeightFailure, number>
  readonly resetPrefixCache: undefined
  readonly version: number
  readonly metrics: EngineMetrics
  readonly close: undefined
}

/** A message from the owner to the engine. */
export type EngineMessage =
  | {
      readonly _tag: 'Generate'
      readonly stream: number
      readonly request: GenerationRequest
      readonly credit: number
      readonly signal: 'open' | 'aborted'
    }
  /** Allows that many more events of the stream. */
  | { readonly _tag: 'Credit'; readonly stream: number; readonly events: number }
  /**
   * The request's signal was aborted. The engine ends its completions; the stream continues until
   * then.
   */
  | { readonly _tag: 'Abort'; readonly stream: number }
  /** The reader has left the stream. */
  | { readonly _tag: 'Return'; readonly stream: number }
  | { readonly _tag: 'Call'; readonly call: number; readonly what: EngineCall }

/** An event of a stream, or its end if `event` is null. */
export interface StreamItem {
  readonly stream: number
  readonly event: GenerationEvent | null
}

/** The engine's first message. */
export type EngineGreeting =
  | { readonly _tag: 'Ready'; readonly info: EngineInfo }
  | { readonly _tag: 'Refused'; readonly failure: Failure }

/** A later message from the engine. */
export type EngineReply =
  | { readonly _tag: 'Items'; readonly items: readonly StreamItem[] }
  | { readonly _tag: 'Answer'; readonly call: number; readonly value: unknown }
  /** The method threw. */
  | { readonly _tag: 'Threw'; readonly call: number; readonly name: string; readonly message: string }

/** The transport of the caller's arrays to another thread. */
export type WeightTransport = 'copy' | 'move'

/** Arrays to post, and their transferable buffers. */
export interface PostedArrays {
  readonly arrays: ReadonlyMap<string, PlainArray>
  readonly transfer: readonly ArrayBuffer[]
}

const isShared = ({ data }: PlainArray): boolean => !(data.buffer instanceof ArrayBuffer)

/**
 * Prepares arrays for posting. Arrays in shared memory are posted as they are, all others in
 * transferable buffers.
 *
 * Effects  with `move`, posting empties the caller's arrays, except those in a part of a larger
 *          buffer, which are copied.
 * Cost     one copy of arrays that are neither moved nor shared; `structuredClone` would make two.
 */
export const postedArrays = (arrays: ReadonlyMap<string, PlainArray>, transport: WeightTransport): PostedArrays => {
  const transfer = new Set<ArrayBuffer>()
  const posted = new Map<string, PlainArray>()
  for (const [name, array] of arrays) {
    const { shape, data } = array
    if (isShared(array)) posted.set(name, array)
    else {
      const isWhole = data.byteLength === data.buffer.byteLength
      const sent = transport === 'move' && isWhole ? data : data.slice()
      if (sent.buffer instanceof ArrayBuffer) transfer.add(sent.buffer)
      posted.set(name, { shape, data: sent })
    }
  }
  return { arrays: posted, transfer: [...transfer] }
}

/**
 * Copies arrays in shared memory, so that no other thread can change them. Native code needs this
 * as well.
 */
export const privateArrays = (arrays: ReadonlyMap<string, PlainArray>): ReadonlyMap<string, PlainArray> =>
  new Map(
    [...arrays].map(([name, array]) => [
      name,
      isShared(array) ? { shape: array.shape, data: array.data.slice() } : array,
    ]),
  )

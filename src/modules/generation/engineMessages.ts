/**
 * What an engine on another thread and its owner say to each other: plain values that survive `structuredClone`.
 *
 * A stream is one request. Its events are sent only while its owner has given credit for them, so that no more than a window of them is
 * underway, however slow the reader.
 */
import type { Either } from 'fp-ts/lib/Either.js'
import type { Failure } from '../../core/failure.js'
import type {
  AdapterWeights,
  EngineInfo,
  EngineMetrics,
  GenerationEvent,
  GenerationRequest,
  LLMEngine,
  PauseMode,
  PlainArray,
  WeightSource,
} from '../../data/generation.js'
import type { WeightFailure } from '../../data/weights.js'

/** A method of the engine with its arguments. */
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

/** What each method answers. */
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

/** From the owner to the engine. */
export type EngineMessage =
  | {
      readonly _tag: 'Generate'
      readonly stream: number
      readonly request: GenerationRequest
      readonly credit: number
      readonly signal: 'open' | 'aborted'
    }
  /** So many more events of the stream may be sent. */
  | { readonly _tag: 'Credit'; readonly stream: number; readonly events: number }
  /** The request's signal was aborted: the engine ends its completions, and the stream goes on until then. */
  | { readonly _tag: 'Abort'; readonly stream: number }
  /** Nobody reads the stream any more. */
  | { readonly _tag: 'Return'; readonly stream: number }
  | { readonly _tag: 'Call'; readonly call: number; readonly what: EngineCall }

/** An event of a stream, or its end: `event` is null. */
export interface StreamItem {
  readonly stream: number
  readonly event: GenerationEvent | null
}

/** The engine's first message. */
export type EngineGreeting =
  | { readonly _tag: 'Ready'; readonly info: EngineInfo }
  | { readonly _tag: 'Refused'; readonly failure: Failure }

/** All later ones. */
export type EngineNews =
  | { readonly _tag: 'Items'; readonly items: readonly StreamItem[] }
  | { readonly _tag: 'Answer'; readonly call: number; readonly value: unknown }
  /** The method threw. */
  | { readonly _tag: 'Threw'; readonly call: number; readonly name: string; readonly message: string }

/** What happens to the caller's numbers on their way to another thread. */
export type WeightTransport = 'copy' | 'move'

/** Arrays that are ready to be posted, with the buffers to move. */
export interface PostedArrays {
  readonly arrays: ReadonlyMap<string, PlainArray>
  readonly transfer: readonly ArrayBuffer[]
}

const isShared = ({ data }: PlainArray): boolean => !(data.buffer instanceof ArrayBuffer)

/**
 * Arrays as they are posted: those in shared memory as they are, all others in buffers that are moved.
 *
 * Effects  `move` empties the caller's arrays when the message is posted, except those that lie in a part of a larger buffer: they are copied.
 * Cost     one copy of what is not moved or shared, where `structuredClone` would make two.
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

/** Arrays that no other thread can change: those in shared memory are copied, which native code asks for as well. */
export const privateArrays = (arrays: ReadonlyMap<string, PlainArray>): ReadonlyMap<string, PlainArray> =>
  new Map(
    [...arrays].map(([name, array]) => [
      name,
      isShared(array) ? { shape: array.shape, data: array.data.slice() } : array,
    ]),
  )

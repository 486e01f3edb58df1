/** What a server serves, and what it knows while it runs: the requests that are being answered. */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Calendar, Ids } from '../../core/capabilities.js'
import type { Failure } from '../../core/failure.js'
import { child, type Key } from '../../core/key.js'
import type { AdapterWeights, GenerationEvent, GenerationRequest, LLMEngine } from '../../data/generation.js'
import type { ToolCallFormat } from '../../text/toolCalls/format.js'
import type { PromptText, ReadConversation } from './messages.js'
import type { ResponseMemory } from './responseMemory.js'

/** The names under which the model answers, and where it comes from. */
export interface ServedModel {
  /** At least one; answers carry the first. */
  readonly names: readonly string[]
  /** The folder or the name on the hub, told by `/v1/models` and read again by `reload_weights`. */
  readonly root: string
  /**
   * Treatment of requests for other names: refused with 404, or answered by the model. Default
   * `refuse`.
   */
  readonly others?: 'refuse' | 'answer'
}

/** How the model reads and writes text. */
export interface ServedText extends PromptText {
  /** How the conversation of a chat request becomes tokens. Default: rendered by the template and encoded as a whole. */
  readonly conversation?: ReadConversation
}

/** Bounds of what one request may ask for. */
export interface ServeLimits {
  readonly maxBodyBytes: number
  /** Log-probabilities for each place; -1: the whole vocabulary. */
  readonly maxLogProbs: number
  /** Prompts of one completion request. */
  readonly maxPrompts: number
  /** Completions of one prompt. */
  readonly maxCompletions: number
}

/** vLLM's, and 32 MiB of body, where vLLM has no limit. */
export const DEFAULT_LIMITS: ServeLimits = {
  maxBodyBytes: 32 * 2 ** 20,
  maxLogProbs: 20,
  maxPrompts: 1024,
  maxCompletions: 16_384,
}

/** Who may ask. */
export interface ServeAccess {
  /** Any of these opens `/v1`, `/v2` and `/inference`; without keys they are open. */
  readonly apiKeys: readonly string[]
  /** Web pages of these origins may ask; '*' is every page. */
  readonly corsOrigins: readonly string[]
}

/** Reads an adapter from a folder that a request names. */
export type ReadAdapter = (path: string) => TaskEither<Failure, AdapterWeights>

/** What is switched on. */
export interface ServeFeatures {
  /** Endpoints that pause the engine and change its weights. They ask for no key: keep the port closed to others. */
  readonly control: 'on' | 'off'
  /** How adapters are read, which switches `/v1/load_lora_adapter` on; null without adapters. */
  readonly readAdapter: ReadAdapter | null
  /** How the model writes tool calls; 'none' refuses tools. */
  readonly toolCalls: ToolCallFormat | 'none'
  readonly logProbsMode: 'raw_logprobs' | 'processed_logprobs'
}

export interface ServeOptions {
  readonly engine: LLMEngine
  readonly model: ServedModel
  readonly text: ServedText
  /** Requests without a seed draw from children of it, in the order in which they arrive. */
  readonly key: Key
  readonly limits?: Partial<ServeLimits>
  readonly access?: Partial<ServeAccess>
  readonly features?: Partial<ServeFeatures>
  /** Responses that requests may refer to. Default: those of this server. */
  readonly responses?: ResponseMemory
  /** What the server knows of the world. */
  readonly world?: Partial<ServeWorld>
}

export interface ServeWorld {
  readonly calendar: Calendar
  readonly ids: Ids
  /** What `/version` answers. */
  readonly version: string
  /** Told what an endpoint threw: a mistake of ours, answered with 500. */
  readonly report: (error: unknown) => void
}

/** An adapter that was loaded by a request. */
interface LoadedAdapter {
  readonly name: string
  readonly path: string
}

/** A running server: what was asked for, and its state. */
export interface Served {
  readonly engine: LLMEngine
  readonly model: ServedModel
  readonly text: ServedText
  readonly limits: ServeLimits
  readonly access: ServeAccess
  readonly features: ServeFeatures
  readonly world: ServeWorld
  /** Seconds since 1970, when the server started. */
  readonly created: number
  /** Another key for each call. */
  readonly nextKey: () => Key
  readonly requests: RequestRegister
  readonly adapters: Map<string, LoadedAdapter>
  /** Names of adapters on their way: taken, and not there yet. */
  readonly loading: Set<string>
  readonly weights: WeightLabels
  readonly responses: ResponseMemory
}

/** What clients call the versions of the engine's weights. Mutable: it grows by a name for each version that gets one. */
interface WeightLabels {
  /** 'default' for weights that nobody named, as those that the server began with. */
  readonly labelOf: (version: number) => string
  readonly name: (version: number, label: string) => void
}

/** Labels of versions, none named. */
export const weightLabels = (): WeightLabels => {
  const labels = new Map<number, string>()
  return {
    labelOf: (version) => labels.get(version) ?? 'default',
    name: (version, label) => {
      labels.set(version, label)
    },
  }
}

/** Which requests are in the engine, under the names that clients know. */
export interface RequestRegister {
  /** Runs a request until its stream ends or `signal` aborts it. */
  readonly run: (
    request: Omit<GenerationRequest, 'id'>,
    names: { readonly given: string; readonly answer: string },
    signal: AbortSignal,
  ) => AsyncGenerator<GenerationEvent>
  /** Ids in the engine of requests that clients know under one of these names. */
  readonly find: (names: readonly string[]) => readonly string[]
  readonly size: () => number
}

/** A register for an engine. Effects: it holds the names of running requests. */
export const requestRegister = (engine: LLMEngine): RequestRegister => {
  const running = new Map<string, readonly string[]>()
  let count = 0
  return {
    async *run(request, { given, answer }, signal) {
      const id = `${answer}-${count++}` // clients may give two requests one name; the engine gets two
      running.set(id, [given, answer])
      try {
        yield* engine.generate({ ...request, id }, { signal })
      } finally {
        running.delete(id)
      }
    },
    find: (names) => [...running].flatMap(([id, known]) => (known.some((name) => names.includes(name)) ? [id] : [])),
    size: () => running.size,
  }
}

/** Counts up: the keys of requests without a seed. */
export const keySequence = (key: Key): (() => Key) => {
  let count = 0
  return () => child(key, count++)
}

/** Seconds since 1970. */
export const unixSeconds = ({ calendar }: Pick<ServeWorld, 'calendar'>): number =>
  Math.floor(calendar.today().getTime() / 1000)

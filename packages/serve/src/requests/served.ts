/** The configuration and state of a running server, including the requests in progress. */
import { type Calendar, child, type Failure, type Ids, type Key } from '@tandem-rl/base'
import type {
  AdapterWeights,
  GenerationEvent,
  GenerationRequest,
  LLMEngine,
  ThoughtSetting,
  ToolCallFormat,
} from '@tandem-rl/text'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { PromptText, ReadConversation } from './messages.js'
import type { ResponseMemory } from './responseMemory.js'

/** The names of the model in requests, and its origin. */
export interface ServedModel {
  /** At least one. Answers contain the first. */
  readonly names: readonly string[]
  /**
   * The folder or the name on the hub. `/v1/models` reports it, and `reload_weights` reads it
   * again.
   */
  readonly root: string
  /**
   * Treatment of requests for other names: refused with 404, or answered by the model. Default
   * `refuse`.
   */
  readonly others?: 'refuse' | 'answer'
}

/** The text side of the model. */
export interface ServedText extends PromptText {
  /**
   * Renders and encodes the conversation of a chat request. Default: the template, encoded as a
   * whole.
   */
  readonly conversation?: ReadConversation
}

/** The parts of a server that the reading of a request needs. */
export interface ReadingEnv {
  readonly text: ServedText
  readonly responses: ResponseMemory
  readonly limits: Pick<ServeLimits, 'maxPrompts' | 'maxCompletions'>
  readonly maxModelLength: number
}

/** Limits of a single request. */
export interface ServeLimits {
  readonly maxBodyBytes: number
  /** Maximum number of log-probabilities per position; -1: the whole vocabulary. */
  readonly maxLogProbs: number
  /** Maximum number of prompts of one completion request. */
  readonly maxPrompts: number
  /** Maximum number of completions of one prompt. */
  readonly maxCompletions: number
}

/** vLLM's limits, and 32 MiB for the body, for which vLLM has no limit. */
export const DEFAULT_LIMITS: ServeLimits = {
  maxBodyBytes: 32 * 2 ** 20,
  maxLogProbs: 20,
  maxPrompts: 1024,
  maxCompletions: 16_384,
}

/** Access control. */
export interface ServeAccess {
  /** Any of these keys opens `/v1`, `/v2` and `/inference`. Without keys they are open. */
  readonly apiKeys: readonly string[]
  /** Origins of web pages that may send requests; '*' allows every page. */
  readonly corsOrigins: readonly string[]
}

/** Reads an adapter from a folder that a request names. */
export type ReadAdapter = (path: string) => TaskEither<Failure, AdapterWeights>

/** Optional features. */
export interface ServeFeatures {
  /**
   * Endpoints that pause the engine and change its weights. They require no key: do not expose the
   * port to others.
   */
  readonly control: 'on' | 'off'
  /** Reads adapters, and enables `/v1/load_lora_adapter`; null without adapters. */
  readonly readAdapter: ReadAdapter | null
  /** Format of the model's tool calls; 'none' refuses tools. */
  readonly toolCalls: ToolCallFormat | 'none'
  /**
   * Treatment of `tool_choice: "required"`, which needs constrained decoding: refused with 400, or
   * treated as "auto" and counted. Default `refuse`.
   */
  readonly toolChoiceRequired: 'refuse' | 'auto'
  /** The model's thoughts. Default: the tags in its template. */
  readonly thoughts: ThoughtSetting
  readonly logProbsMode: 'raw_logprobs' | 'processed_logprobs'
}

/** The number of requests whose `tool_choice: "required"` was treated as "auto". */
export interface RelaxedChoices {
  readonly count: () => number
  readonly add: () => void
}

/** Makes a count that starts at 0. */
export const relaxedChoices = (): RelaxedChoices => {
  let count = 0
  return { count: () => count, add: () => void count++ }
}

export interface ServeOptions {
  readonly engine: LLMEngine
  readonly model: ServedModel
  readonly text: ServedText
  /** Random key. Requests without a seed draw from its children, in order of arrival. */
  readonly key: Key
  readonly limits?: Partial<ServeLimits>
  readonly access?: Partial<ServeAccess>
  readonly features?: Partial<ServeFeatures>
  /** Responses that requests may refer to. Default: those of this server. */
  readonly responses?: ResponseMemory
  /** The count of relaxed tool choices. Default: that of this server. */
  readonly relaxedChoices?: RelaxedChoices
  /** Capabilities and identity of the server. */
  readonly world?: Partial<ServeWorld>
}

export interface ServeWorld {
  readonly calendar: Calendar
  readonly ids: Ids
  /** The version reported by `/version`. */
  readonly version: string
  /**
   * Called with the exception of an endpoint, which is a bug of the server and answered with 500.
   */
  readonly report: (error: unknown) => void
}

/** An adapter that a request has loaded. */
interface LoadedAdapter {
  readonly name: string
  readonly path: string
}

/** A running server: its configuration and state. */
export interface Served {
  readonly engine: LLMEngine
  readonly model: ServedModel
  readonly text: ServedText
  readonly limits: ServeLimits
  readonly access: ServeAccess
  readonly features: ServeFeatures
  readonly world: ServeWorld
  /** Start time in seconds since 1970. */
  readonly created: number
  /** Returns a new key at each call. */
  readonly nextKey: () => Key
  readonly requests: RequestRegister
  readonly adapters: Map<string, LoadedAdapter>
  /** Names of adapters that are being loaded. */
  readonly loading: Set<string>
  readonly weights: WeightLabels
  readonly responses: ResponseMemory
  readonly relaxedChoices: RelaxedChoices
}

/** The clients' labels of weight versions. Mutable: it grows with each labeled version. */
interface WeightLabels {
  /** Returns 'default' for weights without a label, such as the initial ones. */
  readonly labelOf: (version: number) => string
  readonly name: (version: number, label: string) => void
}

/** Makes an empty record of labels. */
export const weightLabels = (): WeightLabels => {
  const labels = new Map<number, string>()
  return {
    labelOf: (version) => labels.get(version) ?? 'default',
    name: (version, label) => {
      labels.set(version, label)
    },
  }
}

/** The requests in the engine, by the names that clients know. */
export interface RequestRegister {
  /** Runs a request until its stream ends or `signal` aborts it. */
  readonly run: (
    request: Omit<GenerationRequest, 'id'>,
    names: { readonly given: string; readonly answer: string },
    signal: AbortSignal,
  ) => AsyncGenerator<GenerationEvent>
  /** Returns the engine's ids of requests that clients know under one of these names. */
  readonly find: (names: readonly string[]) => readonly string[]
  readonly size: () => number
}

/** Makes a register for an engine. Effects: it keeps the names of running requests. */
export const requestRegister = (engine: LLMEngine): RequestRegister => {
  const running = new Map<string, readonly string[]>()
  let count = 0
  return {
    async *run(request, { given, answer }, signal) {
      const id = `${answer}-${count++}` // clients may reuse names, but the engine needs unique ids
      running.set(id, [given, answer])
      try {
        yield* engine.generate({ ...request, id }, { signal })
      } finally {
        running.delete(id)
      }
    },
    find: (names) => {
      const sought = new Set(names)
      return [...running].flatMap(([id, known]) => (known.some((name) => sought.has(name)) ? [id] : []))
    },
    size: () => running.size,
  }
}

/** Makes a sequence of keys for requests without a seed. */
export const keySequence = (key: Key): (() => Key) => {
  let count = 0
  return () => child(key, count++)
}

/** Returns the time in seconds since 1970. */
export const unixSeconds = ({ calendar }: Pick<ServeWorld, 'calendar'>): number =>
  Math.floor(calendar.today().getTime() / 1000)

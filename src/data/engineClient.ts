/** An engine behind a wire: the same requests as `LLMEngine`, and control whose every call may fail. */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { AdapterWeights, EngineInfo, LLMEngine, PauseMode, WeightSource } from './generation.js'

/** A call of an engine's control did not do what it should. */
export interface EngineFailure {
  readonly _tag: 'EngineFailure'
  /** Name of the engine. */
  readonly engine: string
  /** `refused`: the engine said no. `missing`: it has no such call. `unknown`: the call may or may not have worked: ask for the state. */
  readonly kind: 'refused' | 'missing' | 'unreachable' | 'unknown' | 'protocol'
  readonly reason: string
}

/** What an engine says of itself now. */
export interface EngineState {
  /** The version that it reports for its base weights; null if it reports none. */
  readonly version: number | null
  /** Null where it cannot be asked. */
  readonly isPaused: boolean | null
  readonly adapters: readonly string[]
}

/** What requests of a policy are sampled with from now on. */
export interface ServingWeights {
  readonly version: number
  /** Null for the base weights. */
  readonly adapter: string | null
  /** Keeps cached prefixes of other weights away; '' where the cache was emptied instead. */
  readonly cacheSalt: string
}

/** What can be asked of an engine, and what its numbers mean. */
export interface EngineAbilities extends EngineInfo {
  /** Kind and version of the server, such as `vllm 0.32.0`. */
  readonly server: string
  /** What the log-probabilities of sampled tokens are taken from. `tempered`: after temperature, before cuts. */
  readonly logProbs: 'raw' | 'tempered' | 'processed' | 'all'
  readonly promptLogProbs: 'yes' | 'no'
  /** Whether each answer says which weights sampled it. `no`: the client counts versions itself. */
  readonly stamps: 'yes' | 'no'
  /** Ways to give it other weights. */
  readonly updates: readonly ('adapter' | 'full')[]
  readonly control: 'yes' | 'no'
}

/**
 * An engine behind a wire, or one of this process in its place: what policies sample with, and what updaters give new weights to.
 *
 * Control calls are sent once. Where the answer is missing, the failure is `unknown`, and `state` tells what came of it.
 */
export interface EngineClient {
  /** For messages: kind and address, without credentials. */
  readonly name: string
  /** Asks the server what it is, once; a failure is asked again the next time. */
  readonly connect: TaskEither<EngineFailure, EngineAbilities>
  /**
   * Events of a request, as of `LLMEngine`. A request with adapter null and cache salt '' is a policy's: it waits while the client is held,
   * and is sampled with the adapter and the salt that `serving` gives when it is sent. Any other is sent as it is and at once: that is how
   * an updater probes weights that do not serve yet. Tokens are stamped with the version of the weights that sampled them: the server's
   * word where it has one, else the version that was serving when the request was sent.
   */
  readonly generate: LLMEngine['generate']
  readonly abort: (ids?: readonly string[]) => TaskEither<EngineFailure, number>
  readonly health: TaskEither<EngineFailure, void>
  readonly state: TaskEither<EngineFailure, EngineState>
  readonly pause: (options: {
    readonly mode: PauseMode
    readonly cache: 'clear' | 'keep'
  }) => TaskEither<EngineFailure, void>
  readonly resume: TaskEither<EngineFailure, void>
  readonly resetPrefixCache: TaskEither<EngineFailure, void>
  readonly loadAdapter: (name: string, adapter: AdapterWeights) => TaskEither<EngineFailure, void>
  readonly unloadAdapter: (name: string) => TaskEither<EngineFailure, void>
  /** Replaces the base weights; `version` is what `state` reports afterwards, where the engine reports one. */
  readonly loadWeights: (
    weights: WeightSource,
    options: { readonly version: number },
  ) => TaskEither<EngineFailure, void>
  /** What new requests are sampled with. At the start version 0 of the base weights. */
  readonly serving: () => ServingWeights
  /** Only an updater calls it, when the engine has the weights. */
  readonly serve: (weights: ServingWeights) => void
  /**
   * New requests of policies wait from now on, until the function that it gives is called. With `refuse` they fail as `unreachable` instead,
   * and so do those that wait: nobody may sample here, and a pool takes another replica.
   */
  readonly hold: (meanwhile?: 'wait' | 'refuse') => () => void
  /** Requests of this client that were sent and are not finished: all, or those that use an adapter. */
  readonly inFlight: (adapter?: string) => number
  readonly close: () => Promise<void>
}

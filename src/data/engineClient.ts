/**
 * A client of a remote engine: the same requests as `LLMEngine`, and control calls that may fail.
 */
import type { AdapterWeights, EngineInfo, LLMEngine, PauseMode, WeightSource } from '@tandem-rl/text'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/** A failed control call to an engine. */
export interface EngineFailure {
  readonly _tag: 'EngineFailure'
  /** Name of the engine. */
  readonly engine: string
  /**
   * `refused`: the engine refused the call. `missing`: it does not support the call. `unknown`: the
   * call may or may not have worked; read `state`.
   */
  readonly kind: 'refused' | 'missing' | 'unreachable' | 'unknown' | 'protocol'
  readonly reason: string
}

/** The current state that an engine reports. */
export interface EngineState {
  /** The reported version of the base weights; null if the engine reports none. */
  readonly version: number | null
  /** Null if the engine does not report it. */
  readonly isPaused: boolean | null
  readonly adapters: readonly string[]
}

/** The weights that new requests of a policy are sampled with. */
export interface ServingWeights {
  readonly version: number
  /** Null for the base weights. */
  readonly adapter: string | null
  /** Separates cached prefixes of different weights; '' if the cache was cleared instead. */
  readonly cacheSalt: string
}

/** The capabilities of an engine, and the meaning of its numbers. */
export interface EngineAbilities extends EngineInfo {
  /** The kind and version of the server, such as `vllm 0.32.0`. */
  readonly server: string
  /** The distribution of the reported log-probabilities of sampled tokens. */
  readonly logProbs: 'raw' | 'processed' | 'all'
  readonly promptLogProbs: 'yes' | 'no'
  /**
   * `yes` if each answer contains the version of the weights that sampled it. With `no`, the client
   * counts versions itself.
   */
  readonly stamps: 'yes' | 'no'
  /** The supported kinds of weight updates. */
  readonly updates: readonly ('adapter' | 'full')[]
  readonly control: 'yes' | 'no'
}

/**
 * A client of a remote engine, or of an engine in this process. Policies sample with it, and
 * updaters send it new weights.
 *
 * Control calls are sent once. If the response is lost, the failure is `unknown`, and `state`
 * returns the result.
 */
export interface EngineClient {
  /** The name in messages: kind and address, without credentials. */
  readonly name: string
  /** Reads the server's capabilities, once. After a failure, the next call tries again. */
  readonly connect: TaskEither<EngineFailure, EngineAbilities>
  /**
   * Returns the events of a request, as `LLMEngine` does. A request with adapter null and cache
   * salt '' belongs to a policy: it waits while the client is held, and is sampled with the adapter
   * and the salt of `serving` at the time it is sent. Any other request is sent immediately and
   * unchanged, so that an updater can probe weights before they serve. Tokens are stamped with the
   * version of the weights that sampled them: the version that the server reports, or else the
   * version that was serving when the request was sent.
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
  /**
   * Replaces the base weights. `version` is the value that `state` reports afterwards, if the
   * engine reports one.
   */
  readonly loadWeights: (
    weights: WeightSource,
    options: { readonly version: number },
  ) => TaskEither<EngineFailure, void>
  /** Returns the weights of new requests. Initially version 0 of the base weights. */
  readonly serving: () => ServingWeights
  /** Sets the serving weights. Called only by an updater, when the engine has the weights. */
  readonly serve: (weights: ServingWeights) => void
  /**
   * Holds new requests of policies until the returned function is called. With `refuse`, they and
   * the waiting requests fail as `unreachable` instead: sampling here is not allowed, and a pool
   * uses another replica.
   */
  readonly hold: (meanwhile?: 'wait' | 'refuse') => () => void
  /**
   * Returns the number of unfinished requests of this client: all, or those that use an adapter.
   */
  readonly inFlight: (adapter?: string) => number
  readonly close: () => Promise<void>
}

/** The weights that an engine serves: base weights with a version, and adapters by name. */
import type { AdapterWeights, WeightFailure } from '@tandem-rl/text'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import type { Params } from '../transformer/params.js'

/**
 * Merges an adapter into base weights, or returns why it does not match. New tensors belong to the
 * enclosing scope.
 */
export type WithAdapter = (base: Params, adapter: AdapterWeights) => E.Either<WeightFailure, Params>

/** The weights that a request samples with, base or adapter, until it leaves. */
export interface WeightUse {
  /** Distinguishes adapters that used the same name one after the other. */
  readonly group: string
  /** Returns the current weights, which change when other weights are loaded. */
  readonly params: () => Params
  readonly release: () => void
}

/** The mutable weights of an engine. */
export interface EngineWeights {
  readonly version: () => number
  /**
   * Number of times that base weights were replaced. Keys and values of different epochs are not
   * mixed.
   */
  readonly epoch: () => number
  readonly adapters: () => readonly string[]
  /** Returns `undefined` for a name that is not loaded or is being unloaded. */
  readonly use: (adapter: string | null) => WeightUse | undefined
  /**
   * Replaces the base weights atomically. If an adapter does not match them, the old weights stay
   * and the new ones are released.
   */
  readonly replace: (params: Owned<Params>, version: number) => E.Either<WeightFailure, number>
  readonly load: (name: string, adapter: AdapterWeights) => E.Either<WeightFailure, void>
  /** Refuses the name from now on. Resolves when its last user has left. */
  readonly unload: (name: string) => E.Either<WeightFailure, Promise<void>>
  readonly release: () => void
}

const refuse = (reason: string): WeightFailure => ({ _tag: 'WeightFailure', receiver: 'engine', reason })

interface Loaded {
  readonly weights: AdapterWeights
  readonly group: string
  params: Owned<Params>
  users: number
  /** Called when the last user leaves. Set when the adapter is being unloaded. */
  gone: (() => void) | null
}

/** The group of requests without an adapter. */
export const BASE_GROUP = ''

/**
 * Makes the weights of an engine, which own `params` and everything made of them until `release`.
 *
 * Effects  a mutable value that is one of the owners of its tensors.
 */
export const makeEngineWeights = (
  params: Params,
  options: { readonly version: number; readonly withAdapter: WithAdapter },
): EngineWeights => {
  const adapters = new Map<string, Loaded>()
  let base = own(params)
  let { version } = options
  let [epoch, loads] = [0, 0]

  const merged = (onto: Params, weights: AdapterWeights): E.Either<WeightFailure, Owned<Params>> => {
    let owned: E.Either<WeightFailure, Owned<Params>> = E.left(refuse('the adapter was not merged'))
    scope(() => {
      owned = E.map((made: Params) => own(made))(options.withAdapter(onto, weights))
    })
    return owned
  }

  /** Merges every adapter into other base weights, or no adapter on failure. */
  const mergedAll = (onto: Params): E.Either<WeightFailure, ReadonlyMap<Loaded, Owned<Params>>> => {
    const made = new Map<Loaded, Owned<Params>>()
    for (const loaded of adapters.values()) {
      const result = merged(onto, loaded.weights)
      if (E.isLeft(result)) {
        for (const owned of made.values()) owned.release()
        return result
      }
      made.set(loaded, result.right)
    }
    return E.right(made)
  }

  const drop = (name: string, loaded: Loaded): void => {
    adapters.delete(name)
    loaded.params.release()
    loaded.gone?.()
  }

  return {
    version: () => version,
    epoch: () => epoch,
    adapters: () => [...adapters].filter(([, loaded]) => loaded.gone === null).map(([name]) => name),
    use: (name) => {
      if (name === null) return { group: BASE_GROUP, params: () => base.value, release: () => {} }
      const loaded = adapters.get(name)
      if (loaded === undefined || loaded.gone !== null) return undefined
      loaded.users++
      return {
        group: loaded.group,
        params: () => loaded.params.value,
        release: () => {
          loaded.users--
          if (loaded.users === 0 && loaded.gone !== null) drop(name, loaded)
        },
      }
    },
    replace: (next, nextVersion) => {
      const others = mergedAll(next.value)
      if (E.isLeft(others)) {
        next.release()
        return others
      }
      base.release()
      base = next
      for (const [loaded, owned] of others.right) {
        loaded.params.release()
        loaded.params = owned
      }
      version = nextVersion
      epoch++
      return E.right(version)
    },
    load: (name, weights) => {
      if (name === '') return E.left(refuse('an adapter needs a name'))
      if (adapters.has(name)) return E.left(refuse(`an adapter named ${name} is already loaded`))
      const result = merged(base.value, weights)
      if (E.isLeft(result)) return result
      loads++
      adapters.set(name, { weights, group: `${loads} ${name}`, params: result.right, users: 0, gone: null })
      return E.right(undefined)
    },
    unload: (name) => {
      const loaded = adapters.get(name)
      if (loaded === undefined || loaded.gone !== null) return E.left(refuse(`no adapter named ${name} is loaded`))
      return E.right(
        new Promise((go) => {
          loaded.gone = go
          if (loaded.users === 0) drop(name, loaded)
        }),
      )
    },
    release: () => {
      for (const [name, loaded] of [...adapters]) drop(name, loaded)
      base.release()
    },
  }
}

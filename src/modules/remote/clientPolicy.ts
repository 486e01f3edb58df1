/** The parts that all wrappers of servers share: one or several clients as one policy. */
import { isLeft } from 'fp-ts/lib/Either.js'
import type { EngineClient } from '../../data/engineClient.js'
import { type EnginePolicy, type EnginePolicyOptions, enginePolicy } from '../generation/policy/enginePolicy.js'
import { type EnginePool, type EnginePoolOptions, enginePool } from './enginePool.js'
import { type GenerateOptions, samplingOf } from './generateOptions.js'

/** The common options of wrappers of all kinds of servers. */
export interface WrapperOptions extends Omit<EnginePolicyOptions, 'engine'> {
  /** Sampling parameters with TorchRL's names. `sampling` takes precedence. */
  readonly generateKwargs?: GenerateOptions
  /** Options for several servers. */
  readonly pool?: EnginePoolOptions
}

/** The options of `enginePolicy` that wrappers pass on. */
const POLICY_OPTIONS: readonly (keyof EnginePolicyOptions)[] = ['name', 'truncate', 'mixedVersions', 'limits', 'ids']

/** A policy on servers of one kind. */
export interface ClientPolicy extends EnginePolicy {
  /** One client per server, to which an updater pushes new weights. */
  readonly clients: readonly EngineClient[]
  /** The pool of several servers, or null for a single one. */
  readonly pool: EnginePool | null
  /** Closes the clients. */
  readonly close: () => Promise<void>
}

/**
 * Makes a policy on a single client, or on a pool of several.
 *
 * Errors   throws TypeError for invalid generation options, and RangeError without clients.
 */
export const clientPolicy = (
  name: string,
  clients: readonly EngineClient[],
  { generateKwargs = {}, pool: poolOptions, sampling, ...options }: WrapperOptions,
): ClientPolicy => {
  // The options of the clients are in the same record.
  const shared = Object.fromEntries(
    Object.entries(options).filter(([option]) => POLICY_OPTIONS.some((name) => name === option)),
  ) as Omit<EnginePolicyOptions, 'engine' | 'sampling'>
  const named = samplingOf(generateKwargs)
  if (isLeft(named)) throw new TypeError(`${name}: ${named.left}`)
  const [only] = clients
  const pool = clients.length === 1 ? null : enginePool(clients, poolOptions)
  const engine = pool ?? only! // a pool of no clients throws
  return {
    ...enginePolicy({ name, ...shared, engine, sampling: { ...named.right, ...sampling } }),
    clients,
    pool,
    close: async () => {
      pool?.close()
      await Promise.all(clients.map((client) => client.close()))
    },
  }
}

/** The parts that all wrappers of servers share: one or several clients as one policy. */
import { isLeft } from 'fp-ts/lib/Either.js'
import { aList, aRecord, aText, eitherOf, type OptionKinds, oneOf } from '../../core/options.js'
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

/** The common options of server wrappers, for `checkOptions`. */
const WRAPPER_OPTIONS: OptionKinds<WrapperOptions> = {
  generateKwargs: aRecord,
  pool: aRecord,
  name: aText,
  ids: aRecord,
  limits: aRecord,
  truncate: eitherOf(aRecord, oneOf('refuse')),
  sampling: aRecord,
  mixedVersions: oneOf('each', 'refuse', 'oldest'),
}

/** The options of a wrapper that makes its clients from addresses, for `checkOptions`. */
export const SERVER_OPTIONS = {
  ...WRAPPER_OPTIONS,
  ...{ url: eitherOf(aText, aList), apiKey: aText, server: aRecord, clients: aList },
}

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
  // The options in WRAPPER_OPTIONS. Those of the clients are in the same record.
  const shared = Object.fromEntries(
    Object.entries(options).filter(([option]) => Object.hasOwn(WRAPPER_OPTIONS, option)),
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

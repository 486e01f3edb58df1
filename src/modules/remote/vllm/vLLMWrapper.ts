import { isLeft } from 'fp-ts/lib/Either.js'
import type { EngineClient } from '../../../data/engineClient.js'
import { type EnginePolicy, type EnginePolicyOptions, enginePolicy } from '../../generation/policy/enginePolicy.js'
import { VLLM_WRAPPER_OPTIONS } from '../../optionKinds.js'
import { checkWrapper } from '../../wrapperNames.js'
import { type EnginePool, type EnginePoolOptions, enginePool } from '../enginePool.js'
import { type GenerateOptions, samplingOf } from '../generateOptions.js'
import { type VLLMClientOptions, vLLMClient } from './client.js'

/** The common settings of all replicas. */
type VLLMServerOptions = Omit<VLLMClientOptions, 'transport' | 'url' | 'apiKey' | 'model' | 'ids'>

export type VLLMWrapperOptions = Omit<EnginePolicyOptions, 'engine'> & {
  /** Sampling parameters with TorchRL's names. `sampling` takes precedence. */
  readonly generateKwargs?: GenerateOptions
  /** Options for several servers. */
  readonly pool?: EnginePoolOptions
} & (
    | {
        /** The address of the server, or of each replica. */
        readonly url: string | readonly string[]
        readonly model: string
        readonly apiKey?: string
        readonly server?: VLLMServerOptions
      }
    | { readonly clients: readonly EngineClient[] }
  )

/** A policy on servers. */
export interface ClientPolicy extends EnginePolicy {
  /** One client per server, to which an updater pushes new weights. */
  readonly clients: readonly EngineClient[]
  /** The pool of several servers, or null for a single one. */
  readonly pool: EnginePool | null
  /** Closes the clients. */
  readonly close: () => Promise<void>
}

/** The options that are those of `enginePolicy`. */
const POLICY_OPTIONS: readonly (keyof EnginePolicyOptions)[] = ['name', 'truncate', 'mixedVersions', 'limits', 'ids']

const clientsOf = (options: VLLMWrapperOptions): readonly EngineClient[] => {
  if ('clients' in options) return options.clients
  const { url, model, apiKey, server } = options
  return [url]
    .flat()
    .map((address) => vLLMClient({ ...server, url: address, model, ...(apiKey !== undefined && { apiKey }) }))
}

/**
 * Makes a policy on a vLLM server or on `tandem serve`, or on several replicas.
 *
 * Log-probabilities are always those of the sampled distribution; other settings are refused. A
 * server with raw ones (vLLM's default) samples at temperature 1 or 0, with any cuts. One started
 * with `--logprobs-mode processed_logprobs` samples at any temperature, without cuts and penalties.
 * The same holds for `tandem serve`.
 *
 * Errors   those of `enginePolicy`. Throws TypeError for an invalid address or invalid generation
 *          options, and RangeError without clients.
 * Effects  sends HTTP requests until `close`.
 * Source   TorchRL `vLLMWrapper`, which records raw log-probabilities at any temperature, and
 *          AgentFly's `AsyncVLLMBackend`.
 *
 * @example
 * const policy = vLLMWrapper({ url: 'http://127.0.0.1:8000', model: 'policy', generateKwargs: { maxNewTokens: 64 } })
 */
export const vLLMWrapper = (options: VLLMWrapperOptions): ClientPolicy => {
  checkWrapper('vLLMWrapper', options, VLLM_WRAPPER_OPTIONS)
  const { generateKwargs = {}, pool: poolOptions, sampling, ...rest } = options
  const shared = Object.fromEntries(
    Object.entries(rest).filter(([option]) => POLICY_OPTIONS.some((name) => name === option)),
  ) as Omit<EnginePolicyOptions, 'engine' | 'sampling'> // the others are for clients
  const named = samplingOf(generateKwargs)
  if (isLeft(named)) throw new TypeError(`vLLMWrapper: ${named.left}`)
  const clients = clientsOf(options)
  const [only] = clients
  const pool = clients.length === 1 ? null : enginePool(clients, poolOptions)
  const engine = pool ?? only! // a pool of no clients throws
  return {
    ...enginePolicy({ name: 'vLLMWrapper', ...shared, engine, sampling: { ...named.right, ...sampling } }),
    clients,
    pool,
    close: async () => {
      pool?.close()
      await Promise.all(clients.map((client) => client.close()))
    },
  }
}

import type { EngineClient } from '../../../data/engineClient.js'
import { VLLM_WRAPPER_OPTIONS } from '../../optionKinds.js'
import { checkWrapper } from '../../wrapperNames.js'
import { type ClientPolicy, clientPolicy, type WrapperOptions } from '../clientPolicy.js'
import { type VLLMClientOptions, vLLMClient } from './client.js'

/** The common settings of all replicas. */
type VLLMServerOptions = Omit<VLLMClientOptions, 'transport' | 'url' | 'apiKey' | 'model' | 'ids'>

export type VLLMWrapperOptions = WrapperOptions &
  (
    | {
        /** The address of the server, or of each replica. */
        readonly url: string | readonly string[]
        readonly model: string
        readonly apiKey?: string
        readonly server?: VLLMServerOptions
      }
    | { readonly clients: readonly EngineClient[] }
  )

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
 *          options.
 * Effects  sends HTTP requests until `close`.
 * Source   TorchRL `vLLMWrapper`, which records raw log-probabilities at any temperature, and
 *          AgentFly's `AsyncVLLMBackend`.
 *
 * @example
 * const policy = vLLMWrapper({ url: 'http://127.0.0.1:8000', model: 'policy', generateKwargs: { maxNewTokens: 64 } })
 */
export const vLLMWrapper = (options: VLLMWrapperOptions): ClientPolicy => {
  checkWrapper('vLLMWrapper', options, VLLM_WRAPPER_OPTIONS)
  return clientPolicy('vLLMWrapper', clientsOf(options), options)
}

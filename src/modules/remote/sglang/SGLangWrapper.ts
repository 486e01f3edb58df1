/** SGLang as a policy. */
import type { EngineClient } from '../../../data/engineClient.js'
import { SGLANG_WRAPPER_OPTIONS } from '../../optionKinds.js'
import { checkWrapper } from '../../wrapperNames.js'
import { type ClientPolicy, clientPolicy, type WrapperOptions } from '../clientPolicy.js'
import { type SGLangClientOptions, sglangClient } from './client.js'

export type SGLangWrapperOptions = WrapperOptions &
  (
    | {
        /** The address of the server, or of each replica. */
        readonly url: string | readonly string[]
        readonly apiKey?: string
        /** Settings for the client of each. */
        readonly server?: Omit<SGLangClientOptions, 'url' | 'apiKey' | 'transport'>
      }
    | { readonly clients: readonly EngineClient[] }
  )

const clientsOf = (options: SGLangWrapperOptions): readonly EngineClient[] => {
  if ('clients' in options) return options.clients
  const { url, apiKey, server } = options
  return [url].flat().map((each) => sglangClient({ ...server, url: each, ...(apiKey !== undefined && { apiKey }) }))
}

/**
 * Makes a policy on an SGLang server, or on several replicas.
 *
 * Experimental: written from SGLang's source and tested against stand-in servers, but not yet
 * against a real SGLang server.
 *
 * SGLang reports log-probabilities at the sampling temperature, before cuts, so any temperature and
 * any cut is supported. Penalties and biases affect them and are therefore refused.
 *
 * Errors   those of `enginePolicy`. Throws TypeError for an invalid address or invalid generation
 *          options.
 * Effects  sends HTTP requests until `close`.
 * Source   TorchRL `SGLangWrapper`.
 *
 * @example
 * const policy = SGLangWrapper({ url: 'http://127.0.0.1:30000', sampling: { maxTokens: 64 } })
 */
export const SGLangWrapper = (options: SGLangWrapperOptions): ClientPolicy => {
  checkWrapper('SGLangWrapper', options, SGLANG_WRAPPER_OPTIONS)
  return clientPolicy('SGLangWrapper', clientsOf(options), options)
}

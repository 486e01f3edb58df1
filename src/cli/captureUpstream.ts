/** The servers that `tandem capture` stands in front of. */
import { liveTransport } from '../live/transport/liveTransport.js'
import { SGLangClient } from '../modules/remote/sglang/client.js'
import { vLLMClient } from '../modules/remote/vllm/client.js'
import type { ConnectUpstream } from './capture.js'

/** A client of the server, whose key no message shows. */
export const connectUpstream: ConnectUpstream = ({ url, kind, model, apiKey }) => {
  const transport = liveTransport({
    servers: url,
    ...(apiKey !== null && { headers: { authorization: `Bearer ${apiKey}` } }),
  })
  return kind === 'sglang' ? SGLangClient({ transport }) : vLLMClient({ transport, model, delivery: 'stream' })
}

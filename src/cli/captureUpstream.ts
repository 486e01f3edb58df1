/** The servers that `tandem capture` stands in front of. */
import { liveTransport } from '../live/transport/liveTransport.js'
import { SGLangClient } from '../modules/remote/sglang/client.js'
import { vLLMClient } from '../modules/remote/vllm/client.js'
import type { ConnectUpstream } from './capture.js'

/** How long the server may take to say what it is: a server that works does so at once. */
const CONTROL_MS = 30_000

/** A client of the server, whose key no message shows. */
export const connectUpstream: ConnectUpstream = ({ url, kind, model, apiKey, deadlineMs }) => {
  const transport = liveTransport({
    servers: url,
    deadlineMs,
    ...(apiKey !== null && { headers: { authorization: `Bearer ${apiKey}` } }),
  })
  const controlMs = Math.min(deadlineMs, CONTROL_MS)
  return kind === 'sglang'
    ? SGLangClient({ transport, limits: { controlMs } })
    : vLLMClient({ transport, model, delivery: 'stream', controlMs })
}

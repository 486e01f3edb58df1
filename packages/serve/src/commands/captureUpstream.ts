/** The client of the server behind `tandem capture`. */
import { liveTransport } from '@tandem-rl/host'
import { vLLMClient } from 'tandem-rl/remote'
import type { ConnectUpstream } from './capture.js'

/** Time limit of control requests, which a healthy server answers at once. */
const CONTROL_MS = 30_000

/** Makes a client of the server. The API key is never included in messages. */
export const connectUpstream: ConnectUpstream = ({ url, model, apiKey, deadlineMs }) => {
  const transport = liveTransport({
    url,
    deadlineMs,
    ...(apiKey !== null && { headers: { authorization: `Bearer ${apiKey}` } }),
  })
  const controlMs = Math.min(deadlineMs, CONTROL_MS)
  return vLLMClient({ transport, model, delivery: 'stream', controlMs })
}

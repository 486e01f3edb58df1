/** The real server that `npm run verify -- engines` starts, and its requests besides answers. */
import { Client } from 'undici'

/** The server that `scripts/verify/engines.ts` started. */
export interface EngineTarget {
  readonly url: string
  readonly model: string
  readonly folder: string
  readonly apiKey: string
  readonly logProbsMode: 'raw' | 'processed'
}

/** Throws without a server: `npm run verify -- engines` runs these tests. */
export const engineTarget = (): EngineTarget => {
  const told = process.env.ENGINE_TARGET
  if (told === undefined) throw new Error('run these tests by `npm run verify -- engines`, which starts a server')
  return JSON.parse(told) as EngineTarget // written by scripts/verify/engines.ts
}

/** Requests that run on a server with vLLM's metrics. */
export const runningAt = (url: string) => async (): Promise<number> => {
  const client = new Client(url) // of its own: servers close idle connections without a word
  const { body } = await client.request({ path: '/metrics', method: 'GET' })
  const text = await body.text()
  await client.close()
  const counts = [...text.matchAll(/^vllm:num_requests_running(?:\{[^}]*\})? (\S+)$/gm)].map(([, count]) =>
    Number(count),
  )
  if (counts.length === 0) throw new Error('the server tells no vllm:num_requests_running')
  return counts.reduce((sum, count) => sum + count, 0)
}

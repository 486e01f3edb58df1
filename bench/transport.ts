/**
 * Measures the cost of a request for the client: requests per second and processor time per
 * request, of the transport and of bare undici, against the same trivial server in another
 * process, in turns.
 */
import { fork } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { median } from '@tandem-rl/base'
import { liveTransport } from '@tandem-rl/host'
import { Agent, request } from 'undici'

const ANSWER = JSON.stringify({ ids: Array.from({ length: 200 }, (_, i) => i) })
const BODY = { prompt: Array.from({ length: 500 }, (_, i) => i) }
const REQUESTS = 4000
const CONCURRENCY = 64
const ROUNDS = 5

const serve = (): void => {
  const server = createServer((incoming, response) => {
    incoming.resume().on('end', () => response.writeHead(200, { 'content-type': 'application/json' }).end(ANSWER))
  })
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port)) // a TCP server
}

/** Requests in a second, and microseconds of processor time for each. */
const measure = async (send: () => Promise<string>): Promise<readonly [number, number]> => {
  const startMs = performance.now()
  const used = process.cpuUsage()
  let left = REQUESTS
  const worker = async (): Promise<void> => {
    while (left-- > 0) if ((await send()) !== ANSWER) throw new Error('a wrong answer')
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
  const { user, system } = process.cpuUsage(used)
  return [(REQUESTS * 1000) / (performance.now() - startMs), (user + system) / REQUESTS]
}

const main = async (): Promise<void> => {
  const child = fork(fileURLToPath(import.meta.url), ['serve'])
  const port = await new Promise<number>((resolve) => child.once('message', (said) => resolve(Number(said))))
  const url = `http://127.0.0.1:${port}`
  const transport = liveTransport({ url, connections: CONCURRENCY })
  const agent = new Agent({ connections: CONCURRENCY, pipelining: 1 })
  const sides = {
    transport: async () => {
      const reply = await transport.send({ method: 'POST', path: '/', json: BODY, repeat: 'fresh' })()
      return reply._tag === 'Right' ? reply.right.text : reply.left.reason
    },
    undici: async () => {
      const reply = await request(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(BODY),
        dispatcher: agent,
      })
      return reply.body.text()
    },
  }
  const rounds = { transport: [] as (readonly [number, number])[], undici: [] as (readonly [number, number])[] }
  for (let round = 0; round <= ROUNDS; round++)
    for (const name of ['transport', 'undici'] as const) {
      const figures = await measure(sides[name])
      if (round > 0) rounds[name].push(figures) // the first round warms up
    }
  const report = (name: keyof typeof rounds): readonly [number, number] => {
    const perSecond = median(rounds[name].map(([rate]) => rate))
    const micros = median(rounds[name].map(([, each]) => each))
    process.stdout.write(`${name}: ${perSecond.toFixed(0)} requests/s, ${micros.toFixed(0)} us of processor each\n`)
    return [perSecond, micros]
  }
  const [ours, theirs] = [report('transport'), report('undici')]
  process.stdout.write(`ratio of processor time: ${(ours[1] / theirs[1]).toFixed(2)}\n`)
  await transport.close()
  await agent.close()
  child.kill()
}

if (process.argv[2] === 'serve') serve()
else await main()
